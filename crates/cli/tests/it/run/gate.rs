//! Commands that a policy has a person approve: asked about before anything is started.

use super::each;
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{Project, Ran};
use std::process::Command;

const ASKS: &str = "[exec]\nask = [\"touch *\"]\n";

fn run(project: &Project, flags: &[&str], command: &[&str]) -> Command {
    project.atoll(&[&["run"], flags, &["--"], command].concat())
}

fn ran(project: &Project, flags: &[&str], command: &[&str]) -> Ran {
    Ran(run(project, flags, command).output().unwrap())
}

#[test]
fn without_a_terminal_it_is_refused_and_nothing_is_started() {
    each(|project| {
        let there = project.root().join("x");
        let policy = project.outside().join("policy.toml");
        std::fs::write(&policy, ASKS).unwrap();
        let flags = ["--policy", policy.to_str().unwrap()];
        for command in
            [&["touch", "x"][..], &["/usr/bin/touch", "x"], &["sh", "-c", "true; touch x"]]
        {
            let run = ran(project, &flags, command);
            assert_eq!(run.code(), Some(125), "{}", run.text());
            let said = format!("\"touch *\" in exec.ask ({}:2)", policy.display());
            assert!(run.stderr().contains(&said), "{}", run.text());
            assert!(run.stderr().contains("[needs-approval]"), "{}", run.text());
            assert!(!there.exists());
        }
        // Others run, and so does this where nobody says so.
        assert_eq!(ran(project, &flags, &["true"]).code(), Some(0));
        assert_eq!(ran(project, &[], &["touch", "x"]).code(), Some(0));
        assert!(there.exists());
        // The project's own file adds, and takes nothing back.
        project.write("atoll.toml", "[exec]\nask = []\n");
        assert_eq!(ran(project, &flags, &["touch", "y"]).code(), Some(125));
        project.write("atoll.toml", ASKS);
        let run = ran(project, &[], &["touch", "y"]);
        assert!(run.stderr().contains("atoll.toml:2"), "{}", run.text());
    });
}

#[test]
fn on_a_terminal_the_user_is_asked_first() {
    each(|project| {
        project.write("atoll.toml", ASKS);
        for (keys, said, code) in [
            ("n\r", "[approval-denied]", 125),
            ("\x03", "[approval-denied]", 125),
            ("y\r", "allowed", 0),
        ] {
            let mut command = run(project, &[], &["touch", "x\x1by"]);
            let mut pty = Pty::spawn(command.env("TERM", "xterm")).unwrap();
            pty.expect("rule:   exec.ask \"touch *\" (").unwrap();
            pty.expect("what:   touch x\\u{1b}y").unwrap();
            pty.expect("atoll: run it? [y]es, [n]o ").unwrap();
            assert!(!project.root().join("x\x1by").exists());
            pty.send(keys).unwrap();
            pty.expect(said).unwrap();
            assert_eq!(pty.wait().unwrap().code(), Some(code), "{}", pty.unseen());
            assert_eq!(project.root().join("x\x1by").exists(), code == 0);
            assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
        }
    });
}

#[test]
fn a_long_command_hides_neither_its_rule_nor_its_end() {
    each(|project| {
        project.write("atoll.toml", ASKS);
        let script = format!("true {}; touch x", "y".repeat(20_000));
        let mut command = run(project, &[], &["sh", "-c", &script]);
        let mut pty = Pty::spawn(command.env("TERM", "xterm")).unwrap();
        pty.expect("atoll: run it? [y]es, [n]o ").unwrap();
        let shown = String::from_utf8_lossy(pty.screen()).replace("\r\n", "");
        let mut rest = shown.as_str();
        for part in [
            "rule:   exec.ask \"touch *\" (",
            "what:   sh -c true yyyy",
            "yyyy [... ",
            " characters left out ...] yyyy",
            "yyyy; touch x",
            "atoll: run it?",
        ] {
            rest = rest.split_once(part).expect(part).1;
        }
        pty.send("n\r").unwrap();
        pty.expect("[approval-denied]").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(125), "{}", pty.unseen());
        assert!(!project.root().join("x").exists());
    });
}
