//! Programs that wait for changes of files: what happens inside is seen inside,
//! though in a live project another process performs it.

use super::{each, each_way, same_as_bare};
use atoll_testkit::run::Ran;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

/// Watches two directories and a file, works there, and prints what it was told.
const WATCH: &str = r#"
import ctypes, os, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("dir")
open("dir/old", "w").write("1")
names = {0x2: "modify", 0x4: "attributes", 0x40: "from", 0x80: "to", 0x100: "create",
         0x200: "delete", 0x400: "self gone", 0x800: "self moved", 0x8000: "ignored"}
fd = libc.inotify_init1(os.O_NONBLOCK)
where = {libc.inotify_add_watch(fd, path.encode(), sum(names) & 0xfff): path for path in [".", "dir", "dir/old"]}
assert len(where) == 3 and min(where) > 0, where
def told(what):
    try: data = os.read(fd, 65536)
    except BlockingIOError: data = b""
    seen = []
    while data:
        watch, mask, cookie, size = struct.unpack_from("iIII", data)
        name = data[16:16 + size].rstrip(b"\0").decode()
        seen.append((where[watch], name, "+".join(n for bit, n in names.items() if mask & bit)))
        data = data[16 + size:]
    print(what, seen)
def sh(script):
    subprocess.run(["sh", "-c", script], check=True)
    told(script)
sh("echo 1 > dir/new")
sh("echo 2 >> dir/new")
sh("echo 2 > dir/old")
sh("mkdir made")
sh("mv dir/new moved")
sh("chmod 600 moved")
sh("ln moved name; ln -s moved link")
sh("touch save && mv save dir/old")
sh("rm moved name link; rmdir made")
"#;

#[test]
fn watchers_inside_are_told_what_happens_inside() {
    each_way(|project, flags| {
        let script = format!("cat > /dev/null; python3 -c '{WATCH}'");
        let run = same_as_bare(project, flags, &script);
        assert!(run.stdout().contains("('dir', 'new', 'create')"), "{}", run.text());
        assert!(run.stdout().contains("('dir', 'old', 'to')"), "{}", run.text());
    });
}

/// Files that were there before: under review the first change copies them. That a
/// file was closed is told when the last who opened it has: in a live project that
/// may be PID 1, a moment later.
#[test]
fn a_watched_file_that_was_there_before_is_seen_to_change() {
    const WATCHER: &str = r#"
import ctypes, os, struct
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
for path in [b"dir", b"dir/file"]: assert libc.inotify_add_watch(fd, path, 0x8) > 0
open("dir/file", "a").write("more")
seen = set()
while not {1, 2} <= seen:
    data = os.read(fd, 4096)
    while data:
        watch, mask, cookie, size = struct.unpack_from("iIII", data)
        seen.add(watch); data = data[16 + size:]
print("seen both")
"#;
    each_way(|project, flags| {
        project.write("dir/file", "one");
        let mut run = project.atoll(&["run", "--timeout", "20s"]);
        let run = Ran(run.args(flags).args(["--", "python3", "-c", WATCHER]).output().unwrap());
        assert_eq!(run.stdout(), "seen both\n", "{}", run.text());
    });
}

/// Both ways in a live project; a review has a copy, so what is seen there is only
/// what happens inside.
#[test]
fn the_host_and_a_live_project_see_each_other() {
    const WATCHER: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
assert libc.inotify_add_watch(fd, b".", 0x180) > 0
print("watching", flush=True)
while b"signal" not in os.read(fd, 4096): pass
print("seen")
"#;
    each(|project| {
        let watch = |mut command: std::process::Command, act: &dyn Fn()| {
            command.args(["python3", "-c", WATCHER]).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "watching\n");
            act();
            line.clear();
            output.read_to_string(&mut line).unwrap();
            child.wait().unwrap();
            line
        };
        let inside = || project.atoll(&["run", "--timeout", "20s", "--"]);
        let save = "echo x > .signal~ && mv .signal~ signal";
        let on_host = || assert_eq!(project.bare_sh(save).code(), Some(0));
        let by_a_run = || assert_eq!(project.run_sh(&[], save).code(), Some(0));
        assert_eq!(watch(inside(), &on_host), "seen\n");
        assert_eq!(watch(inside(), &by_a_run), "seen\n");
        assert_eq!(watch(project.bare("env"), &by_a_run), "seen\n");
    });
}
