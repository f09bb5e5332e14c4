//! Directories that the user grants for writing beside the project: written at
//! once, and so judged, whatever becomes of the project.

use super::each;
use atoll_testkit::run::{Project, Ran};
use std::path::Path;

const PLANT: &str = "cd \"$0\" && echo data > plain && mkdir -p deep/er; \
    mkdir .vscode; echo evil > .envrc; \
    git init -q r && echo evil > r/.git/hooks/post-commit && chmod +x r/.git/hooks/post-commit; \
    echo evil > old/.git/hooks/pre-commit; git -C old config core.fsmonitor evil; true";

/// The same in the project, where a review only keeps it for later.
const KEPT: &str = "cd \"$1\" && mkdir .vscode && echo x > .envrc && mkdir -p r/.git/hooks && \
    echo x > r/.git/hooks/post-commit && chmod +x r/.git/hooks/post-commit && echo kept";

/// `atoll run FLAGS --write PLACE -- sh -c SCRIPT PLACE PROJECT`.
fn run_with(project: &Project, flags: &[&str], place: &Path, script: &str) -> Ran {
    let (place, root) = (place.to_str().unwrap(), project.root());
    let mut run = project.atoll(&["run", "--write", place]);
    run.args(flags).args(["--", "sh", "-c", script, place]).arg(root);
    Ran(run.output().unwrap())
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.permissions().mode() & 0o111 != 0)
}

#[test]
fn protected_names_are_protected_in_a_granted_directory_too() {
    for mode in ["live", "review", "none"] {
        each(|project| {
            let outside = project.outside();
            let sh = |directory: &Path, script: &str| {
                let mut sh = project.bare("sh");
                Ran(sh.args(["-c", script]).arg(directory).output().unwrap())
            };
            // The control: the same acts succeed without a sandbox.
            let twin = project.home().join("twin");
            sh(&twin, "mkdir \"$0\"; git init -q \"$0/old\"");
            sh(&twin, PLANT);
            let planted = [".vscode", ".envrc", "old/.git/hooks/pre-commit"];
            for name in planted {
                assert!(twin.join(name).exists(), "{name}");
            }
            assert!(is_executable(&twin.join("r/.git/hooks/post-commit")));
            sh(&outside, "git init -q \"$0/old\"");
            let run = run_with(project, &["--workspace", mode], &outside, PLANT);
            assert_eq!(run.code(), Some(0), "{}", run.text());
            assert!(outside.join("plain").exists() && outside.join("deep/er").exists());
            for name in planted {
                assert!(!outside.join(name).exists(), "{mode}: {name}: {}", run.text());
            }
            let config = std::fs::read_to_string(outside.join("old/.git/config")).unwrap();
            assert!(!config.contains("fsmonitor"), "{config}");
            let hook = outside.join("r/.git/hooks/post-commit");
            assert!(!is_executable(&hook), "{mode}: {}", run.text());
            assert!(run.stderr().contains("atoll: refused"), "{}", run.text());
            assert!(run.stderr().contains("atoll: new repositories"), "{}", run.text());
        });
    }
}

#[test]
fn beside_a_granted_directory_the_project_under_review_stays_free() {
    each(|project| {
        let outside = project.outside();
        let run = run_with(project, &["--workspace", "review"], &outside, KEPT);
        assert_eq!(run.stdout(), "kept\n", "{}", run.text());
        assert!(!run.stderr().contains("refused"), "{}", run.text());
        assert_eq!(project.bare_sh("ls -A").stdout(), "", "nothing before it is applied");
        let applied = Ran(project.atoll(&["apply", "--yes"]).output().unwrap());
        assert_eq!(applied.code(), Some(0), "{}", applied.text());
        assert!(is_executable(&project.root().join("r/.git/hooks/post-commit")));
        // The control: where the names count at once, the same is refused.
        let run = run_with(project, &[], &outside, "cd \"$1\" && mkdir .zed");
        assert_ne!(run.code(), Some(0), "{}", run.text());
    });
}

#[test]
fn git_works_in_a_granted_directory_under_review() {
    each(|project| {
        let script = "set -e; cd \"$0\"; git init -q r; cd r; git config user.email a@b.c; \
            git config user.name n; echo a > a; git add a; git commit -qm first; \
            git checkout -qb side; echo b > b; git add .; git commit -qm second; \
            git checkout -q -; git merge -q side; git log --format=%s";
        let outside = project.outside();
        let run = run_with(project, &["--workspace", "review"], &outside, script);
        assert_eq!(run.stdout(), "second\nfirst\n", "{}", run.text());
        let log = project.bare_sh("cd ../outside/r && git log --format=%s && git status --short");
        assert_eq!(log.stdout(), "second\nfirst\n", "{}", log.text());
    });
}

#[test]
fn directories_are_renamed_in_the_project_and_beside_it_in_one_review() {
    const WORK: &str = r#"
import errno, os, sys
place, project = sys.argv[1:]
os.chdir(project)
os.rename("src", "lib")
os.rename("lib/deep", "deeper")
os.makedirs(f"{place}/a/b")
os.rename(f"{place}/a", f"{place}/c")
os.rename("plain", "plainer")
for one, other in [("lib", f"{place}/lib"), (f"{place}/c", "c")]:
    try:
        os.rename(one, other)
        sys.exit(f"{one} became {other}")
    except OSError as error:
        assert error.errno == errno.EXDEV, error
os.mkdir("x")
for refused in [".git", ".vscode"]:
    try:
        os.rename("x", f"{place}/{refused}")
        sys.exit(f"x became {refused}")
    except OSError as error:
        assert error.errno == errno.EBUSY, error
print(sorted(os.listdir("lib")), os.listdir("deeper"), os.listdir(place))
"#;
    each(|project| {
        for name in ["src/one", "src/deep/two", "plain"] {
            project.write(name, "x");
        }
        project.write("work.py", WORK);
        let outside = project.outside();
        let script = "python3 \"$1/work.py\" \"$0\" \"$1\"";
        let run = run_with(project, &["--workspace", "review"], &outside, script);
        assert_eq!(run.stdout(), "['one'] ['two'] ['c']\n", "{}", run.text());
        assert!(project.root().join("src/deep/two").exists(), "nothing before it is applied");
        assert!(outside.join("c/b").exists());
        let applied = Ran(project.atoll(&["apply", "--yes"]).output().unwrap());
        assert_eq!(applied.code(), Some(0), "{}", applied.text());
        for name in ["lib/one", "deeper/two", "plainer"] {
            assert_eq!(project.read(name), "x", "{name}");
        }
        assert!(!project.root().join("src").exists());
    });
}

#[test]
fn a_grant_around_a_project_under_review_is_judged_and_the_project_free() {
    each(|project| {
        let outside = project.outside();
        let made = "mkdir -p ../outside/dir/inner/src; echo x > ../outside/dir/inner/src/a";
        assert_eq!(project.bare_sh(made).code(), Some(0));
        let script = "cd \"$0/dir/inner\" && mkdir .vscode && echo x > .envrc && git init -q . && \
            echo x > .git/hooks/pre-commit && python3 -c 'import os; os.rename(\"src\", \"lib\")' && \
            mv ../../dir ../../moved && cd \"$0/moved/inner\" && mkdir .zed && ls -A . lib; \
            mv \"$0/moved\" \"$0/dir\"; \
            cd \"$0\" && mkdir .vscode; echo x > .envrc; mkdir .git; echo x > .git/config; true";
        let place = outside.to_str().unwrap();
        let mut run = project.atoll(&["run", "--workspace", "review", "--write", place]);
        run.args(["--", "sh", "-c", script, place]).current_dir(outside.join("dir/inner"));
        let run = Ran(run.output().unwrap());
        let seen = ".:\n.envrc\n.git\n.vscode\n.zed\nlib\n\nlib:\na\n";
        assert_eq!(run.stdout(), seen, "{}", run.text());
        let left = "./.git\n./dir\n./dir/inner\n./dir/inner/src\n./dir/inner/src/a\n";
        let found = project.bare_sh("cd ../outside; find . -mindepth 1 | sort");
        assert_eq!(found.stdout(), left, "{}", run.text());
    });
}
