//! What rules say to ask for: on a terminal the user is asked, and nobody else can answer.

use super::{atoll, each, run_sh, told};
use atoll_testkit::internet::{Internet, Request, Response, Site};
use atoll_testkit::process::wait_until;
use atoll_testkit::pty::Pty;
use atoll_testkit::run::Project;
use std::io::Write as _;

/// What a question ends with.
const CHOICES: &str = "[y]es once, [r] in this run, [n]o ";

fn hello(request: &Request) -> Response {
    (200, Vec::new(), format!("served {}\n", request.path).into_bytes())
}

/// A site that is asked for, and the flags.
fn asked_for(internet: &Internet) -> (Site, [String; 2]) {
    internet.name("a.test", &["127.0.0.1"]);
    let site = internet.http(hello);
    let flags = [format!("a.test:{}", site.port), format!("127.0.0.1/32:{}", site.port)];
    (site, flags)
}

fn start(internet: &Internet, project: &Project, rules: &[String; 2], script: &str) -> Pty {
    let mut command =
        atoll(internet, project, &["--ask-host", &rules[0], "--allow-host", &rules[1]]);
    command.args(["--", "sh", "-c", script]).env("TERM", "xterm");
    Pty::spawn(&mut command).unwrap()
}

/// Waits for the question, which is not to be answered before its last line.
fn expect_question(pty: &mut Pty, about: &str) {
    pty.expect("atoll: a question of the sandbox's policy").unwrap();
    pty.expect(about).unwrap();
    pty.expect("atoll: allow ").unwrap();
    pty.expect(CHOICES).unwrap();
}

#[test]
fn once_lets_pass_what_waits_and_the_next_is_asked_for_again() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        let script = format!(
            "curl -sS http://a.test:{port}/one; curl -sS http://a.test:{port}/two; echo; exit 3"
        );
        let mut pty = start(&internet, project, &rules, &script);
        expect_question(&mut pty, &format!("what:   GET a.test:{port}/one"));
        pty.send("y\r").unwrap();
        pty.expect("atoll: allowed once").unwrap();
        pty.expect("served /one").unwrap();
        expect_question(&mut pty, &format!("what:   GET a.test:{port}/two"));
        pty.send("n\r").unwrap();
        pty.expect("atoll: not allowed").unwrap();
        pty.expect("\"code\":\"approval-denied\"").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(3), "{:?}", pty.unseen());
        let paths: Vec<String> = site.requests().iter().map(|one| one.path.clone()).collect();
        assert_eq!(paths, ["/one"]);
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
    });
}

/// Two requests wait for one rule and host: what is allowed once is the one that was shown.
#[test]
fn once_is_for_the_request_that_was_shown() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        let program = format!(
            r#"
import socket, threading
def ask(path):
    s = socket.create_connection(("a.test", {port}))
    s.sendall(f"GET {{path}} HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close\r\n\r\n".encode())
    return s
waiting = [ask("/one"), ask("/two")]
open("sent", "w").close()
for s in waiting: print(s.makefile().readline())
"#
        );
        let mut command =
            atoll(&internet, project, &["--ask-host", &rules[0], "--allow-host", &rules[1]]);
        command.args(["--", "python3", "-c", &program]).env("TERM", "xterm");
        let mut pty = Pty::spawn(&mut command).unwrap();
        expect_question(&mut pty, &format!("what:   GET a.test:{port}/"));
        wait_until("both are sent", || project.root().join("sent").exists());
        pty.send("y\r").unwrap();
        pty.expect("atoll: allowed once").unwrap();
        expect_question(&mut pty, &format!("what:   GET a.test:{port}/"));
        wait_until("one is served", || site.requests().len() == 1);
        pty.send("n\r").unwrap();
        assert!(pty.wait().unwrap().success(), "{}", pty.unseen());
        let screen = String::from_utf8_lossy(pty.screen()).into_owned();
        assert_eq!(screen.matches("HTTP/1.1 200 OK").count(), 1, "{screen}");
        assert_eq!(screen.matches("HTTP/1.1 403 Forbidden").count(), 1, "{screen}");
        assert_eq!(site.requests().len(), 1);
    });
}

#[test]
fn in_this_run_is_asked_once() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(|mut stream| stream.write_all(b"served\n").unwrap());
        let rules = [format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}")];
        // One that is not answered soon enough is refused, and comes about later.
        let script = format!(
            "n=0; while [ $n -lt 3 ]; do python3 -c '
import socket
s = socket.create_connection((\"a.test\", {port})); print(s.recv(99).decode())' 2>/dev/null && n=$((n+1)); done
            trap 'stty size; exit 4' WINCH; echo done; while :; do sleep 0.05; done"
        );
        let mut pty = start(&internet, project, &rules, &script);
        expect_question(&mut pty, &format!("rule:   ask \"tcp://a.test:{port}\" (--ask-host)"));
        pty.send("r\r").unwrap();
        pty.expect("atoll: allowed in this run").unwrap();
        pty.expect("done").unwrap();
        assert!(!pty.unseen().contains("question"));
        assert!(pty.is_raw(), "the command has its keys again");
        pty.resize(50, 132).unwrap();
        pty.expect("50 132").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(4));
    });
}

#[test]
fn the_command_is_told_to_draw_its_screen_anew() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        // Each time that it is told ends a wait, and a busy machine tells more than once.
        let script = format!(
            "trap 'echo drawn' WINCH; curl -sS http://a.test:{port}/ &
             while kill -0 $! 2>/dev/null; do wait $!; done; exit 0"
        );
        let mut pty = start(&internet, project, &rules, &script);
        expect_question(&mut pty, "who:    sh -c ");
        let before = pty.screen().len();
        pty.send("y\r").unwrap();
        pty.expect("drawn").unwrap();
        pty.expect("served /").unwrap();
        assert!(pty.wait().unwrap().success());
        let screen = String::from_utf8_lossy(&pty.screen()[before..]).into_owned();
        assert!(screen.find("allowed once") < screen.find("drawn"), "{screen:?}");
    });
}

/// Neither what was typed for the command, nor what the terminal reports because the command
/// asked it to, nor what comes together with that.
#[test]
fn only_what_is_typed_behind_the_question_answers_it() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        let script = format!(
            "echo ready; read line; echo got $line; stty -icanon -echo
             printf '\\033[21t\\033]2;y'; curl -sS http://a.test:{port}/ -o answer
             cat answer; dd bs=1 count=2 2>/dev/null | od -c; exit 5"
        );
        let mut pty = start(&internet, project, &rules, &script);
        pty.expect("ready").unwrap();
        // For the command, and for what it reads next.
        pty.send("word\ry\r").unwrap();
        pty.expect("got word").unwrap();
        pty.expect("atoll: a question of").unwrap();
        // While the question appears.
        pty.send("y\r").unwrap();
        pty.expect(CHOICES).unwrap();
        pty.send("\x1b]ly\r\x1b\\y\ry\r").unwrap();
        pty.expect(CHOICES).unwrap();
        assert!(site.requests().is_empty());
        pty.send("n\r").unwrap();
        pty.expect("approval-denied").unwrap();
        // What was typed for the command has reached it.
        pty.expect("y  \\n").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(5), "{:?}", pty.unseen());
        assert!(site.requests().is_empty());
    });
}

/// The end of the command is the end of its question.
#[test]
fn nobody_is_asked_for_a_command_that_has_ended() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        let script = format!("curl -sS http://a.test:{port}/ & read x; exit 6");
        let mut pty = start(&internet, project, &rules, &script);
        expect_question(&mut pty, "who:");
        rustix::process::kill_process(pty.pid(), rustix::process::Signal::TERM).unwrap();
        let status = pty.wait().unwrap();
        assert_eq!(status.code(), Some(143), "{:?}", pty.unseen());
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
        assert!(site.requests().is_empty());
    });
}

#[test]
fn without_a_terminal_it_is_refused_with_what_to_write() {
    each(|project| {
        let internet = Internet::new();
        let (site, rules) = asked_for(&internet);
        let port = site.port;
        let script = format!("curl -sS http://a.test:{port}/");
        let flags = ["--ask-host", &rules[0], "--allow-host", &rules[1]];
        let run = run_sh(&internet, project, &flags, &script);
        assert!(run.stdout().contains("\"code\":\"approval-denied\""), "{}", run.text());
        let lines = told(&run);
        let said = format!("with --allow-host a.test:{port}");
        assert!(lines.len() == 1 && lines[0].contains(&said), "{lines:?}");
        // The control: what it says to write lets it pass.
        let flags = ["--allow-host", &rules[0], "--allow-host", &rules[1]];
        let run = run_sh(&internet, project, &flags, &script);
        assert_eq!(run.stdout(), "served /\n", "{}", run.text());
        assert_eq!(site.requests().len(), 1);
    });
}
