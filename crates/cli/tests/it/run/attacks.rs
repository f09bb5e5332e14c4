//! Ways out that were tried and once worked.

use super::each;
use atoll_testkit::run::{Project, Ran, User};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Runs `first` inside, then saves `path` anew on the host by a rename, then waits
/// until it is hidden and says how that ended.
fn after_a_save(project: &Project, first: &str, path: &str) -> String {
    after_a_save_seen_from(project, &["--"], first, path)
}

/// The same by a shell that is started in this way.
fn after_a_save_seen_from(project: &Project, way: &[&str], first: &str, path: &str) -> String {
    let script = format!(
        "{first}; cat {path} 2>/dev/null; echo ready; read go; i=0; \
         while [ $i -lt 500 ] && cat {path} >/dev/null 2>&1; do i=$((i+1)); done; \
         if cat {path} 2>/dev/null; then echo readable; else echo hidden; fi"
    );
    let mut run = project.atoll(&["run", "--timeout", "60s"]);
    run.args(way).args(["sh", "-c", &script]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ready" {}
    let saved = project.write(".new", "new secret\n");
    std::fs::rename(saved, project.root().join(path)).unwrap();
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let told: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(run.wait().unwrap().success());
    told.join("\n")
}

#[test]
fn limits_of_the_helper_are_not_the_commands_to_set() {
    each(|project| {
        project.write(".env", "old secret\n");
        project.write(".atollignore", ".env\n");
        let limit = "for pid in 1 2; do prlimit --pid $pid --nofile=0:0 && echo limited; done";
        // The control: another process of the command's own.
        let run = project.run_sh(&[], "sleep 60 & prlimit --pid $! --nofile=0:0 && echo limited");
        assert_eq!(run.stdout(), "limited\n", "{}", run.text());
        assert_eq!(after_a_save(project, limit, ".env"), "hidden");
        let run = project.run_sh(&[], limit);
        assert_eq!(run.stdout(), "", "{}", run.text());
    });
}

#[test]
fn a_mask_comes_back_in_a_directory_that_was_renamed() {
    each(|project| {
        project.write("a/.env", "old secret\n");
        // The control: without a rule the new content is there to be read.
        let told = after_a_save(project, "mv a b", "b/.env");
        assert_eq!(told, "new secret\nreadable");
        project.write(".atollignore", ".env\n");
        assert_eq!(after_a_save(project, "mv b c", "c/.env"), "hidden");
    });
}

#[test]
fn a_mask_comes_back_in_mount_namespaces_of_the_commands_own() {
    const WAY: [&str; 9] = [
        "--allow",
        "nested-userns",
        "--",
        "unshare",
        "--user",
        "--keep-caps",
        "--mount",
        "--propagation",
        "unchanged",
    ];
    each(|project| {
        project.write("a/.env", "old secret\n");
        // The control: without a rule the new content is there to be read.
        let told = after_a_save_seen_from(project, &WAY, "true", "a/.env");
        assert_eq!(told, "new secret\nreadable");
        project.write(".atollignore", ".env\n");
        assert_eq!(after_a_save_seen_from(project, &WAY, "true", "a/.env"), "hidden");
        let deeper = [&WAY[..], &["unshare", "--mount", "--propagation", "unchanged"]].concat();
        assert_eq!(after_a_save_seen_from(project, &deeper, "true", "a/.env"), "hidden");
    });
}

/// Takes hold of files of a process without any right, then opens what it holds.
const REOPEN: &str = r#"
import os, sys
process = sys.argv[1]
for name in sys.argv[2:]:
    held = os.open(f"/proc/{process}/{name}", os.O_PATH)
    for link in (f"/proc/self/fd/{held}", f"/dev/fd/{held}", f"/proc/thread-self/fd/{held}"):
        try:
            os.open(link, os.O_RDONLY | os.O_CREAT)
            print("opened", name)
        except PermissionError:
            print("refused", name)
"#;

#[test]
fn what_pid_1_may_see_of_itself_is_not_opened_by_way_of_a_descriptor() {
    const NAMES: [&str; 6] = ["maps", "smaps", "fd", "fdinfo", "task/1/maps", "task/1/fd"];
    each(|project| {
        let outcomes = |word: &str, names: &[&str]| {
            names.iter().map(|name| format!("{word} {name}\n").repeat(3)).collect::<String>()
        };
        let way = [&["-c", REOPEN, "1"], &NAMES[..], &["comm"]].concat();
        let all = format!("{}{}", outcomes("refused", &NAMES), outcomes("opened", &["comm"]));
        for flags in [
            &["--workspace", "live"][..],
            &["--workspace", "live", "--strict-ignore", "--hide", "x"],
            &["--workspace", "live", "--allow", "nested-userns"],
        ] {
            let mut run = project.atoll(&["run"]);
            let run = Ran(run.args(flags).args(["--", "python3"]).args(&way).output().unwrap());
            assert_eq!(run.stdout(), all, "{}", run.text());
            assert!(run.stderr().contains("rule supervisor"), "{}", run.text());
        }
        // The control: a process's own.
        let own = [&["-c", REOPEN, "self"], &NAMES[..2]].concat();
        let bare = Ran(project.bare("python3").args(own).output().unwrap());
        assert_eq!(bare.stdout(), outcomes("opened", &NAMES[..2]), "{}", bare.text());
    });
}

#[test]
fn masks_stay_inside_where_the_hosts_mounts_are_shared() {
    each(|project| {
        // Only root can show what such a host is like; others never have its mounts.
        if project.user != User::Root {
            return;
        }
        project.write(".env", "secret\n");
        project.write(".atollignore", ".env\n");
        project.write("other", "other\n");
        let on_shared = |words: &[&str]| {
            let shown = "\"$@\"; cat .env; grep -c masked /proc/self/mountinfo";
            let mut shared = project.bare("unshare");
            shared.args(["--mount", "--propagation", "shared", "sh", "-c", shown, "sh"]);
            Ran(shared.args(words).output().unwrap()).stdout()
        };
        let atoll = project.program().to_str().unwrap();
        for mode in ["live", "review"] {
            let run = [atoll, "run", "--workspace", mode, "--", "sh", "-c", "cat .env; echo ran"];
            assert_eq!(on_shared(&run), "ran\nsecret\n0\n", "{mode}");
        }
        // The control.
        let away = ["unshare", "--mount", "--propagation", "unchanged"];
        let mounted = [&away[..], &["mount", "--bind", "other", ".env"]].concat();
        assert_eq!(on_shared(&mounted), "other\n0\n");
    });
}

/// Moves a directory of the project again and again, and meanwhile puts links in the
/// places of directories that are made for it.
const SWAP: &str = r#"
import os, sys, threading
target = sys.argv[1]
swapped, is_done = 0, False
def swap():
    global swapped
    while not is_done:
        for stage in os.listdir("."):
            for name in [f"{stage}/closed{number}" for number in range(40)]:
                try:
                    if "move-" in stage and not os.path.islink(name):
                        os.rename(name, f"{name}-away")
                        os.symlink(target, name)
                        swapped += 1
                except OSError:
                    pass
thread = threading.Thread(target=swap, daemon=True)
thread.start()
for number in range(40):
    try:
        os.rename("d", "e")
        os.rename("e", "d")
    except OSError:
        pass
is_done = True
thread.join()
print("swapped" if swapped else "never")
"#;

#[test]
fn a_link_in_a_directory_under_way_changes_nothing_elsewhere() {
    each(|project| {
        let outside = project.outside();
        project.bare("git").args(["init", "-q"]).arg(&outside).status().unwrap();
        let hook = outside.join(".git/hooks/pre-commit");
        std::fs::write(&hook, "exit 0\n").unwrap();
        project.user.give(&hook);
        let mode = || std::fs::metadata(&hook).unwrap().permissions().mode() & 0o777;
        let before = mode();
        let made = "for i in $(seq 0 39); do mkdir -p d/closed$i/in; echo x > d/closed$i/in/f; \
                    chmod 577 d/closed$i; done";
        assert_eq!(project.bare_sh(made).code(), Some(0));
        let (place, hook) = (outside.to_str().unwrap(), hook.to_str().unwrap());
        let mut run = project.atoll(&["run", "--workspace", "review", "--write", place, "--"]);
        let run = Ran(run.args(["python3", "-c", SWAP, hook]).output().unwrap());
        assert_eq!(run.code(), Some(0), "{}", run.text());
        if project.user == User::Ordinary {
            assert_eq!(run.stdout(), "swapped\n", "{}", run.text());
        }
        assert_eq!(mode(), before, "{}", run.text());
        // The control.
        project.bare("chmod").args(["577", hook]).status().unwrap();
        assert_eq!(mode(), 0o577);
    });
}

#[test]
fn a_directory_is_not_moved_away_from_the_rule_that_hides_in_it() {
    each(|project| {
        project.write("a/key", "secret\n");
        project.write("x/y", "");
        project.write(".atollignore", "/a/key\n/b/key\n");
        let run = project.run_sh(&[], "mv a c; mv x/y x/z; mv x a/x; cat c/key; cat a/key");
        assert_ne!(run.code(), Some(0), "{}", run.text());
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert!(run.stderr().contains("rule hidden"), "{}", run.text());
        assert_eq!(project.bare_sh("ls a a/x").stdout(), "a:\nkey\nx\n\na/x:\nz\n");
        // Where it stays hidden it may go, and is followed there.
        let run = project.run_sh(&[], "mv a b && mv b c");
        assert_ne!(run.code(), Some(0), "{}", run.text());
        let run = project.run_sh(&[], "cat b/key");
        assert_eq!(run.stdout(), "", "{}", run.text());
        // The control.
        assert_eq!(project.bare_sh("mv b c && cat c/key").stdout(), "secret\n");
    });
}

/// Ways to another `a/b` by its directory.
const BY_ITS_DIRECTORY: [&str; 3] = [
    "mv a c && echo changed > c/b && mv c a",
    "mkdir d && echo changed > d/b; rm -rf a; mv -T d a",
    "mkdir d && echo changed > d/b; rm -rf a; ln -sT d a",
];

#[test]
fn what_is_denied_is_not_changed_by_moving_its_directory() {
    each(|project| {
        project.write("atoll.toml", "[protect]\ndeny = [\"a/b\"]\n");
        let anew = "rm -rf a c d; mkdir a; echo kept > a/b";
        for way in BY_ITS_DIRECTORY {
            assert_eq!(project.bare_sh(anew).code(), Some(0));
            let run = project.run_sh(&[], way);
            assert!(run.stderr().contains("user-deny"), "{}", run.text());
            assert_eq!(project.read("a/b"), "kept\n", "{way}");
            // What is not there yet cannot be put there either.
            assert_eq!(project.bare_sh("rm -rf a c d").code(), Some(0));
            let run = project.run_sh(&[], way);
            assert!(!project.root().join("a/b").exists(), "{way}\n{}", run.text());
            // The control.
            assert_eq!(project.bare_sh(&format!("{anew}; {way}")).code(), Some(0));
            assert_eq!(project.read("a/b"), "changed\n");
        }
        // Other directories, beside it and above it, move as they like.
        let run = project.run_sh(&[], "mkdir -p x a/k && mv x y && mv a/k a/l && mv y a/m");
        assert_eq!(run.code(), Some(0), "{}", run.text());
    });
}

#[test]
fn the_users_policy_is_not_planted_by_moving_its_directory() {
    each(|project| {
        let config = project.home().join(".config");
        std::fs::create_dir(&config).unwrap();
        project.user.give(&config);
        let root = config.to_str().unwrap();
        let script = "mkdir x && echo '[kernel]' > x/config.toml; mv x atoll; ln -s x atoll";
        let run = project.run_sh(&["--project", root], &format!("cd {root}; {script}"));
        assert_ne!(run.code(), Some(0), "{}", run.text());
        assert!(!config.join("atoll").exists(), "{}", run.text());
        // The control.
        let _done = project.bare_sh(&format!("cd {root}; rm -rf x; {script}"));
        assert!(config.join("atoll/config.toml").exists());
    });
}

#[test]
fn what_is_kept_for_other_projects_is_no_project() {
    each(|project| {
        assert_eq!(project.run_sh(&[], "true").code(), Some(0));
        let home = project.home();
        std::fs::create_dir_all(home.join(".local/state")).unwrap();
        std::fs::create_dir_all(home.join(".cache/other")).unwrap();
        project.user.give(&home.join(".local"));
        project.user.give(&home.join(".cache/other"));
        for place in [".cache", ".cache/atoll/projects", ".local", ".local/state"] {
            let place = home.join(place);
            let run = project.run_sh(&["--project", place.to_str().unwrap()], "echo inside");
            assert_eq!(run.stdout(), "", "{}", run.text());
            assert!(run.stderr().contains("files of other projects"), "{}", run.text());
            let run = project.run_sh(&["--write", place.to_str().unwrap()], "echo inside");
            assert_eq!(run.stdout(), "", "{}", run.text());
        }
        let other = home.join(".cache/other");
        let run = project.run_sh(&["--project", other.to_str().unwrap()], "echo inside");
        assert_eq!(run.stdout(), "inside\n", "{}", run.text());
    });
}

#[test]
fn a_directory_is_no_standard_descriptor() {
    each(|project| {
        let outside = project.outside().join("file");
        std::fs::write(&outside, "").unwrap();
        project.user.give(&outside);
        let mode = || std::fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        let script = "chmod 700 /proc/self/fd/0/file";
        let directory = || std::fs::File::open(project.outside()).unwrap();
        let before = mode();
        for workspace in ["live", "review", "none"] {
            let mut run =
                project.atoll(&["run", "--workspace", workspace, "--", "sh", "-c", script]);
            let run = run.stdin(directory()).output().unwrap();
            assert!(!run.status.success());
            let stderr = String::from_utf8_lossy(&run.stderr);
            assert!(stderr.contains("standard input is a directory"), "{stderr}");
            assert_eq!(mode(), before);
        }
        // The control.
        let mut bare = project.bare("sh");
        assert!(bare.args(["-c", script]).stdin(directory()).status().unwrap().success());
        assert_eq!(mode(), 0o700);
    });
}
