//! Landlock: the wall behind the mounts, and what it must not break.

use super::probe::place;
use super::{each, each_way, same_as_bare};
use atoll_testkit::run::{Project, Ran};
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
