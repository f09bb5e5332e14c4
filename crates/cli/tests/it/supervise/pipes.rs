//! No terminal: the command has the launcher's own descriptors.

use super::{Caller, each_user, marker, processes, shared_dir};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

fn start(user: Caller, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = user.launcher(&["--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, reader)
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn rest(mut reader: impl std::io::Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn bytes_and_the_exit_status_are_exact() {
    each_user(|user| {
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(1 << 20).collect();
        let mut child = user
            .launcher(&["--", "sh", "-c", "cat; echo err >&2; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.stdout == bytes);
        assert_eq!(output.stderr, b"err\n");
        assert_eq!(output.status.code(), Some(7));
    });
}

#[test]
fn a_reader_that_leaves_ends_the_command_by_sigpipe() {
    each_user(|user| {
        let status = user
            .command("bash")
            .args(["-c", "$L -- yes | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}"])
            .env("L", super::launcher())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(128 + 13));
    });
}

// The commands below start no children: a shell that waits for one has a mind of
// its own about signals.

#[test]
fn signals_arrive_exactly_once() {
    each_user(|user| {
        for (signal, name) in [
            (Signal::INT, "INT"),
            (Signal::TERM, "TERM"),
            (Signal::HUP, "HUP"),
            (Signal::QUIT, "QUIT"),
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
        ] {
            let script = format!(
                "n=0; trap 'n=$((n+1)); echo got $n' {name}; echo ready
                 while [ $n -lt 2 ]; do :; done; exit 9"
            );
            let (mut child, mut reader) = start(user, &script);
            for count in 1..=2 {
                kill_process(pid(&child), signal).unwrap();
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                assert_eq!(line, format!("got {count}\n"), "{name}");
            }
            assert_eq!(rest(reader), "");
            assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
        }
    });
}

#[test]
fn a_signal_that_ends_the_command_is_told() {
    each_user(|user| {
        for (signal, status) in [(Signal::TERM, 143), (Signal::QUIT, 131), (Signal::HUP, 129)] {
            let (mut child, _reader) = start(user, "echo ready; exec sleep 1000");
            kill_process(pid(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(status));
        }
    });
}

#[test]
fn a_stop_and_a_continuation_reach_the_command() {
    each_user(|user| {
        let script = "trap 'echo again; exit 8' CONT; echo ready; while :; do :; done";
        let (mut child, reader) = start(user, script);
        kill_process(pid(&child), Signal::TSTP).unwrap();
        let options = rustix::process::WaitIdOptions::STOPPED;
        let id = rustix::process::WaitId::Pid(pid(&child));
        let status = rustix::process::waitid(id, options).unwrap().unwrap();
        assert_eq!(status.stopping_signal(), Some(Signal::TSTP.as_raw()));
        kill_process(pid(&child), Signal::CONT).unwrap();
        assert_eq!(rest(reader), "again\n");
        assert_eq!(child.wait().unwrap().code(), Some(8));
    });
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    each_user(|user| {
        let script = "trap '' HUP INT; exec $L -- bash -c 'echo ready; read x <&3; exit 6'";
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = user.command("bash");
        // Descriptor 3 of the shell is the pipe, by a redirection of stdin.
        command.args(["-c", &format!("exec 3<&0 </dev/null; {script}")]);
        command.env("L", super::launcher()).stdin(reader).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill_process(pid(&child), Signal::HUP).unwrap();
        kill_process(pid(&child), Signal::INT).unwrap();
        writer.write_all(b"\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(6));
    });
}

#[test]
fn at_the_time_limit_everything_ends_and_output_is_kept() {
    each_user(|user| {
        let marker = marker();
        let dir = shared_dir();
        let outcome = dir.path().join("outcome");
        let script = "trap '' TERM INT; echo before; (sleep 1000)& sleep 1000; echo after";
        let output = user
            .launcher(&["--deadline-ms", "700", "--outcome", outcome.to_str().unwrap(), "--"])
            .args(["sh", "-c", script, &marker])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(124));
        assert_eq!(output.stdout, b"before\n");
        assert!(std::fs::read_to_string(outcome).unwrap().contains("timed_out: true"));
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn a_background_child_does_not_keep_the_launcher() {
    each_user(|user| {
        let started = std::time::Instant::now();
        let output = user
            .launcher(&["--", "sh", "-c", "(sleep 1000) & echo end"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"end\n");
        assert!(started.elapsed().as_secs() < 5);
    });
}

#[test]
fn a_lost_pid_1_is_told_with_its_cause() {
    each_user(|user| {
        let dir = shared_dir();
        let file = dir.path().join("outcome");
        let name = file.to_str().unwrap();
        let status = user.launcher(&["--lose", "--outcome", name, "--", "true"]).status().unwrap();
        assert_eq!(status.code(), Some(125));
        assert!(std::fs::read_to_string(&file).unwrap().contains("Lost(Exited(3))"));

        let marker = marker();
        let mut child = user
            .launcher(&["--outcome", name, "--", "sh", "-c", "echo ready; sleep 1000", &marker])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let init = child_of(pid(&child));
        kill_process(init, Signal::KILL).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(125));
        assert!(std::fs::read_to_string(&file).unwrap().contains("Lost(Killed(9))"));
        assert!(processes(&marker).is_empty());
    });
}

#[test]
fn a_missing_program_is_no_exit_status() {
    each_user(|user| {
        let dir = shared_dir();
        let file = dir.path().join("outcome");
        let arguments = ["--outcome", file.to_str().unwrap(), "--", "/no/such/program"];
        let status = user.launcher(&arguments).stdin(Stdio::null()).status().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(125), None));
        assert!(std::fs::read_to_string(&file).unwrap().contains("Failed"));
    });
}

/// Ten descriptors more or less would show.
#[test]
fn nothing_is_left_after_many_runs() {
    each_user(|user| {
        let before = std::fs::read_dir("/dev/pts").unwrap().count();
        let marker = marker();
        for _ in 0..100 {
            let mut command = user.launcher(&["--", "true", &marker]);
            assert!(command.stdin(Stdio::null()).status().unwrap().success());
        }
        assert!(processes(&marker).is_empty());
        assert!(std::fs::read_dir("/dev/pts").unwrap().count() <= before + 20);
    });
}

fn child_of(parent: Pid) -> Pid {
    let parent = parent.as_raw_nonzero();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let mut text = String::new();
    std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
    Pid::from_raw(text.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
}
