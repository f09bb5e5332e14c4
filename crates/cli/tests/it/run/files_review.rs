//! A project under review: what the session did, what of it is told, and what it
//! leaves on the host when it is applied or discarded.

use super::each;
use atoll_testkit::picture::picture;
use atoll_testkit::run::{Project, Ran};
use std::path::Path;
use std::process::Command;

const REVIEW: &[&str] = &["--workspace", "review"];

fn atoll(project: &Project, arguments: &[&str]) -> Ran {
    Ran(project.atoll(arguments).output().unwrap())
}

/// A project with one of everything.
const SET_UP: &str = "mkdir -p src/deep emptied replaced/sub kept; echo a > src/deep/a; echo b > src/b; \
    echo c > changed; echo d > deleted; echo m > mode; echo l > first; ln first second; \
    ln -s src/b link; ln -s missing dangling; truncate -s 1M sparse; echo end >> sparse; \
    echo e > emptied/e; echo r > replaced/sub/r; echo k > kept/k; chmod 2750 kept; echo t > becomes; \
    mkdir turns; echo f > turns/f; printf '\\377' > $(printf 'odd\\377name'); echo '#!/bin/sh' > tool; chmod 755 tool";

/// What a session may do to it.
const WORK: &str = "set -e; echo C >> changed; rm deleted; chmod 640 mode; echo new > new; mkdir -p made/deep; \
    echo x > made/deep/x; rm -r emptied; rm -r replaced; mkdir replaced; echo R > replaced/R; \
    ln -sfn src/deep/a link; rm dangling; ln -s elsewhere dangling; echo n > one; ln one two; \
    truncate -s 3M holes; echo tail >> holes; mv src/b moved; mv src/deep/a src/deep/z; \
    rm becomes; mkdir becomes; echo i > becomes/i; rm -r turns; echo f > turns; \
    touch -d '2001-02-03 04:05:06' made/deep/x; chmod 600 kept/k; mkdir -m 700 private; umask 077; echo p > private/p; \
    rm tool; echo '#!/bin/sh' > tool; mkdir gone; echo x > gone/x; rm -r gone";

#[test]
fn what_is_applied_is_what_the_same_work_makes_without_a_sandbox() {
    each(|project| {
        assert_eq!(project.bare_sh(SET_UP).code(), Some(0));
        let copy = project.outside().join("copy");
        assert_eq!(project.bare_sh(&format!("cp -a . {}", copy.display())).code(), Some(0));
        let before = picture(&project.root());
        let run = project.run_sh(REVIEW, WORK);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert_eq!(picture(&project.root()), before, "nothing before it is applied");
        let mut work = project.bare("sh");
        let work = Ran(work.args(["-c", WORK]).current_dir(&copy).output().unwrap());
        assert_eq!(work.code(), Some(0), "{}", work.text());
        let applied = atoll(project, &["apply", "--yes"]);
        assert_eq!(applied.code(), Some(0), "{}", applied.text());
        assert_eq!(picture(&project.root()), picture(&copy));
        let time = |root: &Path| root.join("made/deep/x").metadata().unwrap().modified().unwrap();
        assert_eq!(time(&project.root()), time(&copy));
        let blocks = |root: &Path| {
            std::os::unix::fs::MetadataExt::blocks(&root.join("holes").metadata().unwrap())
        };
        assert_eq!(blocks(&project.root()), blocks(&copy), "holes stay holes");
    });
}

#[test]
fn a_discarded_session_leaves_nothing() {
    each(|project| {
        assert_eq!(project.bare_sh(SET_UP).code(), Some(0));
        let before = picture(&project.root());
        assert_eq!(project.run_sh(REVIEW, WORK).code(), Some(0));
        let discarded = atoll(project, &["discard", "--yes"]);
        assert_eq!(discarded.code(), Some(0), "{}", discarded.text());
        assert_eq!(picture(&project.root()), before);
        let left = project.bare_sh("find ~/.local/state/atoll/sessions -mindepth 1");
        assert_eq!(left.stdout(), "", "{}", left.text());
        // One without a change is gone by itself.
        let run = project.run_sh(REVIEW, "cat changed; touch -r changed changed; true");
        assert_eq!(run.stderr(), "", "{}", run.text());
        let left = project.bare_sh("find ~/.local/state/atoll/sessions -mindepth 1");
        assert_eq!(left.stdout(), "", "{}", left.text());
    });
}

#[test]
fn directories_of_the_project_can_be_removed_and_moved() {
    each(|project| {
        assert_eq!(project.bare_sh(SET_UP).code(), Some(0));
        let script = "rm -rf src/deep emptied && mkdir src/deep && mv replaced moved && ls moved/sub && \
            mkdir fresh && touch fresh/f && python3 -c 'import os; os.rename(\"fresh\", \"fresher\")' && ls fresher";
        let run = project.run_sh(REVIEW, script);
        assert_eq!(run.stdout(), "r\nf\n", "{}", run.text());
        let run =
            project.run_sh(REVIEW, "python3 -c 'import os; os.rename(\"src\", \"lib\")' && ls lib");
        assert_eq!(run.stdout(), "b\ndeep\n", "{}", run.text());
        let applied = atoll(project, &["apply", "--yes"]);
        assert_eq!(applied.code(), Some(0), "{}", applied.text());
        assert_eq!(project.read("lib/b"), "b\n");
        assert!(!project.root().join("src").exists());
    });
}

#[test]
fn what_is_neither_file_nor_link_nor_directory_is_told_and_not_applied() {
    each(|project| {
        project.write("plain", "");
        let script = "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; \
            mknod null c 1 3; mknod white c 0 0; echo x > made; ls";
        let run = project.run_sh(REVIEW, script);
        assert!(run.stdout().contains("fifo\nmade\nplain\nsocket\n"), "{}", run.text());
        let applied = atoll(project, &["apply", "--yes"]);
        assert!(applied.text().contains("fifo is a fifo"), "{}", applied.text());
        assert!(applied.text().contains("socket is a socket"), "{}", applied.text());
        assert_eq!(project.bare_sh("ls").stdout(), "made\nplain\n");
    });
}

#[test]
fn what_runs_on_the_host_later_has_to_be_confirmed() {
    const RISKY: &[&str] = &[
        ".git/hooks/pre-commit",
        ".git/config",
        "deep/dep/.git/hooks/pre-push",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".zed",
        ".envrc",
        ".bashrc",
        ".gdbinit",
        ".mcp.json",
        ".claude/settings.json",
        ".github/hooks/x",
        ".github/workflows/ci.yml",
        "Makefile",
        "package.json",
        ".venv/bin/python",
        ".venv/pyvenv.cfg",
        "node_modules/.bin/tool",
        ".npmrc",
        "conftest.py",
        "atoll.toml",
        "conf/tasks.json",
        "escape",
        "runs",
    ];
    each(|project| {
        // The editor's directory is a link: what it leads to counts.
        let set_up = "git init -q .; mkdir conf; ln -s conf .fleet; echo x > runs; echo '{}' > package.json; \
            mkdir .vscode; echo a > plain";
        assert_eq!(project.bare_sh(set_up).code(), Some(0));
        let script = r#"for n in .git/hooks/pre-commit .git/config deep/dep/.git/hooks/pre-push .vscode/tasks.json \
                .idea/workspace.xml .envrc .bashrc .gdbinit .mcp.json .claude/settings.json .github/hooks/x \
                .github/workflows/ci.yml Makefile .venv/bin/python .venv/pyvenv.cfg node_modules/.bin/tool .npmrc \
                conftest.py atoll.toml conf/tasks.json plain; do
                mkdir -p $(dirname $n); echo x >> $n; done
            ln -s plain .zed; ln -s ../outside escape; chmod +x runs
            echo '{"scripts": {"postinstall": "x"}}' > package.json"#;
        let run = project.run_sh(REVIEW, script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let before = picture(&project.root());
        let diff = atoll(project, &["diff", "--stat"]);
        let told = diff.stdout();
        let risky = |line: &&str| line.contains("(risky");
        let mut found: Vec<&str> =
            told.lines().filter(risky).filter_map(|line| line.split(' ').nth(1)).collect();
        found.sort_unstable();
        let mut expected = RISKY.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{}", diff.text());
        let applied = atoll(project, &["apply"]);
        assert_eq!(applied.code(), Some(1), "{}", applied.text());
        assert!(
            applied.stderr().contains("risky files have to be confirmed"),
            "{}",
            applied.text()
        );
        assert_eq!(picture(&project.root()), before);
        // What is not risky needs no word.
        assert_eq!(atoll(project, &["apply", "plain"]).code(), Some(0));
        assert_eq!(project.read("plain"), "a\nx\n");
        assert_eq!(atoll(project, &["discard", "--yes"]).code(), Some(0));
    });
}

#[test]
fn a_set_id_bit_is_told_and_not_applied() {
    const SCRIPT: &str = "echo new > new; chmod 2644 new; chmod 2711 old; echo more >> had; \
        chmod 2644 had; chmod 0600 plain; mkdir inherits/made";
    each(|project| {
        let set_up = "echo o > old; echo h > had; chmod 2644 had; echo p > plain; mkdir inherits; \
            chmod 2755 inherits";
        assert_eq!(project.bare_sh(set_up).code(), Some(0));
        let modes = "stat -c '%a %n' had inherits inherits/made new old plain";
        // The control: without a sandbox the bits are set.
        let copy = project.outside().join("copy");
        let control = format!("cp -a . {0}; cd {0}; {SCRIPT}; {modes}", copy.display());
        let all = "2644 had\n2755 inherits\n2755 inherits/made\n2644 new\n2711 old\n600 plain\n";
        assert_eq!(project.bare_sh(&control).stdout(), all);
        assert_eq!(project.run_sh(REVIEW, SCRIPT).code(), Some(0));
        let asked = atoll(project, &["apply"]);
        assert_eq!(asked.code(), Some(1), "{}", asked.text());
        for line in [
            "A new: was given a set-user-ID or set-group-ID bit, which is not applied",
            "P old: can be executed and could not before; was given a set-user-ID or set-group-ID \
             bit, which is not applied",
            "M had: keeps its set-user-ID or set-group-ID bit",
        ] {
            assert!(asked.text().contains(line), "{line}: {}", asked.text());
        }
        assert!(!asked.text().contains("plain"), "{}", asked.text());
        assert_eq!(atoll(project, &["apply", "--yes"]).code(), Some(0));
        let applied = "2644 had\n2755 inherits\n2755 inherits/made\n644 new\n711 old\n600 plain\n";
        assert_eq!(project.bare_sh(modes).stdout(), applied);
    });
}

#[test]
fn names_that_live_would_guard_leave_no_trace_under_review_either() {
    each(|project| {
        assert_eq!(project.bare_sh("git init -q .").code(), Some(0));
        let before = picture(&project.root());
        let script = "mkdir .vscode; echo x > .envrc; echo x > .git/hooks/pre-commit; git config core.pager x; mv .git g";
        let _ran = project.run_sh(REVIEW, script);
        assert_eq!(picture(&project.root()), before);
        assert_eq!(atoll(project, &["discard", "--yes"]).code(), Some(0));
        assert_eq!(picture(&project.root()), before);
    });
}

#[test]
fn a_session_directory_in_the_project_is_refused_at_once() {
    each(|project| {
        let state = project.root().join("state");
        let mut command = project.atoll(&["run", "--workspace", "review", "--", "true"]);
        let run = Ran(command.env("XDG_STATE_HOME", &state).output().unwrap());
        assert_eq!(run.code(), Some(125), "{}", run.text());
        assert!(run.stderr().contains("state/atoll lies inside "), "{}", run.text());
        assert!(run.stderr().contains("set XDG_STATE_HOME"), "{}", run.text());
    });
}

#[test]
fn a_file_system_mounted_in_the_project_is_named_at_once() {
    if !rustix::process::geteuid().is_root() {
        atoll_testkit::skip::skip("as-root", "run by an ordinary user");
        return;
    }
    each(|project| {
        let point = project.root().join("with space/mounted");
        std::fs::create_dir_all(&point).unwrap();
        project.user.give(&project.root());
        let mount = |program: &str, arguments: &[&str]| {
            let status = Command::new(program).args(arguments).arg(&point).status().unwrap();
            assert!(status.success());
        };
        mount("mount", &["-t", "tmpfs", "-o", "mode=777", "none"]);
        std::fs::write(point.join("file"), "x").unwrap();
        let review = project.run_sh(REVIEW, "true");
        let live = project
            .run_sh(&[], "cat 'with space/mounted/file'; echo y > 'with space/mounted/made'");
        let made = point.join("made").exists();
        mount("umount", &[]);
        assert_eq!(review.code(), Some(125), "{}", review.text());
        let path = point.to_str().unwrap();
        assert!(review.stderr().contains(path), "{}", review.text());
        assert!(review.stderr().contains("--workspace live"), "{}", review.text());
        assert_eq!(live.stdout(), "x", "{}", live.text());
        assert!(made);
        assert_eq!(project.run_sh(REVIEW, "true").code(), Some(0), "the control");
    });
}
