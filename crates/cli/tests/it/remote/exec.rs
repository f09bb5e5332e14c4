//! `atoll exec`: what comes back is what the command did, whatever becomes of the way.

use super::{Served, ask, command, each, said};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::{Project, Ran};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Output, Stdio};

fn with_sandbox(test: impl Fn(&Project, &mut Served<'_>)) {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["create", "web"]);
        test(project, &mut served);
    });
}

fn exec(project: &Project, arguments: &[&str]) -> Output {
    command(project, &[&["exec", "web"], arguments].concat()).output().unwrap()
}

/// Starts one whose output is read by the test.
fn start(project: &Project, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = command(project, &[&["exec", "web"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn line(reader: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

#[test]
fn streams_are_apart_and_exact_and_the_status_is_the_commands() {
    with_sandbox(|project, _| {
        let ran =
            exec(project, &["--", "sh", "-c", r"printf 'a\000\377\r\n'; printf err >&2; exit 7"]);
        assert_eq!(ran.stdout, b"a\0\xff\r\n");
        assert_eq!(ran.stderr, b"err");
        assert_eq!(ran.status.code(), Some(7));
        let long = "x".repeat(1000);
        for (arguments, code) in [
            (&["true"][..], 0),
            (&["--", "sh", "-c", "kill -TERM $$"], 143),
            (&["--timeout", "300ms", "sleep", "600"], 124),
            (&["/etc/passwd"], 126),
            (&["no-such-program", "-x"], 127),
            (&["/no/such/program"], 127),
            (&["--cwd", "/no/such/place", "true"], 125),
            (&["--cwd", "/", "test", "-d", "etc"], 0),
            (&["test", &long, "=", &long], 0),
        ] {
            let ran = Ran(exec(project, arguments));
            assert_eq!(ran.code(), Some(code), "{arguments:?}: {}", ran.text());
        }
        let nobody = ask(project, &["exec", "nobody", "true"]);
        assert_eq!(nobody.code(), Some(125), "{}", nobody.text());
        assert!(nobody.stderr().contains("(not_found)"), "{}", nobody.text());
        assert_eq!(ask(project, &["exec", "web", "--no-such-flag", "true"]).code(), Some(2));
        assert_eq!(ask(project, &["exec", "web"]).code(), Some(2));
    });
}

#[test]
fn long_output_is_whole_though_it_is_read_late() {
    with_sandbox(|project, _| {
        // Far more than is kept of a stream.
        let (mut child, mut stdout) = start(project, &["seq", "2000000"]);
        assert_eq!(line(&mut stdout), "1\n");
        // The command runs ahead until nobody has room for more.
        let kept = || said(project, &["exec", "web", "sh", "-c", "pgrep -c seq || true"]);
        assert_eq!(kept(), "1\n");
        let lines = (2..=2_000_000_u32).zip(stdout.lines());
        let count =
            lines.inspect(|(n, line)| assert_eq!(line.as_ref().unwrap(), &n.to_string())).count();
        assert_eq!(count, 1_999_999);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}

#[test]
fn input_is_forwarded_whole_and_only_if_asked_for() {
    with_sandbox(|project, _| {
        let mut random = vec![0; 5_000_000];
        File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        let path = project.outside().join("random");
        std::fs::write(&path, &random).unwrap();
        let feed = |arguments: &[&str]| {
            let mut command = command(project, &[&["exec", "web"], arguments].concat());
            command.stdin(File::open(&path).unwrap()).output().unwrap()
        };
        assert_eq!(feed(&["cat"]).stdout, b"");
        let fed = feed(&["-i", "cat"]);
        assert!(fed.stdout == random, "{} bytes: {}", fed.stdout.len(), Ran(fed).stderr());
        // A command that takes no more than a bit.
        let fed = feed(&["-i", "--", "head", "-c", "3"]);
        assert_eq!(fed.stdout, &random[..3]);
        assert_eq!((fed.status.code(), Ran(fed).stderr()), (Some(0), String::new()));
    });
}

#[test]
fn a_server_that_dies_in_the_middle_costs_no_byte_either_way() {
    with_sandbox(|project, served| {
        let script = "echo begun >&2; read first; echo got $first; read second; echo got $second
                      cat; echo end; exit 9";
        let mut command = command(project, &["exec", "web", "-i", "--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdin.write_all(b"one\n").unwrap();
        assert_eq!(line(&mut stdout), "got one\n");
        for round in 0..3 {
            served.kill();
            // What is typed meanwhile waits.
            stdin.write_all(format!("round {round}\n").as_bytes()).unwrap();
            served.again();
        }
        drop(stdin);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got round 0\nround 1\nround 2\nend\n");
        let ran = Ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code(), Some(9), "{}", ran.text());
        assert!(ran.stderr().starts_with("begun\n"), "{}", ran.text());
        assert!(!ran.stderr()[6..].contains("begun"), "{}", ran.text());
    });
}

#[test]
fn signals_are_the_commands() {
    with_sandbox(|project, _| {
        let script = "trap 'echo got int; n=1' INT; trap 'echo got usr1' USR1; echo ready
                      while [ -z \"$n\" ]; do sleep 0.05; done; exit 4";
        let (mut child, mut stdout) = start(project, &["--", "sh", "-c", script]);
        assert_eq!(line(&mut stdout), "ready\n");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::USR1).unwrap();
        assert_eq!(line(&mut stdout), "got usr1\n");
        kill_process(pid, Signal::INT).unwrap();
        assert_eq!(line(&mut stdout), "got int\n");
        assert_eq!(child.wait().unwrap().code(), Some(4));

        // A shell's loop ends only if its command dies of it.
        let (mut child, mut stdout) =
            start(project, &["--", "sh", "-c", "echo ready; exec sleep 600"]);
        assert_eq!(line(&mut stdout), "ready\n");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (None, Some(2)));
    });
}

#[test]
fn no_signal_is_ignored_because_the_server_does() {
    with_sandbox(|project, _| {
        // Signals 32 and 33 are the C library's own, which lets nobody set them.
        let ignored = |arguments: &[&str]| {
            let text = said(project, &[&["exec", "web"], arguments].concat());
            let hex = text.trim().strip_prefix("SigIgn:\t").unwrap();
            u64::from_str_radix(hex, 16).unwrap() & !(0b11 << 31)
        };
        let look = "grep SigIgn /proc/self/status";
        assert_eq!(ignored(&["--", "sh", "-c", look]), 0);
        assert_eq!(ignored(&["--session", "main", look]), 0);
        let ran = Ran(exec(project, &["--", "sh", "-c", "yes | head -n 1"]));
        assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), ("y\n", ""));
    });
}

#[test]
fn flags_reach_the_command() {
    with_sandbox(|project, _| {
        let out = |arguments: &[&str]| said(project, &[&["exec", "web"], arguments].concat());
        assert_eq!(out(&["-e", "A=b c", "--", "sh", "-c", "echo $A; pwd"]), "b c\n/home/user\n");
        assert_eq!(out(&["--cwd", "/usr", "pwd"]), "/usr\n");
        // In a session one word is a text, and several are a command.
        assert_eq!(out(&["--session", "main", "cd /usr; export B='x  y'"]), "");
        assert_eq!(out(&["--session", "main", "pwd; echo \"$B\""]), "/usr\nx  y\n");
        assert_eq!(out(&["--session", "main", "--", "echo", "$B", "a  b"]), "$B a  b\n");
        let root = ask(project, &["exec", "web", "--user", "root", "--", "id", "-u"]);
        if project.user == atoll_testkit::run::User::Root {
            assert_eq!(root.stdout(), "0\n", "{}", root.text());
        } else {
            assert_eq!(root.code(), Some(125), "{}", root.text());
            assert!(root.stderr().contains("(unsupported_by_tier)"), "{}", root.text());
        }
        assert_ne!(out(&["id", "-u"]), "0\n");
    });
}

#[test]
fn an_id_runs_once_and_a_detached_one_goes_on() {
    with_sandbox(|project, _| {
        let id = "exe_00000000000000000abc";
        let once = ["exec", "web", "--id", id, "--", "sh", "-c", "echo once | tee -a runs"];
        for _ in 0..3 {
            assert_eq!(said(project, &once), "once\n");
        }
        assert_eq!(said(project, &["exec", "web", "cat", "runs"]), "once\n");
        let other = ask(project, &["exec", "web", "--id", id, "true"]);
        assert_eq!(other.code(), Some(125), "{}", other.text());
        assert!(other.stderr().contains("(conflict)"), "{}", other.text());

        let script = "while ! [ -e go ]; do sleep 0.05; done; echo went; exit 3";
        let detached = said(project, &["exec", "web", "-d", "--", "sh", "-c", script]);
        let id = detached.trim();
        assert!(id.starts_with("exe_") && detached.ends_with('\n'), "{detached:?}");
        said(project, &["exec", "web", "touch", "go"]);
        let again = ask(project, &["exec", "web", "--id", id, "--", "sh", "-c", script]);
        assert_eq!((again.code(), again.stdout().as_str()), (Some(3), "went\n"));

        let told = ask(project, &["exec", "web", "--json", "--", "sh", "-c", "echo out; exit 5"]);
        assert_eq!((told.code(), told.stdout().as_str()), (Some(5), "out\n"), "{}", told.text());
        let exec = told.json();
        assert_eq!((&exec["ended"]["exit_code"], &exec["stdout"]["bytes"]), (&5.into(), &4.into()));
        let told = ask(project, &["exec", "web", "--json", "no-such-program"]);
        assert_eq!(told.code(), Some(127), "{}", told.text());
        assert_eq!(told.json()["error"]["details"]["reason"], "program_not_found");
        let detached = super::objects(project, &["exec", "web", "--json", "--detach", "true"]);
        assert!(detached[0]["id"].as_str().unwrap().starts_with("exe_"), "{detached:?}");
    });
}

#[test]
fn one_that_sleeps_is_woken() {
    with_sandbox(|project, served| {
        said(project, &["exec", "web", "--", "sh", "-c", "echo kept > note"]);
        said(project, &["stop", "web"]);
        assert_eq!(served.state("web"), "stopped");
        assert_eq!(said(project, &["exec", "web", "cat", "note"]), "kept\n");
    });
}

#[test]
fn a_command_whose_reader_left_is_ended() {
    with_sandbox(|project, _| {
        let mut command = project.bare("bash");
        let program = project.program().to_owned();
        let host = format!("unix://{}", super::socket(project).display());
        let script = "set -o pipefail; \"$A\" exec web yes | head -n 1";
        command.args(["-c", script]).env("A", program).env("ATOLL_HOST", host);
        let ran = Ran(command.output().unwrap());
        assert_eq!((ran.code(), ran.stdout().as_str()), (Some(141), "y\n"), "{}", ran.text());
        assert_eq!(ran.stderr(), "");
        let left = || said(project, &["exec", "web", "sh", "-c", "pgrep -c yes || true"]);
        wait_until("the command to be gone", || left() == "0\n");

        let mut full = super::command(project, &["exec", "web", "echo", "much"]);
        full.stdout(File::options().write(true).open("/dev/full").unwrap());
        let ran = Ran(full.output().unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("cannot write to standard output"), "{}", ran.text());
    });
}
