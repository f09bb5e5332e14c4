//! Groups on this machine's trees. A test that needs what the host or the user
//! lacks says so and passes.

use atoll_jail::cgroup::{
    Controller, Group, Kind, Layout, Limit, Limits, Unenforced, remove_stale, run_name,
};
use atoll_testkit::run::{ORDINARY_UID, again_as_ordinary};
use rustix::process::Pid;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);

/// A shell that waits for a line before it runs `script`, so that it can be put
/// into a group first.
struct Held(Child);

impl Held {
    fn new(script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    fn finish(mut self) -> Output {
        self.go();
        self.0.wait_with_output().unwrap()
    }
}

fn layout() -> Layout {
    Layout::detect(Path::new("/")).unwrap()
}

/// A group with `limits`, or `None` with the reason printed.
fn group(limits: Limits) -> Option<(String, Group)> {
    let name = run_name().unwrap();
    let (group, unenforced) = Group::create(&layout(), &name, &limits).unwrap();
    if unenforced.is_empty() {
        return Some((name, group));
    }
    eprintln!("{unenforced:?}");
    // Several tests write the same file, so it says the same.
    crate::skip("cgroup-limits", "not all limits can be set here");
    None
}

/// Every directory of that name in any cgroup tree.
fn traces(name: &str) -> Vec<PathBuf> {
    let layout = layout();
    let unified = layout.v2.iter().map(|place| &place.dir);
    let dirs = unified.chain(layout.v1.iter().map(|tree| &tree.dir));
    dirs.map(|dir| dir.join(name)).filter(|dir| dir.exists()).collect()
}

fn memory(bytes: u64) -> Limits {
    Limits { memory_bytes: Some(bytes), ..Limits::default() }
}

#[test]
fn too_much_memory_is_killed_and_counted() {
    let Some((name, group)) = group(memory(32 << 20)) else { return };
    // Collects what has no line end, and so grows for ever.
    let child = Held::new("exec tail /dev/zero");
    group.attach_everywhere(child.pid()).unwrap();
    let output = child.finish();
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let events = group.events().unwrap();
    assert_eq!(events.oom_kills, Some(1), "{events:?}");
    assert!(events.memory_peak_bytes.is_none_or(|peak| peak > 16 << 20), "{events:?}");
    group.remove(DEADLINE).unwrap();
    assert_eq!(traces(&name), [] as [PathBuf; 0]);

    // The control: within the limit nothing is killed.
    let (_, group) = self::group(memory(64 << 20)).unwrap();
    let child = Held::new("head -c 4000000 /dev/zero | tail | wc -c");
    group.attach_everywhere(child.pid()).unwrap();
    let output = child.finish();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "4000000");
    assert_eq!(group.events().unwrap().oom_kills, Some(0));
    group.remove(DEADLINE).unwrap();
}

#[test]
fn too_many_processes_fail_to_fork_and_are_counted() {
    let forks = "for i in 1 2 3 4 5 6 7 8; do sleep 600 >/dev/null 2>&1 & done; echo all";
    let Some((name, group)) = group(Limits { pids: Some(4), ..Limits::default() }) else { return };
    let child = Held::new(forks);
    group.attach_everywhere(child.pid()).unwrap();
    let output = child.finish();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{output:?}");
    assert!(group.events().unwrap().pids_hits >= Some(1), "{:?}", group.events());
    // The sleepers that did start are still in there.
    group.remove(DEADLINE).unwrap();
    assert_eq!(traces(&name), [] as [PathBuf; 0]);

    // The control: with room enough all start.
    let (_, group) = self::group(Limits { pids: Some(40), ..Limits::default() }).unwrap();
    let child = Held::new(forks);
    group.attach_everywhere(child.pid()).unwrap();
    let output = child.finish();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all\n");
    assert_eq!(group.events().unwrap().pids_hits, Some(0));
    group.remove(DEADLINE).unwrap();
}

#[test]
fn the_cpu_limit_is_written_and_slows() {
    let limits = Limits { cpus: Some(0.05), ..Limits::default() };
    let Some((_, group)) = group(limits) else { return };
    // Uses 0.2 s of CPU time, which takes 4 s at that rate.
    let mut child = Held::new("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    group.attach_everywhere(child.pid()).unwrap();
    let start = std::time::Instant::now();
    child.go();
    assert!(child.0.wait().unwrap().success());
    let (wall, used) = (start.elapsed(), group.events().unwrap().cpu_usage_us);
    if let Some(used) = used {
        let least = Duration::from_micros(used) * 5;
        assert!(wall > least, "{used} us of CPU time took only {wall:?}");
    }
    group.remove(DEADLINE).unwrap();
}

#[test]
fn freeze_stands_still_and_kill_leaves_nobody() {
    let Some((name, group)) = group(Limits::default()) else { return };
    if group.join_fd().is_none() {
        crate::skip("cgroup-v2-tree", "no writable cgroup v2 tree");
        return;
    }
    let mut child = Held::new("while :; do :; done");
    group.attach_everywhere(child.pid()).unwrap();
    child.go();
    group.freeze(DEADLINE).unwrap();
    let used = || group.events().unwrap().cpu_usage_us.unwrap();
    let frozen = used();
    assert_eq!(used(), frozen);
    group.thaw().unwrap();
    // The control: it runs again.
    let deadline = std::time::Instant::now() + DEADLINE;
    while used() == frozen {
        assert!(std::time::Instant::now() < deadline, "still frozen");
        std::thread::yield_now();
    }
    group.freeze(DEADLINE).unwrap();
    group.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(9));
    group.remove(DEADLINE).unwrap();
    assert_eq!(traces(&name), [] as [PathBuf; 0]);
}

#[test]
fn v1_kills_by_the_task_list_while_it_grows() {
    let limits = Limits { pids: Some(64), ..Limits::default() };
    let Some((name, group)) = group(limits) else { return };
    let layout = layout();
    let Some(tree) = layout.v1.iter().find(|tree| tree.controllers == [Controller::Pids]) else {
        crate::skip("cgroup-v1-tree", "no cgroup v1 tree with the pids controller");
        return;
    };
    // Each process starts two and dies. The first forks only while there is room.
    let mut child =
        Held::new("next() { (next) & (next) & }; (next) >/dev/null 2>&1 & echo up; exec sleep 600");
    group.attach(child.pid()).unwrap();
    child.go();
    let mut up = [0; 3];
    child.0.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    group.remove(DEADLINE).unwrap();
    assert!(!tree.dir.join(&name).exists());
    assert_eq!(child.0.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_name_is_taken_once_and_free_after_a_drop() {
    let Some((name, group)) = group(Limits { pids: Some(8), ..Limits::default() }) else { return };
    let dirs = traces(&name);
    assert!(!dirs.is_empty());
    // Twice the same name is an error that leaves the first one alone.
    let error = Group::create(&layout(), &name, &Limits::default()).unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(traces(&name), dirs);
    drop(group);
    assert_eq!(traces(&name), [] as [PathBuf; 0]);
}

#[test]
fn stale_groups_go_and_living_ones_stay() {
    let Some((alive, group)) = group(Limits { pids: Some(8), ..Limits::default() }) else { return };
    // No process has this number: it is above the kernel's largest.
    let stale = format!("atoll-run-4194305-{}", std::process::id());
    let dirs: Vec<_> = traces(&alive).iter().map(|dir| dir.with_file_name(&stale)).collect();
    for dir in &dirs {
        std::fs::create_dir(dir).unwrap();
    }
    let swept = remove_stale(&layout());
    for dir in &dirs {
        // Whoever sweeps at the same time may have been first.
        assert!(!dir.exists(), "{swept:?}");
    }
    assert!(!traces(&alive).is_empty());
    group.remove(DEADLINE).unwrap();
}

#[test]
fn groups_of_an_owner_that_cannot_be_seen_stay_while_it_has_them() {
    // As a process of another pid namespace would call it.
    let name = format!("atoll-run-4194305-{}-1", std::process::id());
    let limits = Limits { pids: Some(8), ..Limits::default() };
    let (group, unenforced) = Group::create(&layout(), &name, &limits).unwrap();
    let made = traces(&name);
    if made.is_empty() {
        crate::skip("cgroup-limits", "not all limits can be set here");
        return;
    }
    let swept = remove_stale(&layout());
    assert_eq!(traces(&name), made, "{swept:?} {unenforced:?}");
    drop(group);
    assert_eq!(traces(&name), [] as [PathBuf; 0]);
}

#[test]
fn limits_without_sense_are_refused_before_anything_is_made() {
    let name = run_name().unwrap();
    Group::create(&layout(), &name, &memory(1)).unwrap_err();
    Group::create(&layout(), "../x", &Limits::default()).unwrap_err();
    assert_eq!(traces(&name), [] as [PathBuf; 0]);
}

#[test]
fn an_ordinary_user_is_told_what_is_not_enforced() {
    if rustix::process::geteuid().is_root() {
        return again_as_ordinary("cgroup::an_ordinary_user_is_told_what_is_not_enforced");
    }
    let limits = Limits { memory_bytes: Some(64 << 20), pids: Some(64), cpus: Some(1.0) };
    let layout = layout();
    let name = run_name().unwrap();
    let (group, unenforced) = Group::create(&layout, &name, &limits).unwrap();
    let missing: Vec<_> = unenforced.iter().map(|missing| missing.limit).collect();
    if rustix::process::geteuid().as_raw() == ORDINARY_UID && layout.kind != Kind::V2 {
        assert_eq!(missing, [Limit::Memory, Limit::Pids, Limit::Cpu]);
    }
    for Unenforced { reason, help, .. } in &unenforced {
        assert!(!reason.is_empty() && help.contains("root"), "{reason}: {help}");
    }
    group.remove(DEADLINE).unwrap();
    assert_eq!(traces(&name), [] as [PathBuf; 0]);
}
