//! Links: in the place of protected names, out of the project, and swapped while
//! somebody looks.

use super::each;
use atoll_testkit::picture::picture;
use atoll_testkit::run::{Ran, User};

#[test]
fn a_link_in_the_place_of_a_protected_name_guards_its_target_and_stays() {
    const SET_UP: &str = "mkdir -p conf/code dir; echo a > conf/code/tasks.json; \
        ln -s conf/code .vscode; ln -s /etc/hostname .envrc; ln -s nowhere .mcp.json; \
        ln -s .idea .idea; ln -s loop .zed; ln -s .zed loop; ln -s $PWD/../outside .claude; \
        ln -s $PWD/dir .cursor; ln -s ../outside/missing/deep .husky; ln -s dir/../dir .fleet";
    const WAYS: &[&str] = &[
        "echo x > conf/code/tasks.json",
        "echo x > .vscode/launch.json",
        "mv conf gone",
        "mv conf/code conf/gone",
        "rm -r conf",
        "echo x > nowhere",
        "echo x > .claude/settings.json",
        "echo x > .cursor/mcp.json",
        "echo x > dir/mcp.json",
        "rm .idea",
        "ln -sfn dir .zed",
        "mv .envrc gone",
        "rm .vscode && mkdir .vscode",
        "python3 -c 'import os; os.rename(\"dir\", \".vscode\")'",
    ];
    each(|project| {
        let _ran = project.outside();
        assert_eq!(project.bare_sh(SET_UP).code(), Some(0));
        let (before, outside) = (picture(&project.root()), picture(&project.outside()));
        let ways: String = WAYS
            .iter()
            .enumerate()
            .map(|(number, way)| format!("({way}) 2>/dev/null && echo 'done: {number}'\n"))
            .collect();
        let run = project.run_sh(&[], &format!("{ways} cat .vscode/tasks.json; echo x > plain"));
        assert_eq!(run.stdout(), "a\n", "{}", run.text());
        assert_eq!(run.code(), Some(0));
        assert_eq!(project.read("plain"), "x\n");
        let mut after = picture(&project.root());
        after.remove(std::path::Path::new("plain"));
        assert_eq!(after, before);
        assert_eq!(picture(&project.outside()), outside);
        for way in WAYS.iter().filter(|way| !way.contains("os.rename")) {
            let script = format!("find . -mindepth 1 -delete; {SET_UP}; set -e; {way}");
            let bare = project.bare_sh(&script);
            assert_eq!(bare.code(), Some(0), "the control {way}: {}", bare.text());
        }
    });
}

#[test]
fn links_do_not_lead_out_of_the_project() {
    const WAYS: &[&str] = &[
        "echo x > out/x",
        "echo x > file",
        "echo x >> file",
        "truncate -s 0 file",
        "mkdir out/d",
        "touch t && mv t out/t",
        "touch t && mv t out/old",
        "ln -s x out/l",
        "mkfifo out/p",
        "rm out/old",
        "chmod 777 out/old",
        "touch t && ln t out/t",
        "echo x > out/../outside/x",
        "cd out && echo x > x",
        "python3 -c 'import os; os.truncate(\"file\", 0)'",
        "touch -d 2001-01-01 file",
    ];
    each(|project| {
        let outside = project.outside();
        project.write("ok", "");
        let set_up = format!(
            "rm -rf {0}/* out file; echo a > {0}/old; ln -s {0} out; ln -s {0}/old file",
            outside.display()
        );
        assert_eq!(project.bare_sh(&set_up).code(), Some(0));
        let before = picture(&outside);
        let ways: String = WAYS
            .iter()
            .enumerate()
            .map(|(number, way)| format!("({way}) 2>/dev/null && echo 'done: {number}'\n"))
            .collect();
        let text = outside.to_str().unwrap();
        // What is not shown is not there; what is shown for reading stays.
        for (flags, seen) in [(vec![], ""), (vec!["--read", text], "a\n")] {
            let run = project.run_sh(&flags, &format!("{ways} cat file 2>/dev/null; true"));
            assert_eq!(run.stdout(), seen, "{}", run.text());
            assert_eq!(picture(&outside), before);
        }
        for way in WAYS {
            let bare = project.bare_sh(&format!("{set_up}; set -e; {way}"));
            assert_eq!(bare.code(), Some(0), "the control {way}: {}", bare.text());
        }
    });
}

/// Swaps `x` between a directory and links to the arguments, while calls go through
/// it.
const RACE: &str = r#"
import os, signal, sys
targets, rounds = sys.argv[2:], int(sys.argv[1])
os.mkdir("x")
swapper = os.fork()
if swapper == 0:
    while True:
        for target in targets:
            try:
                os.rename("x", "away"); os.symlink(target, "x")
                os.unlink("x"); os.rename("away", "x")
            except OSError:
                pass
def put(path):
    open(path, "w").close()
acts = [
    lambda n: put(f"x/f{n}"),
    lambda n: os.mkdir(f"x/d{n}"),
    lambda n: os.symlink("t", f"x/l{n}"),
    lambda n: (put("t"), os.rename("t", f"x/r{n}")),
    lambda n: os.truncate("x/victim", 0),
    lambda n: os.chmod("x/victim", 0o777),
    lambda n: os.unlink("x/victim"),
]
done = 0
for n in range(rounds):
    try:
        acts[n % len(acts)](n)
        done += 1
    except OSError:
        pass
os.kill(swapper, signal.SIGKILL)
os.waitpid(swapper, 0)
print("done", done > 0)
"#;

#[test]
fn a_link_that_is_swapped_during_the_check_never_leads_to_what_is_guarded() {
    each(|project| {
        let outside = project.outside();
        let text = outside.to_str().unwrap();
        let set_up =
            format!("git init -q .; for d in .git/hooks {text}; do echo a > $d/victim; done");
        assert_eq!(project.bare_sh(&set_up).code(), Some(0));
        let guarded = || (picture(&project.root().join(".git")), picture(&outside));
        let before = guarded();
        let race = |rounds: &str| -> Vec<String> {
            ["python3", "-c", RACE, rounds, ".git/hooks", text].map(str::to_owned).into()
        };
        let mut command = project.atoll(&["run", "--read", text, "--"]);
        // 10,000 rounds, by all users together.
        let rounds = 10_000 / User::all().len();
        let run = Ran(command.args(race(&rounds.to_string())).output().unwrap());
        assert_eq!(run.stdout(), "done True\n", "{}", run.text());
        assert_eq!(guarded(), before);
        let _ran = project.bare_sh("rm -rf x away t");
        // The control: without a judge it leads there soon.
        for _ in 0..10 {
            let race = race("10000");
            project.bare(&race[0]).args(&race[1..]).output().unwrap();
            if guarded() != before {
                return;
            }
            let _ran = project.bare_sh("rm -rf x away t");
        }
        panic!("the race hits nothing without a judge either");
    });
}

#[test]
fn hard_links_do_not_bring_outside_files_in() {
    each(|project| {
        let outside = project.outside();
        let tools = project.home().join(".local/bin");
        let set_up = format!(
            "mkdir -p {0}; echo tool > {0}/tool; echo a > {1}/file; ln {1}/file linked",
            tools.display(),
            outside.display()
        );
        assert_eq!(project.bare_sh(&set_up).code(), Some(0));
        let text = outside.to_str().unwrap();
        let script = format!(
            "ln {text}/file one; ln ~/.local/bin/tool two; ln -P /etc/hostname three; \
             python3 -c 'import os; f = os.open(\"{text}/file\", os.O_RDONLY); \
             os.link(f\"/proc/self/fd/{{f}}\", \"four\", follow_symlinks=True)'; ls"
        );
        for flag in ["--read", "--write"] {
            let run = project.run_sh(&[flag, text], &script);
            assert_eq!(run.stdout(), "linked\n", "{}", run.text());
            assert!(run.stderr().contains("cross-device link"), "{}", run.text());
        }
        assert_eq!(
            project.bare_sh(&format!("ln {text}/file one && ln ~/.local/bin/tool two")).code(),
            Some(0)
        );
        // One that the project already holds is a file of the project.
        assert_eq!(project.run_sh(&[], "echo b > linked").code(), Some(0));
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "b\n");
    });
}

#[test]
fn a_directory_that_became_a_link_since_the_last_run_is_not_followed() {
    each(|project| {
        let outside = project.outside();
        let secret = project.home().join("secret");
        assert_eq!(
            project.bare_sh("mkdir ~/secret; echo s > ~/secret/s; mkdir out").code(),
            Some(0)
        );
        let grant = project.root().join("out");
        let flags = ["--write", grant.to_str().unwrap()];
        // A granted directory lies where the sandbox can replace it.
        let run = project.run_sh(&flags, "touch out/made; ls out");
        assert_eq!(run.stdout(), "made\n", "{}", run.text());
        let swap = format!("rm -rf out; ln -s {} out", secret.display());
        assert_eq!(project.bare_sh(&swap).code(), Some(0));
        let run = project.run_sh(&flags, "cat out/s; echo x > out/x");
        assert_eq!(run.code(), Some(125), "{}", run.text());
        assert!(run.stderr().contains("leads through a link in"), "{}", run.text());
        assert!(!secret.join("x").exists());
        // Whoever means it can say so, and a link outside is the user's own.
        let run = project.run_sh(&["--read", secret.to_str().unwrap()], "cat ~/secret/s");
        assert_eq!(run.stdout(), "s\n", "{}", run.text());
        let own = project.home().join("own");
        assert_eq!(project.bare_sh("ln -s secret ~/own").code(), Some(0));
        let run = project.run_sh(&["--read", own.to_str().unwrap()], "cat ~/secret/s");
        assert_eq!(run.stdout(), "s\n", "{}", run.text());
        // So does the project's cache, as far as another program goes.
        let caches = project.home().join(".cache/atoll/projects");
        let swap = format!(
            "cd {}; for d in *-*; do mv $d old; ln -s {} $d; done",
            caches.display(),
            outside.display()
        );
        assert_eq!(project.bare_sh(&swap).code(), Some(0));
        let run = project.run_sh(&[], "echo x > ~/.cache/x");
        assert_eq!(run.code(), Some(125), "{}", run.text());
        assert!(run.stderr().contains("the project's cache cannot be opened"), "{}", run.text());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    });
}

#[test]
fn what_is_writable_comes_from_the_session_and_not_from_the_command() {
    each(|project| {
        let outside = project.outside();
        project.write("sub/file", "");
        let text = outside.to_str().unwrap();
        // Variables that a repository or an agent may set name no project.
        let script = format!("pwd; ls -d {text}; (echo x > {text}/x); true");
        let mut command = project.atoll(&["run", "--", "sh", "-c", &script]);
        command.env("PWD", text).env("GIT_DIR", text).env("GIT_WORK_TREE", text);
        let run = Ran(command.output().unwrap());
        assert_eq!(run.stdout(), format!("{}\n", project.root().display()), "{}", run.text());
        // Where the command goes changes nothing.
        let script = format!(
            "cd {text} || cd /; mkdir -p {text}; (echo x > {text}/x); \
            (cd / && echo x > x) 2>/dev/null && echo root; (cd /etc && echo x > x) 2>/dev/null && echo etc; true"
        );
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        // A subdirectory is no project of its own when it lies in a work tree.
        assert_eq!(project.bare_sh("git init -q .").code(), Some(0));
        let mut command = project.atoll(&["run", "--", "sh", "-c", "pwd; echo x > ../beside"]);
        let run = Ran(command.current_dir(project.root().join("sub")).output().unwrap());
        assert_eq!(run.stdout(), format!("{}/sub\n", project.root().display()), "{}", run.text());
        assert_eq!(project.read("beside"), "x\n");
    });
}
