//! Either side dies; nothing is left.

use super::{Caller, User, each_user, first_modes, marker, modes, processes, shared_dir};
use atoll_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_killed_launcher_leaves_modes_processes_and_directories_as_they_were() {
    each_user(|user| {
        let marker = marker();
        let dir = shared_dir();
        let run = dir.path().join("run");
        let script = format!(
            "mkdir -p {0}/work/work; chmod 0 {0}/work/work; (sleep 1000) & echo ready; cat",
            run.display()
        );
        let arguments = ["--remove-dir", run.to_str().unwrap(), "--", "sh", "-c", &script, &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        let before = first_modes(&pty);
        pty.expect("ready").unwrap();
        pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        assert!(run.exists());
        kill_process(pty.pid(), Signal::KILL).unwrap();
        pty.wait().unwrap();
        pty.wait_until("the old modes", |pty| modes(pty) == before).unwrap();
        pty.wait_until("no process left", |_| processes(&marker).is_empty()).unwrap();
        assert!(!run.exists());
    });
}

fn guard_of(pty: &mut Pty, marker: &str) -> Pid {
    let mut found = None;
    pty.wait_until("the guard", |_| {
        found = processes(marker).into_iter().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name == "atoll-guard\n")
        });
        found.is_some()
    })
    .unwrap();
    found.and_then(Pid::from_raw).unwrap()
}

/// The control: without a guard the modes stay raw.
#[test]
fn without_a_guard_a_killed_launcher_leaves_raw_modes() {
    each_user(|user| {
        let marker = marker();
        let arguments = ["--", "sh", "-c", "echo ready; cat", &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        pty.expect("ready").unwrap();
        pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        let guard = guard_of(&mut pty, &marker);
        kill_process(guard, Signal::KILL).unwrap();
        kill_process(pty.pid(), Signal::KILL).unwrap();
        pty.wait().unwrap();
        pty.wait_until("no process left", |_| processes(&marker).is_empty()).unwrap();
        assert!(pty.is_raw());
    });
}

#[test]
fn a_terminated_launcher_passes_it_on_and_restores_the_modes() {
    each_user(|user| {
        let marker = marker();
        let arguments = ["--", "sh", "-c", "echo ready; exec sleep 1000", &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        let before = first_modes(&pty);
        pty.expect("ready").unwrap();
        kill_process(pty.pid(), Signal::TERM).unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(143));
        assert_eq!(modes(&pty), before);
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn the_end_of_the_terminal_is_a_hang_up_inside() {
    each_user(|user| {
        let marker = marker();
        let dir = shared_dir();
        let log = dir.path().join("log");
        let script = format!(
            "trap 'h=1' HUP; echo ready; while [ -z $h ]; do :; done; echo hup >{0}
             read x </dev/tty || echo end >>{0}",
            log.display()
        );
        let arguments = ["--", "sh", "-c", &script, &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        pty.expect("ready").unwrap();
        pty.hang_up();
        pty.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "hup\nend\n");
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn a_hang_up_ends_a_command_that_does_not_mind_it() {
    each_user(|user| {
        let marker = marker();
        let arguments = ["--", "sh", "-c", "echo ready; exec sleep 1000", &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        pty.expect("ready").unwrap();
        pty.hang_up();
        assert_eq!(pty.wait().unwrap().code(), Some(129));
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn a_deadline_restores_the_modes() {
    each_user(|user| {
        let arguments = ["--deadline-ms", "500", "--", "sh", "-c", "echo before; cat"];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        let before = first_modes(&pty);
        assert_eq!(pty.wait().unwrap().code(), Some(124));
        assert_eq!(pty.screen(), b"before\r\n");
        assert_eq!(modes(&pty), before);
    });
}

/// The guard must not keep a pipe open, or readers would wait for it.
#[test]
fn the_guard_holds_nothing_but_its_pipe_and_the_terminal() {
    each_user(|user| {
        let marker = marker();
        let arguments = ["--", "sh", "-c", "echo ready; cat", &marker];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        pty.expect("ready").unwrap();
        let guard = guard_of(&mut pty, &marker).as_raw_nonzero();
        pty.wait_until("two descriptors", |_| {
            std::fs::read_dir(format!("/proc/{guard}/fd")).unwrap().count() == 2
        })
        .unwrap();
        pty.send("\x04").unwrap();
        assert!(pty.wait().unwrap().success());
        // It is gone with the launcher, not some time later.
        assert!(processes(&marker).is_empty());
    });
}

/// On both versions of the tree, where they can be written.
#[test]
fn a_killed_launcher_leaves_no_control_group() {
    let trees = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"];
    let mut tried = 0;
    for tree in trees.map(std::path::Path::new) {
        let group = tree.join(marker());
        if !tree.join("cgroup.procs").exists() || std::fs::create_dir(&group).is_err() {
            continue;
        }
        tried += 1;
        let marker = marker();
        let arguments = ["--cgroup", group.to_str().unwrap(), "--", "sh", "-c"];
        let mut command = Caller(User::all()[0]).launcher(&arguments);
        command.args(["setsid sleep 1000 & echo ready; sleep 1000", &marker]);
        let mut child = command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert!(group.join("below").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while group.exists() || !processes(&marker).is_empty() {
            assert!(std::time::Instant::now() < until, "{} is left", group.display());
            std::thread::yield_now();
        }
    }
    if tried == 0 {
        atoll_testkit::skip::skip("cgroup-guard", "no control group tree can be written");
    }
}
