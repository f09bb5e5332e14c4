//! `atoll apply` of a session whose policy has a person approve it.

use super::super::serve::tcp::addresses;
use super::{Served, ask, command, each, objects};
use atoll_testkit::process::wait_until;
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{Project, Ran};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// Runs a script under review in a project whose own policy says who approves, or does not.
fn reviewed(project: &Project, policy: &str, script: &str) -> String {
    project.write("atoll.toml", policy);
    let run = ask(project, &["run", "--json", "--workspace", "review", "--", "sh", "-c", script]);
    assert_eq!(run.code(), Some(0), "{}", run.text());
    // What becomes of the file later changes nothing.
    std::fs::remove_file(project.root().join("atoll.toml")).unwrap();
    run.json()["session"].as_str().unwrap().to_owned()
}

const ASKS: &str = "[workspace]\napply = \"ask\"\n";

fn apply(project: &Project, more: &[&str]) -> Child {
    let mut command = command(project, &[&["apply"], more].concat());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    Ran(child.wait_with_output().unwrap())
}

/// The approval that is pending, once there is one.
fn pending(project: &Project) -> Value {
    let mut found = None;
    wait_until("an approval is pending", || {
        found = objects(project, &["approvals", "list", "--json"]).pop();
        found.is_some()
    });
    found.unwrap()
}

fn decide(project: &Project, words: &[&str]) -> Value {
    let asked = pending(project);
    let id = asked["id"].as_str().unwrap();
    objects(project, &[&["approvals", words[0], id, "--json"], &words[1..]].concat());
    asked
}

#[test]
fn what_a_session_applies_is_approved_by_somebody() {
    each(|project| {
        let script = "echo one > one; echo two > two; echo 'echo hi' > .envrc";
        let session = reviewed(project, ASKS, script);
        let is_there = |name: &str| project.root().join(name).exists();
        // Nobody is there, and a flag is nobody.
        for flags in [&["apply"][..], &["apply", "--yes"]] {
            let ran = ask(project, flags);
            assert_eq!(ran.code(), Some(1), "{}", ran.text());
            assert!(ran.stderr().contains("[approval-unavailable]"), "{}", ran.text());
            assert!(ran.stderr().contains(&format!("atoll apply {session}")), "{}", ran.text());
        }

        let _served = Served::start(project, &[]);
        let held = apply(project, &["--yes"]);
        let asked = decide(project, &["deny", "--reason", "not today"]);
        let what = &asked["what"];
        assert_eq!((&what["kind"], &what["session"]), (&json!("apply"), &json!(session)));
        assert_eq!(what["project"], json!(project.root()));
        assert_eq!(
            (&what["added"], &what["modified"], &what["deleted"]),
            (&json!(3), &json!(0), &json!(0))
        );
        assert_eq!((&what["risky"], &what["risks"][0]["path"]), (&json!(1), &json!(".envrc")));
        let said_in = what["said_in"].as_str().unwrap();
        assert!(said_in.ends_with("/atoll.toml:2"), "{said_in}");
        assert!(asked["asked_by"].as_str().unwrap().starts_with("uid:"), "{asked}");
        let ran = ended(held);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        let stderr = ran.stderr();
        assert!(stderr.contains("waiting until "), "{stderr}");
        assert!(stderr.contains("not today") && stderr.contains("[approval-denied]"), "{stderr}");
        assert!(!is_there("one"));

        // A part of it is another thing.
        let held = apply(project, &["one"]);
        assert_eq!(decide(project, &["approve"])["what"]["paths"], json!(["one"]));
        let ran = ended(held);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert!(is_there("one") && !is_there("two"));

        // What was approved is not what there is by then.
        let held = apply(project, &[]);
        let first = pending(project);
        let upper = project.home().join(".local/state/atoll/sessions").join(&session).join("upper");
        std::fs::write(upper.join("two"), "TWO\n").unwrap();
        decide(project, &["approve"]);
        let ran = ended(held);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        assert!(ran.stderr().contains("[approval-outdated]"), "{}", ran.text());
        assert!(!is_there("two"));
        let held = apply(project, &[]);
        assert_ne!(decide(project, &["approve"])["what"]["digest"], first["what"]["digest"]);
        let ran = ended(held);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert_eq!(project.read("two"), "TWO\n");
        let recorded =
            objects(project, &["events", "--audit", "--kind", "approval_decided", "--json"]);
        assert_eq!(recorded.len(), 4, "{recorded:?}");
    });
}

#[test]
fn what_a_server_refuses_is_json_for_who_asked_for_that() {
    each(|project| {
        reviewed(project, ASKS, "echo one > one");
        let _served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        // Who has no key is refused, by a server that is there.
        let host = format!("http://{}", addresses(project)[0]);
        let apply = |flags: &[&str]| {
            Ran(project.atoll(&[&["apply", "--host", &host], flags].concat()).output().unwrap())
        };
        let in_words = apply(&[]);
        assert_eq!(in_words.code(), Some(1), "{}", in_words.text());
        assert!(in_words.stderr().starts_with("error: "), "{}", in_words.text());
        let ran = apply(&["--json"]);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        let last = ran.stderr().lines().last().unwrap_or_default().to_owned();
        let refused: Value = serde_json::from_str(&last).expect(&last);
        assert_eq!(refused["error"]["code"], "unauthenticated", "{last}");
        assert!(refused["error"]["next_step"].is_string(), "{last}");
        assert!(!project.root().join("one").exists());
    });
}

#[test]
fn who_sits_at_the_terminal_is_asked() {
    each(|project| {
        let session = reviewed(project, ASKS, "echo one > one");
        let start = |flags: &[&str]| {
            let mut command = command(project, &[&["apply"], flags].concat());
            Pty::spawn(&mut command).unwrap()
        };
        let there = project.root().join("one");
        for (flags, keys) in [(&["--yes"][..], "n\r"), (&[], "\r")] {
            let mut pty = start(flags);
            pty.expect("A person approves what is applied (").unwrap();
            pty.expect("A one").unwrap();
            pty.expect("[y/N] ").unwrap();
            pty.send(keys).unwrap();
            pty.expect("[approval-denied]").unwrap();
            assert_eq!(pty.wait().unwrap().code(), Some(1));
            assert!(!there.exists());
        }
        let mut pty = start(&[&session]);
        pty.expect("[y/N] ").unwrap();
        pty.send("y\r").unwrap();
        assert!(pty.wait().unwrap().success(), "{}", pty.unseen());
        assert!(there.exists());
    });
}

#[test]
fn without_such_a_policy_nobody_is_asked() {
    each(|project| {
        reviewed(project, "", "echo one > one");
        let ran = ask(project, &["apply"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        // The user's own policy may say so too, and the project's cannot take it back.
        let config: PathBuf = project.home().join(".config/atoll");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.toml"), ASKS).unwrap();
        reviewed(project, "", "echo two > two");
        let ran = ask(project, &["apply"]);
        assert!(ran.stderr().contains("[approval-unavailable]"), "{}", ran.text());
        project.write("atoll.toml", "[workspace]\napply = \"confirm\"\n");
        let ran = ask(project, &["run", "--", "true"]);
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("a person approves what is applied"), "{}", ran.text());
    });
}
