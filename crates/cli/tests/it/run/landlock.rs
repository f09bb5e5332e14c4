//! Landlock: the wall behind the mounts, and what it must not break.

use super::probe::place;
use super::{each, each_way, same_as_bare};
use atoll_testkit::run::{Project, Ran, User};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A directory with a file that everybody may write. Not where the sandbox has
/// private directories of its own: what lies below these is below their rule.
struct Given(PathBuf);

impl Given {
    fn make(project: &Project) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let base = if is_root { "/srv" } else { env!("CARGO_TARGET_TMPDIR") };
        let name = project.root().parent().unwrap().file_name().unwrap().to_owned();
        let path = Path::new(base).join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "content\n").unwrap();
        std::fs::create_dir(path.join("dir")).unwrap();
        for (name, mode) in [("", 0o777), ("file", 0o666), ("dir", 0o777)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path.join(name), permissions).unwrap();
        }
        Self(path)
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Ways to change something in `$1`.
const WAYS: [&str; 10] = [
    "echo x > $1/new",
    "echo x >> $1/file",
    "python3 -c 'import os, sys; os.truncate(sys.argv[1], 0)' $1/file",
    "mkdir $1/made",
    "ln -s x $1/link",
    "ln $1/file $1/name",
    "mkfifo $1/pipe",
    "mv $1/file $1/moved",
    "rm $1/file",
    "rmdir $1/dir",
];

/// With mounts that stay writable since the call that makes them read-only only
/// pretends to: then this wall alone is there.
#[test]
fn what_a_mount_would_let_through_is_refused_all_the_same() {
    each(|project| {
        place(project);
        let ways: String = WAYS
            .iter()
            .map(|way| {
                format!("({way}) 2>&1 | grep -oE 'Read-only|Permission denied' || echo done\n")
            })
            .collect();
        let script = format!(
            "set -- \"$0\"; awk '$5 == \"'$1'\" {{ print substr($6, 1, 2) }}' \
            /proc/self/mountinfo; {ways} cat $1/file"
        );
        let run = |around: &[&str]| {
            let given = Given::make(project);
            let place = given.0.to_str().unwrap();
            let mut command = project.bare(if around.is_empty() { "env" } else { around[0] });
            command.args(around.get(1..).unwrap_or_default()).arg(project.program());
            command.args(["run", "--workspace", "none", "--read", place, "--"]);
            Ran(command.args(["sh", "-c", &script, place]).output().unwrap())
        };
        let both = run(&[]);
        let lines = |word: &str| format!("{word}\n").repeat(WAYS.len());
        assert_eq!(
            both.stdout(),
            format!("ro\n{}content\n", lines("Read-only")),
            "{}",
            both.text()
        );
        let alone = run(&["./probe", "--without", "mount_setattr", "0", "--"]);
        let expected = format!("rw\n{}content\n", lines("Permission denied"));
        assert_eq!(alone.stdout(), expected, "{}", alone.text());
        // The control: the caller may do it, each in a fresh one.
        for way in WAYS {
            let given = Given::make(project);
            let mut bare = project.bare("sh");
            let bare = Ran(bare
                .args(["-c", &format!("set -- \"$0\"; {way}")])
                .arg(&given.0)
                .output()
                .unwrap());
            assert_eq!(bare.code(), Some(0), "{way} {}", bare.text());
        }
    });
}

/// What package managers and git do to put files into place in one step.
#[test]
fn files_and_directories_move_between_directories() {
    const SCRIPT: &str = r#"
        mkdir -p one/deep two; echo a > one/file; echo b > two/file
        python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def show(name, act):
    try:
        act()
        print(name, sorted((d, sorted(n), sorted(f)) for d, n, f in os.walk(".")))
    except OSError as error:
        print(name, error.strerror)
show("file over file", lambda: os.replace("one/file", "two/file"))
show("directory", lambda: os.rename("one/deep", "two/deep"))
show("back and over an empty one", lambda: (os.mkdir("one/deep"), os.rename("two/deep", "one/deep")))
show("link", lambda: os.link("two/file", "one/file"))
show("truncate", lambda: os.truncate("one/file", 0))
def exchange():
    if libc.renameat2(-100, b"one", -100, b"two", 2): raise OSError(ctypes.get_errno(), "exchange")
show("exchange", exchange)
def from_nowhere():
    fd = os.open("one", os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(fd, b"x")
    name = f"/proc/self/fd/{fd}".encode()
    if libc.linkat(-100, name, -100, b"two/linked", 0x400): raise OSError(ctypes.get_errno(), "link")
show("a file without a name", from_nowhere)
END
        find one two | sort"#;
    each_way(|project, flags| {
        let run = same_as_bare(project, flags, SCRIPT);
        assert!(run.stdout().contains("two/linked\n"), "{}", run.text());
    });
}

/// Makes rules of its own by which only `mine` may be changed, and tries both.
const OWN_RULES: &str = r#"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
os.makedirs("mine"); os.makedirs("other"); open("other/there", "w").close()
# Everything that changes files (landlock(7)), of version 3.
changes = 0x2 | 0x1ff0 | 0x2000 | 0x4000
try:
    rules = call(444, struct.pack("Q", changes), 8, 0)
    place = os.open("mine", os.O_PATH)
    call(445, rules, 1, struct.pack("=Qi", changes, place), 0)
    libc.prctl(38, 1, 0, 0, 0)
    call(446, rules, 0)
except OSError as error:
    print(error.strerror)
    raise SystemExit
def attempt(name, act):
    try: act(); print(name)
    except PermissionError: print("not", name)
attempt("made in mine", lambda: open("mine/new", "w").close())
attempt("moved in mine", lambda: (os.mkdir("mine/d"), os.rename("mine/new", "mine/d/new")))
attempt("written", lambda: open("other/there", "r+").close())
attempt("made", lambda: open("other/new", "w").close())
attempt("directory", lambda: os.mkdir("other/d"))
attempt("removed", lambda: os.unlink("other/there"))
attempt("moved", lambda: os.rename("mine/d/new", "other/there"))
"#;

/// Rules of a program's own hold, or it is told that there are none: never does it
/// believe in some that do not.
#[test]
fn rules_of_a_programs_own_hold_or_cannot_be_made() {
    const HOLD: &str = "made in mine\nmoved in mine\nnot written\nnot made\nnot directory\n\
        not removed\nnot moved\n";
    const ABSENT: &str = "Function not implemented\n";
    each(|project| {
        let script = "cd $(mktemp -d \"$0/XXXXXX\") && python3 -c \"$1\"";
        let outside = project.outside();
        let (here, granted) = (project.root(), outside.to_str().unwrap());
        let is_root = project.user == User::Root;
        for (flags, at, holds) in [
            (&["--workspace", "none"][..], "/tmp", true),
            (&["--workspace", "review"], here.to_str().unwrap(), is_root),
            (&["--workspace", "live"], here.to_str().unwrap(), false),
            (&["--workspace", "none", "--write", granted], granted, false),
        ] {
            let mut run = project.atoll(&["run"]);
            run.args(flags).args(["--", "sh", "-c", script, at, OWN_RULES]);
            let run = Ran(run.output().unwrap());
            let expected = if holds { HOLD } else { ABSENT };
            assert_eq!(run.stdout(), expected, "{flags:?} {}", run.text());
            assert!(!run.stderr().contains("refused"), "programs probe for it: {}", run.text());
        }
        // The control.
        let mut bare = project.bare("sh");
        let bare = Ran(bare.args(["-c", script, granted, OWN_RULES]).output().unwrap());
        assert_eq!(bare.stdout(), HOLD, "{}", bare.text());
    });
}
