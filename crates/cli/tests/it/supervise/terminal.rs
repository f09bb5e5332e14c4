//! A command that has the terminal to itself.

use super::{Caller, User, each_user, first_modes, modes, shared_dir};
use atoll_testkit::pty::Pty;
use rustix::fs::OFlags;
use std::os::unix::process::ExitStatusExt as _;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

fn start(user: Caller, script: &str) -> Pty {
    Pty::spawn(&mut user.launcher(&["--", "sh", "-c", script])).unwrap()
}

#[test]
fn the_size_is_right_from_the_first_instruction() {
    each_user(|user| {
        let mut pty = Pty::spawn(&mut user.launcher(&["--", "stty", "size"])).unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(0));
        assert_eq!(pty.screen(), b"24 80\r\n");
    });
}

#[test]
fn a_resize_reaches_the_command() {
    each_user(|user| {
        let mut pty =
            start(user, "trap 'stty size; exit 3' WINCH; echo ready; while :; do read x; done");
        pty.expect("ready").unwrap();
        pty.resize(50, 132).unwrap();
        pty.expect("50 132").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(3));
    });
}

#[test]
fn modes_are_raw_meanwhile_and_exactly_restored() {
    each_user(|user| {
        let mut pty = start(user, "stty -a; read x; stty raw -echo; exit 5");
        let before = first_modes(&pty);
        // The command's terminal starts with the user's modes.
        pty.expect("icrnl").unwrap();
        pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        assert_ne!(modes(&pty), before);
        pty.send("\r").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(5));
        assert_eq!(modes(&pty), before);
    });
}

#[test]
fn the_users_open_file_stays_blocking() {
    each_user(|user| {
        let mut pty = start(user, "echo ready; read x");
        pty.expect("ready").unwrap();
        let flags = rustix::fs::fcntl_getfl(pty.slave().unwrap()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        pty.send("\r").unwrap();
        assert!(pty.wait().unwrap().success());
    });
}

#[test]
fn ctrl_c_arrives_once_each_time() {
    each_user(|user| {
        let mut pty = start(
            user,
            "n=0; trap 'n=$((n+1)); echo int $n' INT; echo ready
             while [ $n -lt 2 ]; do read x; done; echo end",
        );
        pty.expect("ready").unwrap();
        pty.send(CTRL_C).unwrap();
        pty.expect("int 1").unwrap();
        pty.send(CTRL_C).unwrap();
        pty.expect("int 2").unwrap();
        pty.expect("end").unwrap();
        assert!(pty.wait().unwrap().success());
        assert!(!pty.unseen().contains("int"), "{:?}", pty.unseen());
    });
}

#[test]
fn ctrl_c_ends_a_command_that_does_not_mind_it() {
    each_user(|user| {
        let mut pty = start(user, "echo ready; exec sleep 1000");
        pty.expect("ready").unwrap();
        pty.send(CTRL_C).unwrap();
        assert_eq!(pty.wait().unwrap().signal(), Some(2));
        assert!(!pty.is_raw());
    });
}

#[test]
fn ctrl_d_is_an_end_of_file() {
    each_user(|user| {
        let mut pty = Pty::spawn(&mut user.launcher(&["--", "cat"])).unwrap();
        pty.send("line\r").unwrap();
        pty.expect("line\r\nline\r\n").unwrap();
        pty.send(CTRL_D).unwrap();
        assert!(pty.wait().unwrap().success());
    });
}

#[test]
fn every_byte_goes_through_unchanged_in_both_directions() {
    each_user(|user| {
        let dir = shared_dir();
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(8192).chain(*b"\xff\x00\xc3").collect();
        std::fs::write(dir.path().join("in"), &bytes).unwrap();
        let path = dir.path().display();
        let mut pty = start(
            user,
            &format!(
                "stty raw -opost -echo; printf ready; head -c 8195 >{path}/out; cat {path}/in"
            ),
        );
        pty.expect("ready").unwrap();
        pty.send(&bytes).unwrap();
        assert!(pty.wait().unwrap().success());
        assert_eq!(std::fs::read(dir.path().join("out")).unwrap(), bytes);
        assert!(pty.screen() == [b"ready", &bytes[..]].concat(), "the output differs");
    });
}

#[test]
fn the_tail_of_the_output_is_never_lost() {
    each_user(|user| {
        for _ in 0..20 {
            let mut pty = start(user, "stty -opost; seq 20000");
            assert!(pty.wait().unwrap().success());
            assert!(pty.screen().ends_with(b"\n19999\n20000\n"), "lost");
        }
    });
}

#[test]
fn a_flood_is_relayed_in_flat_memory() {
    const BYTES: usize = 64 << 20;
    each_user(|user| {
        let mut pty = start(
            user,
            "stty raw -opost -echo; printf ready; head -c 67108864 /dev/zero; printf end; read x",
        );
        pty.expect("ready").unwrap();
        let memory = |pty: &Pty| {
            let path = format!("/proc/{}/status", pty.pid().as_raw_nonzero());
            let status = std::fs::read_to_string(path).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let before = memory(&pty);
        let started = std::time::Instant::now();
        let bytes = pty.discard_until("end").unwrap();
        eprintln!("{} MiB/s", (BYTES >> 20) as f64 / started.elapsed().as_secs_f64());
        assert_eq!(bytes, BYTES + 3);
        let grown = memory(&pty) - before;
        assert!(grown < 1024, "grown by {grown} KiB");
        pty.send("\n").unwrap();
        assert!(pty.wait().unwrap().success());
    });
}

#[test]
fn a_slow_reader_holds_the_command_up() {
    each_user(|user| {
        let dir = shared_dir();
        let path = dir.path().join("written");
        let script = format!(
            "stty raw -opost; i=0; while [ $i -lt 400 ]; do head -c 4096 /dev/zero
             i=$((i+1)); echo $i >{}; done",
            path.display()
        );
        let mut pty = start(user, &script);
        let written = || std::fs::read_to_string(&path).unwrap_or_default();
        // Nothing reads the screen here. The command stops at what the buffers hold.
        let mut last = (String::new(), std::time::Instant::now());
        while last.0.is_empty() || last.1.elapsed().as_millis() < 500 {
            let now = written();
            if !now.trim().is_empty() && now != last.0 {
                last = (now, std::time::Instant::now());
            }
            pty.pause().unwrap();
        }
        let count: u32 = last.0.trim().parse().unwrap();
        assert!(count < 100, "{count} pieces of 4 KiB were taken");
        assert!(pty.wait().unwrap().success());
        assert_eq!(pty.screen().len(), 400 * 4096);
    });
}

#[test]
fn a_survivor_with_the_terminal_open_does_not_hold_the_launcher() {
    each_user(|user| {
        let mut pty = start(user, "(trap '' HUP; sleep 1000) & echo end");
        let started = std::time::Instant::now();
        assert!(pty.wait().unwrap().success());
        assert!(started.elapsed().as_secs() < 5);
        assert_eq!(pty.screen(), b"end\r\n");
    });
}

#[test]
fn the_command_may_close_its_terminal_and_open_it_again() {
    each_user(|user| {
        let mut pty = start(
            user,
            "exec </dev/null >/dev/null 2>&1; sleep 0.3; exec </dev/tty >/dev/tty; echo back",
        );
        assert!(pty.wait().unwrap().success());
        assert_eq!(pty.screen(), b"back\r\n");
    });
}

#[test]
fn an_editor_works() {
    if !super::is_installed("vim", "terminal-editor") {
        return;
    }
    each_user(|user| {
        let dir = shared_dir();
        let file = dir.path().join("text");
        let name = file.to_str().unwrap();
        let arguments = ["--", "vim", "-u", "NONE", "-i", "NONE", "-n", name];
        let mut pty = Pty::spawn(&mut user.launcher(&arguments)).unwrap();
        let before = first_modes(&pty);
        pty.expect("~").unwrap();
        pty.send("ihello w\u{f6}rld\x1b").unwrap();
        pty.send(":wq\r").unwrap();
        assert!(pty.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello w\u{f6}rld\n");
        assert_eq!(modes(&pty), before);
    });
}

#[test]
fn a_terminal_multiplexer_works() {
    if !super::is_installed("tmux", "terminal-multiplexer") {
        return;
    }
    each_user(|user| {
        let dir = shared_dir();
        let socket = dir.path().join("socket");
        let arguments = ["--", "tmux", "-f", "/dev/null", "-S", socket.to_str().unwrap()];
        let mut command = user.launcher(&arguments);
        command.args(["new", "stty size; read x; echo got $x; read x"]);
        // Without it tmux takes the login shell, which may let nobody in.
        command.env("SHELL", "/bin/sh");
        let mut pty = Pty::spawn(&mut command).unwrap();
        pty.expect("23 80").unwrap();
        pty.resize(40, 100).unwrap();
        pty.send("word\r").unwrap();
        pty.expect("got word").unwrap();
        pty.send("\r").unwrap();
        pty.expect("[exited]").unwrap();
        assert!(pty.wait().unwrap().success());
    });
}

#[test]
fn a_shell_has_its_own_job_control() {
    each_user(|user| {
        let arguments = ["--", "bash", "--norc", "--noprofile", "-i"];
        let mut pty = Pty::spawn(user.launcher(&arguments).env("PS1", "inner> ")).unwrap();
        pty.expect("inner> ").unwrap();
        pty.send("sh -c 'echo g\"\"o; exec sleep 1000'\r").unwrap();
        pty.expect("go").unwrap();
        pty.send("\x1a").unwrap();
        pty.expect("Stopped").unwrap();
        pty.expect("inner> ").unwrap();
        pty.send("bg; kill %1; wait; exit 6\r").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(6));
    });
}

#[test]
fn the_exit_status_of_a_signal_is_told() {
    each_user(|user| {
        let mut pty = start(user, "kill -SEGV $$");
        let status = pty.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(139), None));
    });
}

/// A terminal of another user's that is nobody's controlling terminal cannot be
/// opened anew: the launcher reads and writes the inherited file.
#[test]
fn a_session_of_another_pid_namespace_is_ours_as_well() {
    each_user(|user| {
        // Its leader stays outside, so session and group have the number 0 inside.
        let mut command = user.command("unshare");
        command.args(["-Ur", "--pid", "--fork", "--mount-proc"]).arg(super::launcher());
        command.args(["--", "sh", "-c", "stty size; read x; echo got $x; exit 4"]);
        let mut pty = Pty::spawn(&mut command).unwrap();
        let before = first_modes(&pty);
        pty.expect("24 80").unwrap();
        pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        pty.send("word\r").unwrap();
        pty.expect("got word").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(4));
        assert_eq!(modes(&pty), before);
    });
}

#[test]
fn a_terminal_that_cannot_be_opened_anew_is_relayed() {
    if !rustix::process::geteuid().is_root() {
        atoll_testkit::skip::skip(
            "terminal-of-another-user",
            "needs root to own the terminal and another user to run as",
        );
        return;
    }
    let user = Caller(User::Ordinary);
    let script = "stty size; read x; echo got $x; stty -opost; seq 20000";
    let mut pty =
        Pty::spawn_without_session(&mut user.launcher(&["--", "sh", "-c", script])).unwrap();
    let before = first_modes(&pty);
    pty.expect("24 80").unwrap();
    pty.send("word\r").unwrap();
    pty.expect("got word").unwrap();
    assert!(pty.wait().unwrap().success());
    assert!(pty.screen().ends_with(b"\n20000\n"));
    assert_eq!(modes(&pty), before);
}
