//! A leak of each kind is planted, and seen by its name.

use super::*;
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Far less than the soak's: what is planted stays.
const SOON: Duration = Duration::from_millis(200);
/// Tests of other processes come and go.
const LATER: Duration = Duration::from_secs(20);

struct Scene {
    tree: TempDir,
    places: Places,
    before: Census,
}

impl Scene {
    fn new() -> Self {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let tree = tempfile::tempdir().unwrap();
        let places =
            Places { trees: vec![tree.path().to_owned()], spaces: None, history: Vec::new() };
        let before = Census::take(&places).unwrap();
        Self { tree, places, before }
    }

    /// What is said to be left.
    fn left(&self) -> String {
        match self.before.compare(&self.places, SOON) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn sees_nothing(&self) {
        self.before.compare(&self.places, LATER).unwrap();
    }

    #[track_caller]
    fn sees(&self, name: &str) {
        let left = self.left();
        assert!(left.contains(name), "{name} is not in {left:?}");
    }
}

/// A shell that goes on line by line.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(way: &[&str], script: &str) -> Self {
        let words = [way, &["/bin/sh", "-c", script]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Gives a line, and waits until it is done.
    fn obeys(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        assert_eq!(self.line(), "done");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn nothing_planted_is_nothing_seen() {
    let scene = Scene::new();
    std::fs::write(scene.tree.path().join("gone"), "").unwrap();
    std::fs::remove_file(scene.tree.path().join("gone")).unwrap();
    scene.sees_nothing();
}

#[test]
fn a_process_whose_parents_are_gone_is_seen() {
    let scene = Scene::new();
    let mut shell = Shell::start(&[], "(setsid sleep 1000 >/dev/null & echo $!)");
    let pid: i32 = shell.line().parse().unwrap();
    assert!(shell.child.wait().unwrap().success());
    scene.sees(&format!("process {pid} since "));
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    drop(shell);
    scene.sees_nothing();
}

#[test]
fn a_namespace_of_a_process_is_seen() {
    let scene = Scene::new();
    let script = "for kind in user mnt net ipc uts; do readlink /proc/self/ns/$kind; done; read go";
    let way = ["unshare", "--user", "--mount", "--net", "--ipc", "--uts"];
    let mut shell = Shell::start(&way, script);
    for _ in 0..5 {
        let name = shell.line();
        scene.sees(&format!("namespace {name}"));
    }
    drop(shell);
    scene.sees_nothing();
}

#[test]
fn a_directory_and_a_file_that_grew_are_seen() {
    let scene = Scene::new();
    let at = |name: &str| scene.tree.path().join(name);
    std::fs::create_dir(at("planted")).unwrap();
    scene.sees(&format!("file {}", at("planted").display()));
    std::fs::remove_dir(at("planted")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
    scene.sees(&format!("file {}", at("link").display()));
    let before = Census::take(&scene.places).unwrap();
    std::fs::write(at("log"), "1").unwrap();
    let scene = Scene { before, ..scene };
    scene.sees("log (1 bytes)");
    let scene = Scene { before: Census::take(&scene.places).unwrap(), ..scene };
    std::fs::write(scene.tree.path().join("log"), "12").unwrap();
    scene.sees("log (2 bytes)");
}

#[test]
fn a_group_is_seen_in_every_hierarchy() {
    let scene = Scene::new();
    let name = format!("atoll-soak-planted-{}", std::process::id());
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut planted = 0;
    for line in text.lines().filter(|line| line.contains(" - cgroup")) {
        let group = PathBuf::from(line.split(' ').nth(4).unwrap()).join(&name);
        if std::fs::create_dir(&group).is_err() {
            continue;
        }
        planted += 1;
        let left = scene.left();
        std::fs::remove_dir(&group).unwrap();
        assert!(left.contains(&format!("cgroup {}", group.display())), "{left}");
    }
    if planted == 0 {
        let reason = "run by an ordinary user, or where no cgroup tree can be written";
        atoll_testkit::skip::skip("soak-group", reason);
    }
}

#[test]
fn a_mount_and_a_namespace_that_only_a_mount_holds_are_seen() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("mounted")).unwrap();
    std::fs::write(tree.path().join("held"), "").unwrap();
    let script = format!(
        "cd {} && echo ready && read go && mount -t tmpfs planted mounted && \
         mount --bind /proc/self/ns/uts held && echo planted && read go",
        tree.path().display()
    );
    let way = ["unshare", "--user", "--map-root-user", "--mount"];
    let mut shell = Shell::start(&way, &script);
    assert_eq!(shell.line(), "ready");
    let pid = shell.child.id().to_string();
    let names = || BTreeMap::from([("mount", look::mounts(&pid).unwrap())]);
    let before = Census { things: names(), ..Census::default() };
    assert!(before.left(&Census { things: names(), ..Census::default() }).is_empty());
    shell.input.write_all(b"\n").unwrap();
    assert_eq!(shell.line(), "planted");
    let left = before.left(&Census { things: names(), ..Census::default() });
    let left: Vec<String> = left.into_values().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let is_there = |end: &str| left.iter().any(|line| line.ends_with(end));
    assert!(is_there("/mounted (tmpfs)"), "{left:?}");
    assert!(is_there("/held (nsfs)"), "{left:?}");
}

#[test]
fn a_descriptor_is_seen() {
    let scene = Scene::new();
    let held = File::open("/proc/self/ns/uts").unwrap();
    scene.sees(" uts:[");
    drop(held);
    scene.sees_nothing();
}

#[test]
fn an_ipc_object_is_seen() {
    let scene = Scene::new();
    let made = Command::new("ipcmk").args(["--shmem", "4096"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = String::from_utf8(made.stdout).unwrap();
    let id = said.trim().rsplit(' ').next().unwrap().to_owned();
    let left = scene.left();
    let removed = Command::new("ipcrm").args(["--shmem-id", &id]).status().unwrap();
    assert!(removed.success());
    assert!(left.contains("IPC object shm ") && left.contains(&format!(" {id}")), "{left}");
    scene.sees_nothing();
}

#[test]
fn counts_that_others_share_are_seen_beyond_what_others_do() {
    let counted = |value, tolerance| Census {
        counts: BTreeMap::from([("terminals".to_owned(), Count { value, tolerance })]),
        ..Census::default()
    };
    let left = |before, now, tolerance| counted(before, tolerance).left(&counted(now, tolerance));
    assert!(left(3, 3 + OTHERS, OTHERS).is_empty());
    let seen = left(3, 4 + OTHERS, OTHERS);
    assert_eq!(seen["terminals"], format!("terminals: {} more", OTHERS + 1));
    assert_eq!(left(1, 2, 0)["terminals"], "terminals: 1 more");
    assert!(left(2, 1, 0).is_empty());
}

#[test]
fn terminals_are_counted() {
    let count = || {
        let counts = look::shared_counts();
        counts.iter().find(|(name, _)| name == "terminals").unwrap().1
    };
    let before = count();
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let held: Vec<_> = (0..2 * OTHERS).map(|_| rustix::pty::openpt(flags).unwrap()).collect();
    assert!(count() > before + OTHERS);
    drop(held);
}

#[test]
fn what_goes_and_what_comes_later_is_not_left() {
    let scene = Scene::new();
    // Another name at each look: somebody is busy, and leaves nothing.
    let at = scene.tree.path().to_owned();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let busy = std::thread::spawn(move || {
        for number in 0.. {
            let path = at.join(format!("busy-{number}"));
            std::fs::write(&path, "").unwrap();
            let turn = stopped.recv_timeout(Duration::from_millis(30));
            std::fs::remove_file(&path).unwrap();
            if turn != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    let compared = scene.before.compare(&scene.places, LATER);
    drop(stop);
    busy.join().unwrap();
    compared.unwrap();
}

#[test]
fn what_a_process_that_stays_comes_to_hold_is_seen() {
    let script = "while read -r line; do eval \"$line\"; echo done; done";
    let mut shell = Shell::start(&[], script);
    let pid = shell.child.id();
    let scene = Scene::new();
    shell.obeys("exec 9</dev/null");
    scene.sees(&format!("descriptors of sh {pid}: 1 more"));
    shell.obeys("exec 9<&-");
    scene.sees_nothing();
    shell.obeys("kept=$(head -c 100000000 /dev/zero | tr '\\0' x)");
    scene.sees(&format!("KiB of memory of sh {pid}"));
}

#[test]
fn the_past_may_grow_within_bounds() {
    let mut scene = Scene::new();
    let tree = scene.tree.path().to_owned();
    let history = tree.join("records");
    let grown = |name: &str, size| File::create(tree.join(name)).unwrap().set_len(size).unwrap();
    grown("records.sqlite", 1000);
    scene.places.history.push(history);
    scene.before = Census::take(&scene.places).unwrap();
    grown("records.sqlite", 2000);
    scene.sees_nothing();
    grown("records.sqlite", 1 << 40);
    scene.sees("records.sqlite");
}
