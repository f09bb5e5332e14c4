//! Directories of a project under review are renamed as without a review. By
//! root the overlay does it; for an ordinary user PID 1 does.

use super::each;
use atoll_testkit::run::{Project, Ran, User};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prints everything that a rename has to keep. A directory's link count is the
/// file system's affair, and the times of directories that got or lost a name
/// differ from run to run.
const PICTURE: &str = r#"
import hashlib, os, stat, sys
def show(path):
    found = os.lstat(path)
    is_dir = stat.S_ISDIR(found.st_mode)
    names = [(n, os.getxattr(path, n, follow_symlinks=False))
             for n in os.listxattr(path, follow_symlinks=False)] if not stat.S_ISLNK(found.st_mode) else []
    content = ""
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(found.st_mode):
        content = hashlib.sha256(open(path, "rb").read()).hexdigest()
    time = found.st_mtime_ns if not is_dir or "kept" in path else 0
    links = 0 if is_dir else found.st_nlink
    print(path, oct(found.st_mode), links, time, content, names)
for top, below, files in os.walk("."):
    below[:] = sorted(name for name in below if name != ".git")
    for name in sorted(below + files):
        if name not in (".git", "picture.py"):
            show(os.path.join(top, name))
"#;

/// A tree with what is easily lost on the way. Names of one file are within a
/// directory that moves, since an ordinary user's overlay keeps no link between
/// what is copied up and what is not.
const TREE: &str = r#"
mkdir -p src/deep/kept src/ro/kept src/kept-empty other
echo one > src/one; echo two > src/deep/two; echo exec > src/run; chmod 755 src/run
ln -s ../one src/deep/up; ln -s missing src/dangling; ln -s deep src/to-dir
echo ro > src/ro/file; echo ro > src/ro/kept/file; chmod 0444 src/ro/file
head -c 300000 /dev/urandom > src/deep/kept/large; truncate -s 5M src/deep/sparse
python3 -c 'import os; os.setxattr("src/deep/kept", "user.k", b"v"); os.setxattr("src/one", "user.f", b"w")'
touch -d 2001-02-03T04:05:06.123456789 src/deep/kept/large src/deep/kept src/ro/kept src/kept-empty
ln src/one src/one-too; ln src/deep/two src/deep/kept/two-too; touch -d 2001-02-03 src/deep/kept
chmod 0555 src/ro src/ro/kept; chmod 0700 src/kept-empty
"#;

fn review(project: &Project, script: &str) -> Ran {
    project.run_sh(&["--workspace", "review", "--timeout", "60s"], script)
}

#[track_caller]
fn succeeded(ran: Ran) -> Ran {
    assert_eq!(ran.code(), Some(0), "{}", ran.text());
    ran
}

fn atoll(project: &Project, arguments: &[&str]) -> Ran {
    Ran(project.atoll(arguments).output().unwrap())
}

fn picture_of(project: &Project, directory: &Path) -> String {
    let mut python = project.bare("python3");
    let ran = Ran(python.args(["-c", PICTURE]).current_dir(directory).output().unwrap());
    succeeded(ran).stdout()
}

/// A project that `setup` makes, and a copy of it on which `script` ran bare.
fn with_control(project: &Project, setup: &str, script: &str) -> PathBuf {
    project.write("picture.py", PICTURE);
    succeeded(project.bare_sh(&format!("set -e\n{setup}")));
    let control = project.outside().join("control");
    let copy = format!("cp -a . '{0}' && cd '{0}' && set -e\n{script}", control.display());
    succeeded(project.bare_sh(&copy));
    control
}

#[test]
fn names_of_one_file_in_two_directories_that_move_are_no_conflict() {
    each(|project| {
        let set_up = "mkdir src other; echo one > src/one; ln src/one other/too; ln src/one stays";
        assert_eq!(project.bare_sh(set_up).code(), Some(0));
        let script = [rename("src", "lib"), rename("other", "more")].join("\n");
        succeeded(review(project, &script));
        let applied = succeeded(atoll(project, &["apply", "--yes"]));
        assert!(!applied.text().contains("conflict"), "{}", applied.text());
        let found = project.bare_sh("cat lib/one more/too stays; ls; stat -c %h stays");
        // An ordinary user's session has copies, and nothing says whose.
        let links = if project.user == User::Root { 3 } else { 1 };
        let expected = format!("one\none\none\nlib\nmore\nstays\n{links}\n");
        assert_eq!(found.stdout(), expected, "{}", found.text());
    });
}

/// Runs `script` under review and bare: what is seen inside and what is on the
/// host after applying must be what the bare run made.
fn check(project: &Project, setup: &str, script: &str) {
    let control = with_control(project, setup, script);
    let bare = picture_of(project, &control);
    let before = picture_of(project, &project.root());
    assert_ne!(bare, before, "{script} does nothing");
    let inside = succeeded(review(project, &format!("set -e\n{script}\npython3 picture.py")));
    assert_eq!(inside.stdout(), bare, "{script}");
    assert_eq!(picture_of(project, &project.root()), before, "nothing is applied yet");
    let diff = succeeded(atoll(project, &["diff", "--json"]));
    assert!(!diff.stdout().contains(".atoll-apply"), "{}", diff.text());
    succeeded(atoll(project, &["apply", "--yes"]));
    assert_eq!(picture_of(project, &project.root()), bare, "{script}");
}

fn rename(from: &str, to: &str) -> String {
    format!("python3 -c 'import os; os.rename(\"{from}\", \"{to}\")'")
}

#[test]
fn a_directory_of_the_project_moves_with_all_that_is_in_it() {
    each(|project| check(project, TREE, &rename("src", "lib")));
}

#[test]
fn a_nested_directory_moves_elsewhere_and_a_read_only_one_in_its_place() {
    each(|project| {
        let script = [rename("src/deep", "other/deep"), rename("src/ro", "src/rw")].join("\n");
        check(project, TREE, &script);
    });
}

#[test]
fn a_directory_that_changed_in_the_session_moves_with_its_changes_and_again() {
    each(|project| {
        let change = "echo more >> src/deep/kept/large; rm src/run; mkdir src/deep/new; echo n > src/deep/new/n
            ln src/deep/new/n src/deep/new/m; touch -d 2002-02-02 src/deep/kept/large src/deep/new/n";
        let script =
            [change, &rename("src", "lib"), &rename("lib/deep", "deep"), &rename("lib", "src")];
        check(project, TREE, &script.join("\n"));
    });
}

#[test]
fn an_empty_directory_is_replaced() {
    each(|project| {
        check(project, &format!("{TREE}mkdir -p empty\n"), &rename("src", "empty"));
    });
}

#[test]
fn git_moves_directories() {
    let git = "git -c user.name=a -c user.email=a@example.com";
    each(|project| {
        let setup = format!(
            "mkdir -p src/deep; echo 1 > src/one; echo 2 > src/deep/two; ln -s one src/link
            git init -q .; {git} add src; {git} commit -qm x"
        );
        check(project, &setup, "git mv src lib; git mv lib/deep deep");
        let status = succeeded(project.bare_sh("git status --porcelain --untracked-files=no"));
        let moved = ["R  src/deep/two -> deep/two", "R  src/link -> lib/link"];
        for line in moved {
            assert!(status.stdout().contains(line), "{}", status.text());
        }
    });
}

#[test]
fn a_hidden_file_stays_on_the_host_when_its_directory_moves() {
    each(|project| {
        project.write("src/one", "1");
        project.write("src/.env", "secret");
        project.write(".atollignore", ".env\n");
        let script = format!("{}\nls -A . lib", rename("src", "lib"));
        let ran = succeeded(review(project, &script));
        assert_eq!(ran.stdout(), ".:\n.atollignore\nlib\n\nlib:\none\n");
        succeeded(atoll(project, &["apply", "--yes"]));
        assert_eq!(
            (project.read("lib/one"), project.read("src/.env")),
            ("1".into(), "secret".into())
        );
    });
}

#[test]
fn what_a_rename_refuses_is_refused_alike() {
    let script = r#"
python3 - <<'END'
import os
def attempt(*names):
    try:
        os.rename(*names)
        print(names, "done")
    except OSError as error:
        print(names, error.strerror)
attempt("src", "other")
attempt("src", "src/deep/below")
attempt("src/deep", "src")
attempt("src", "file")
attempt("file", "src")
attempt("src", "missing/src")
attempt("locked/inner", "inner")
attempt("src", "src")
END"#;
    each(|project| {
        let setup = "mkdir -p src/deep other/full locked/inner; echo > file; chmod 555 locked";
        let control = with_control(project, setup, "true");
        let bare =
            Ran(project.bare("sh").args(["-c", script]).current_dir(control).output().unwrap());
        let inside = succeeded(review(project, script));
        let locked_out = |ran: &Ran| ran.stdout().contains("Permission denied");
        // Root may do more outside than what it becomes inside.
        if locked_out(&bare) {
            assert_eq!(inside.stdout(), bare.stdout(), "{}", inside.text());
        }
        assert!(!inside.stderr().contains("review.rename"), "{}", inside.text());
    });
}

#[test]
fn files_that_are_open_stay_the_same_files_and_other_calls_go_on() {
    let script = r#"
python3 - <<'END'
import os, threading
log = open("big/log", "a")
log.write("before\n"); log.flush()
done = threading.Event()
def move():
    os.rename("big", "moved")
    done.set()
def inside():
    # Waits for the move, and finds the old name gone or gets there first.
    try:
        os.rename("big/f1", "big/f1-new")
    except FileNotFoundError:
        os.rename("moved/f1", "moved/f1-new")
threads = [threading.Thread(target=work) for work in (move, inside)]
for thread in threads: thread.start()
names, count = ["other/x", "other/y"], 0
while not done.is_set() or count < 10:
    os.rename(*names)
    names.reverse()
    count += 1
    log.write("during\n"); log.flush()
for thread in threads: thread.join()
log.write("after\n"); log.flush()
lines = open("moved/log").read().split()
print(lines[0], lines[-1], lines.count("during") == count, len(os.listdir("moved")))
print(os.path.exists("moved/f1-new"), os.path.exists("big"), sorted(os.listdir(".")))
END"#;
    each(|project| {
        let setup = "mkdir big other; echo > other/x; touch big/log
            for i in $(seq 400); do echo $i > big/f$i; done";
        succeeded(project.bare_sh(setup));
        let ran = succeeded(review(project, script));
        let expected = "before after True 401\nTrue False ['moved', 'other']\n";
        assert_eq!(ran.stdout(), expected, "{}", ran.text());
    });
}

/// The ordinary user alone: root's overlay has no bounds.
fn ordinary(test: impl Fn(&Project)) {
    for user in User::all().into_iter().filter(|user| *user == User::Ordinary) {
        test(&Project::new(user, env!("CARGO_BIN_EXE_atoll")));
    }
}

const TRY: &str = "python3 -c '
import os
try:
    os.rename(\"big\", \"moved\")
except OSError as error:
    print(error.errno)
print(os.listdir(\".\"), len(os.listdir(\"big\")))
'";

#[test]
fn too_large_a_directory_stays_and_the_reason_is_told() {
    ordinary(|project| {
        // Names of one file are cheap, and count.
        let setup = "mkdir big; python3 -c '
import os
open(\"big/0\", \"w\").close()
for i in range(1, 50001): os.link(\"big/0\", f\"big/{i}\")
' && mv -T big moved && mv -T moved big";
        succeeded(project.bare_sh(setup));
        let ran = succeeded(review(project, TRY));
        assert_eq!(ran.stdout(), "18\n['big'] 50001\n", "{}", ran.text());
        let text = ran.stderr();
        assert!(text.contains("rule review.rename"), "{}", ran.text());
        assert!(text.contains("more than 50000 entries"), "{}", ran.text());
        assert!(text.contains("it can be copied"), "{}", ran.text());
        assert!(!text.contains("under review"), "nothing changed: {}", ran.text());
    });
}

#[test]
fn exchanging_directories_of_the_project_changes_neither() {
    ordinary(|project| {
        project.write("a/one", "1");
        project.write("b/two", "2");
        let exchange = "python3 -c 'import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.renameat2(-100, b\"a\", -100, b\"b\", 2), ctypes.get_errno(), os.listdir(\"a\"))'";
        let bare = project.bare_sh(&format!("cp -r . ../home/copy; cd ../home/copy; {exchange}"));
        assert_eq!(bare.stdout(), "0 0 ['two']\n", "{}", bare.text());
        let ran = succeeded(review(project, exchange));
        assert_eq!(ran.stdout(), "-1 18 ['one']\n", "{}", ran.text());
        assert!(ran.stderr().contains("rule review.rename"), "{}", ran.text());
    });
}

#[test]
fn a_kill_in_the_middle_loses_nothing_and_leaves_no_litter() {
    const FILES: usize = 3000;
    ordinary(|project| {
        let setup =
            format!("mkdir -p big/sub; for i in $(seq {FILES}); do echo $i > big/sub/$i; done");
        succeeded(project.bare_sh(&setup));
        let mut command = project.atoll(&["run", "--workspace", "review", "--", "sh", "-c"]);
        let mut run = command.arg(rename("big", "moved")).spawn().unwrap();
        let sessions = project.home().join(".local/state/atoll/sessions");
        wait_for(|| is_staging(&sessions));
        run.kill().unwrap();
        run.wait().unwrap();
        let diff = succeeded(atoll(project, &["diff"]));
        assert!(!diff.stdout().contains(".atoll-apply"), "{}", diff.text());
        assert!(is_staging(&sessions), "it was killed too late to show anything");
        succeeded(atoll(project, &["apply", "--yes"]));
        let left = succeeded(project.bare_sh("ls -A; ls -A big/sub | wc -l"));
        assert_eq!(left.stdout(), format!("big\n{FILES}\n"));
    });
}

/// Whether a session is in the middle of making a tree anew.
fn is_staging(sessions: &Path) -> bool {
    let Ok(sessions) = std::fs::read_dir(sessions) else { return false };
    sessions.flatten().any(|session| {
        std::fs::read_dir(session.path().join("upper")).is_ok_and(|names| {
            names.flatten().any(|name| name.file_name().to_string_lossy().starts_with(".atoll-"))
        })
    })
}

fn wait_for(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::yield_now();
    }
}
