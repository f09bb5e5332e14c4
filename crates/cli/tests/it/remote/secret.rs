//! `atoll secret`, on the caller's own files and by a server.

use super::super::serve::support::state;
use super::{Served, ask, command, each, objects, said};
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{Project, Ran};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

fn feed(mut command: Command, input: &[u8]) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that refuses its arguments reads nothing.
    child.stdin.take().unwrap().write_all(input).unwrap_or_default();
    Ran(child.wait_with_output().unwrap())
}

fn here(project: &Project, arguments: &[&str]) -> Command {
    let state = state(project);
    let state = state.to_str().unwrap();
    project.atoll(&[&["secret"], arguments, &["--state", state]].concat())
}

#[track_caller]
fn names(project: &Project) -> Vec<String> {
    let ran = Ran(here(project, &["list", "--json"]).output().unwrap());
    assert_eq!(ran.code(), Some(0), "{}", ran.text());
    let name = |line: &str| -> String {
        let secret: serde_json::Value = serde_json::from_str(line).unwrap();
        secret["name"].as_str().unwrap().to_owned()
    };
    ran.stdout().lines().map(name).collect()
}

#[test]
fn secrets_need_no_server_and_a_server_has_the_same() {
    each(|project| {
        assert_eq!(names(project), Vec::<String>::new());
        assert!(!state(project).exists(), "a look makes nothing");
        let ran = feed(here(project, &["set", "GITHUB"]), b"s3cr3t-value\n");
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert!(ran.0.stdout.is_empty() && ran.0.stderr.is_empty(), "{}", ran.text());
        let mode = state(project).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        let served = Served::start(project, &[]);
        let listed = objects(project, &["secret", "list", "--json"]);
        assert_eq!(listed[0]["name"], "GITHUB");
        let ran = feed(command(project, &["secret", "set", "NPM", "--json"]), b"n\xff");
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert!(ran.stdout().contains(r#""name":"NPM""#), "{}", ran.text());
        assert_eq!(names(project), ["GITHUB", "NPM"]);
        let table = said(project, &["secret", "list"]);
        assert!(table.starts_with("NAME    CREATED"), "{table}");
        said(project, &["secret", "delete", "GITHUB"]);
        assert_eq!(names(project), ["NPM"]);
        let ran = ask(project, &["secret", "delete", "GITHUB"]);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        let ran = Ran(here(project, &["delete", "GITHUB"]).output().unwrap());
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        assert!(ran.text().contains("there is no secret GITHUB"), "{}", ran.text());
        drop(served);
        let log = super::super::serve::support::log(project);
        assert!(log.contains("NPM") && !log.contains("s3cr3t-value"), "{log}");
    });
}

#[test]
fn a_value_is_never_an_argument_and_never_shown() {
    each(|project| {
        let ran = feed(here(project, &["set", "A", "value"]), b"");
        assert_eq!(ran.code(), Some(2), "{}", ran.text());
        for (input, says) in [
            (&b""[..], "cannot be empty"),
            (b"\n", "cannot be empty"),
            (&[b'x'; 65_537], "at most"),
        ] {
            let ran = feed(here(project, &["set", "A"]), input);
            assert_eq!(ran.code(), Some(1), "{}", ran.text());
            assert!(ran.text().contains(says), "{}", ran.text());
        }
        assert_eq!(names(project), Vec::<String>::new());
        let largest = [&[b'x'; 65_536][..], b"\r\n"].concat();
        assert_eq!(feed(here(project, &["set", "A"]), &largest).code(), Some(0));
        let ran = feed(here(project, &["set", "A", "--exact"]), &largest);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        assert_eq!(feed(here(project, &["set", "a/b"]), b"x").code(), Some(2));

        let mut pty = Pty::spawn(&mut here(project, &["set", "TYPED"])).unwrap();
        pty.expect("value of TYPED: ").unwrap();
        pty.wait_until("no echo", |pty| {
            let modes = pty.modes().unwrap();
            !modes.local_modes.contains(rustix::termios::LocalModes::ECHO)
        })
        .unwrap();
        pty.send("hunter22\x7f\n").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(0));
        assert!(!pty.unseen().contains("hunter"), "{}", pty.unseen());
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
        assert_eq!(names(project), ["A", "TYPED"]);

        let mut pty = Pty::spawn(&mut here(project, &["set", "LEFT"])).unwrap();
        pty.expect("value of LEFT: ").unwrap();
        pty.wait_until("no echo", |pty| {
            let modes = pty.modes().unwrap();
            !modes.local_modes.contains(rustix::termios::LocalModes::ECHO)
        })
        .unwrap();
        pty.send("half\x03").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(130));
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
        assert_eq!(names(project), ["A", "TYPED"]);
    });
}

#[test]
fn files_that_others_can_read_are_refused_with_a_hint() {
    each(|project| {
        assert_eq!(feed(here(project, &["set", "A"]), b"x").code(), Some(0));
        let key = state(project).join("secrets.key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        for arguments in [&["list"][..], &["set", "B"], &["delete", "A"]] {
            let ran = feed(here(project, arguments), b"x");
            assert_eq!(ran.code(), Some(125), "{}", ran.text());
            assert!(ran.text().contains("hint: make it yours alone"), "{}", ran.text());
        }
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(names(project), ["A"]);
    });
}

#[test]
fn a_server_leaves_no_core_and_sandboxes_keep_their_limit() {
    each(|project| {
        let served = Served::start(project, &[]);
        let limits = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        // What holds, and the most that may.
        let core = |text: String| {
            let line = text.lines().find(|line| line.starts_with("Max core file size")).unwrap();
            let mut words = line.split_whitespace().skip(4).map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap())
        };
        let (ours, most) = core(limits(std::process::id()));
        let expected = if most == "0" { "0" } else { "1" };
        assert_eq!(core(limits(served.child.id())).0, expected);
        said(project, &["create", "web"]);
        let inside = core(said(project, &["exec", "web", "--", "cat", "/proc/self/limits"]));
        assert_eq!(inside.0, ours, "sandboxes have the limit that the server was given");
    });
}
