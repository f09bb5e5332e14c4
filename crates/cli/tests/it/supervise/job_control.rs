//! Stopping and continuing, under a shell.

use super::{each_user, first_modes, marker, modes, processes};
use rustix::process::{Pid, Signal, kill_process};

const CTRL_Z: &str = "\x1a";

#[test]
fn ctrl_z_stops_the_job_and_fg_goes_on() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- sh -c 'echo started; read x; echo got $x'\r").unwrap();
        shell.expect("started").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send(CTRL_Z).unwrap();
        shell.expect("Stopped").unwrap();
        shell.expect("ready> ").unwrap();
        // The shell's line editor has its own raw modes; a plain command shows
        // what the launcher left.
        shell
            .send("stty -a | tr ';' '\\n' | grep -c -e '[^-]icanon' -e ' icanon'; echo still $?\r")
            .unwrap();
        shell.expect("still 0").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("fg\r").unwrap();
        shell.expect("$L").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send("word\r").unwrap();
        shell.expect("got word").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("echo status $?\r").unwrap();
        shell.expect("status 0").unwrap();
    });
}

#[test]
fn a_stopped_job_can_be_stopped_again_and_killed() {
    each_user(|user| {
        let marker = marker();
        let mut shell = user.shell();
        let script = "trap \"echo again\" CONT; echo started; while :; do read x; done";
        shell.send(format!("$L -- sh -c '{script}' {marker}\r")).unwrap();
        shell.expect("started").unwrap();
        for _ in 0..3 {
            shell.send(CTRL_Z).unwrap();
            shell.expect("Stopped").unwrap();
            shell.expect("ready> ").unwrap();
            shell.send("fg\r").unwrap();
            shell.expect("again\r\n").unwrap();
        }
        shell.send(CTRL_Z).unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("kill -9 %1; wait; echo over\r").unwrap();
        shell.expect("over").unwrap();
        shell.wait_until("no process left", |_| processes(&marker).is_empty()).unwrap();
    });
}

#[test]
fn a_background_job_runs_and_stops_when_it_reads() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- sh -c 'echo one; read x; echo got $x' &\r").unwrap();
        shell.expect("one").unwrap();
        shell
            .wait_until("the stop", |pty| {
                pty.send("jobs\r").is_ok()
                    && pty.expect("ready> ").is_ok()
                    && String::from_utf8_lossy(pty.screen()).contains("Stopped")
            })
            .unwrap();
        shell.send("fg\r").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send("word\r").unwrap();
        shell.expect("got word").unwrap();
        shell.expect("ready> ").unwrap();
        // The shell's own modes are as before: it can be used.
        shell.send("echo fine\r").unwrap();
        shell.expect("fine").unwrap();
    });
}

#[test]
fn a_background_job_that_reads_nothing_ends_by_itself() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- sh -c 'echo out; exit 4' & wait $!; echo status $?\r").unwrap();
        shell.expect("out").unwrap();
        shell.expect("status 4").unwrap();
    });
}

#[test]
fn the_launcher_itself_can_be_stopped_and_continued() {
    each_user(|user| {
        let marker = marker();
        let mut shell = user.shell();
        shell
            .send(format!(
                "$L --outcome /dev/null -- sh -c 'echo started; read x; echo got $x' {marker}\r"
            ))
            .unwrap();
        shell.expect("started").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        let pid = launcher_with(&marker);
        kill_process(pid, Signal::STOP).unwrap();
        shell.expect("Stopped").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("fg\r").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send("word\r").unwrap();
        shell.expect("got word").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("stty -a | grep -q ' icanon' && echo cooked\r").unwrap();
        shell.expect("cooked").unwrap();
    });
}

/// Without a shell nobody could continue a stopped launcher: as for a plain
/// command in an orphaned process group, Ctrl-Z does nothing.
#[test]
fn ctrl_z_without_a_shell_does_nothing() {
    each_user(|user| {
        let script = "trap 'echo again' CONT; echo ready; read x; read x; echo got $x";
        let mut pty =
            atoll_testkit::pty::Pty::spawn(&mut user.launcher(&["--", "sh", "-c", script]))
                .unwrap();
        let before = first_modes(&pty);
        pty.expect("ready").unwrap();
        pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        pty.send(CTRL_Z).unwrap();
        pty.expect("again").unwrap();
        pty.send("word\rword\r").unwrap();
        pty.expect("got word").unwrap();
        assert!(pty.wait().unwrap().success());
        assert_eq!(modes(&pty), before);
    });
}

#[test]
fn an_orphaned_background_job_finds_an_end_of_file() {
    each_user(|user| {
        let marker = marker();
        let mut shell = user.shell();
        // With monitor mode off in the subshell the job shares its group, which
        // has nobody left that could continue it.
        shell
            .send(format!("(set -m; $L -- sh -c 'echo started; read x; echo end $?' {marker} &)\r"))
            .unwrap();
        shell.expect("started").unwrap();
        shell.expect("end 1").unwrap();
        shell.wait_until("no process left", |_| processes(&marker).is_empty()).unwrap();
    });
}

#[test]
fn ctrl_c_ends_the_shells_loop_too() {
    each_user(|user| {
        let mut shell = user.shell();
        let script = "echo started; exec sleep 1000";
        shell.send(format!("for n in 1 2 3; do $L -- sh -c '{script}'; done\r")).unwrap();
        shell.expect("started").unwrap();
        shell.send("\x03").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("echo status $?\r").unwrap();
        shell.expect("status 130").unwrap();
    });
}

#[test]
fn an_editor_can_be_suspended() {
    if !super::is_installed("vim", "terminal-editor-suspended") {
        return;
    }
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- vim -u NONE -i NONE -n\r").unwrap();
        shell.expect("~").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send(CTRL_Z).unwrap();
        shell.expect("Stopped").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("fg\r").unwrap();
        shell.expect("~").unwrap();
        shell.send(":q!\r").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("echo status $?\r").unwrap();
        shell.expect("status 0").unwrap();
    });
}

fn launcher_with(marker: &str) -> Pid {
    // The guard is a copy and has the same arguments; it leads its session.
    let found = processes(marker).into_iter().filter_map(Pid::from_raw).find(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        let arguments = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        comm.is_ok_and(|name| name.trim() == "supervise")
            && arguments.is_ok_and(|bytes| bytes.windows(9).any(|part| part == b"--outcome"))
            && rustix::process::getsid(Some(*pid)).is_ok_and(|session| session != *pid)
    });
    found.unwrap()
}
