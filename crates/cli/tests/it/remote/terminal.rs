//! `atoll exec -t` and `atoll shell`: our terminal is the command's, and ours again.

use super::{Served, ask, command, each, said};
use atoll_testkit::pty::Pty;
use atoll_testkit::run::Project;
use rustix::process::{Signal, kill_process};

fn with_sandbox(test: impl Fn(&Project, &mut Served<'_>)) {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["create", "web"]);
        test(project, &mut served);
    });
}

fn start(project: &Project, arguments: &[&str]) -> Pty {
    let mut command = command(project, arguments);
    Pty::spawn(command.env("TERM", "xterm").env("SHELL", "/bin/sh")).unwrap()
}

fn sh(project: &Project, script: &str) -> Pty {
    start(project, &["exec", "web", "-t", "--", "sh", "-c", script])
}

#[track_caller]
fn is_as_before(pty: &Pty) {
    assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
}

#[test]
fn a_terminal_has_our_size_and_keys_and_is_given_back() {
    with_sandbox(|project, _| {
        let script = "test -t 0 && test -t 1 && test -t 2; echo $? $TERM; stty size
            trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.05; done";
        let mut pty = sh(project, script);
        pty.expect("0 xterm\r\n24 80\r\nready").unwrap();
        assert!(pty.is_raw());
        pty.resize(50, 132).unwrap();
        pty.expect("50 132").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(7));
        is_as_before(&pty);

        let mut pty = sh(project, "trap 'echo got it; exit 3' INT; echo ready; read x; sleep 600");
        pty.expect("ready").unwrap();
        pty.send("\x03").unwrap();
        pty.expect("got it").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(3));
        is_as_before(&pty);
    });
}

#[test]
fn modes_are_put_back_whatever_ends_us() {
    with_sandbox(|project, _| {
        for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
            let mut pty = sh(project, "echo ready; exec sleep 600");
            pty.expect("ready").unwrap();
            pty.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
            kill_process(pty.pid(), signal).unwrap();
            let status = pty.wait().unwrap();
            if signal != Signal::KILL {
                assert_eq!(status.code(), Some(128 + signal.as_raw()), "{signal:?}");
            }
            pty.wait_until("modes as before", |pty| !pty.is_raw()).unwrap();
            is_as_before(&pty);
        }
        // One that cannot be started leaves nothing behind either.
        let mut pty = start(project, &["exec", "web", "-t", "no-such-program"]);
        assert_eq!(pty.wait().unwrap().code(), Some(127));
        assert!(pty.unseen().contains("error: "), "{}", pty.unseen());
        is_as_before(&pty);
    });
}

#[test]
fn without_a_terminal_there_is_none_to_share() {
    with_sandbox(|project, _| {
        for arguments in [&["exec", "web", "-t", "true"][..], &["shell", "web"]] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(125), "{}", ran.text());
            assert!(ran.stderr().contains("standard input is no terminal"), "{}", ran.text());
        }
    });
}

#[test]
fn a_terminal_survives_its_server() {
    with_sandbox(|project, served| {
        let mut pty = sh(project, "stty -echo; echo ready; while read x; do echo \"got $x\"; done");
        pty.expect("ready").unwrap();
        pty.send("one\r").unwrap();
        pty.expect("got one").unwrap();
        served.kill();
        pty.expect("the connection broke").unwrap();
        pty.send("two\r").unwrap();
        served.again();
        pty.expect("got two").unwrap();
        pty.send("three\r").unwrap();
        pty.expect("got three").unwrap();
        assert!(!pty.unseen().contains("got"), "{}", pty.unseen());
        served.kill();
        pty.expect("\r\n").unwrap();
        // Whoever does not want to wait need not.
        pty.send("\x03").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(130));
        is_as_before(&pty);
        served.again();
    });
}

#[test]
fn a_shell_is_left_and_found_again() {
    with_sandbox(|project, _| {
        let mut pty = start(project, &["shell", "web"]);
        pty.expect("Ctrl-] d leaves it running").unwrap();
        pty.send("stty -echo; PS1='in> '\r").unwrap();
        pty.expect("\nin> ").unwrap();
        pty.send("A=kept; echo $((6 * 7))\r").unwrap();
        pty.expect("42\r\n").unwrap();
        pty.send("\x1dd").unwrap();
        pty.expect("left it running; `atoll shell web --exec exe_").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(0));
        is_as_before(&pty);
        let screen = String::from_utf8_lossy(pty.screen()).into_owned();
        let (_, rest) = screen.rsplit_once("--exec ").unwrap();
        let id = rest.split('`').next().unwrap().to_owned();

        let mut pty = start(project, &["shell", "web", "--exec", &id]);
        // What it showed is shown again.
        pty.expect("42\r\n").unwrap();
        pty.send("echo $A; exit 6\r").unwrap();
        pty.expect("kept\r\n").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(6));
        is_as_before(&pty);

        let detached = said(project, &["exec", "web", "-d", "sleep", "600"]);
        let mut pty = start(project, &["shell", "web", "--exec", detached.trim()]);
        pty.expect("has no terminal").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(125));
        is_as_before(&pty);
    });
}
