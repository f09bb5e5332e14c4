//! `atoll approvals`: what is asked for, decided by a person.

use super::{Served, ask, command, each, objects, said};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

#[test]
fn a_command_waits_until_it_is_approved() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let text = said(project, &["approvals", "list"]);
        assert_eq!(text, "ID  WHO  STATUS  COUNT  WHAT  RULE\n");
        let unknown = "apr_0123456789abcdef0123";
        for arguments in [
            &["approvals", "show", unknown][..],
            &["approvals", "approve", unknown, "--always", "--for", "1h"],
            &["approvals", "deny", unknown, "--reason", "no"],
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(1), "{}", ran.text());
            assert!(ran.text().contains("there is no approval apr_"), "{}", ran.text());
        }
        let ran = ask(project, &["approvals", "approve", unknown, "--once", "--always"]);
        assert_eq!(ran.code(), Some(2), "{}", ran.text());

        said(project, &["create", "web", "--exec-ask", "touch *"]);
        assert_eq!(ask(project, &["exec", "web", "--", "true"]).code(), Some(0), "the control");
        let mut watch = command(project, &["approvals", "watch", "--json", "--count", "5"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut watched = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut next = || -> serde_json::Value {
            serde_json::from_str(&watched.next().unwrap().unwrap()).unwrap()
        };
        let run = || command(project, &["exec", "web", "--", "touch", "x\u{1b}y"]).spawn().unwrap();

        let mut held = run();
        let asked = next();
        assert_eq!(asked["what"]["argv"], json!(["touch", "x\u{1b}y"]));
        assert!(held.try_wait().unwrap().is_none(), "it waits");
        let text = said(project, &["approvals", "list", "--sandbox", "web"]);
        assert!(text.contains(" touch x\\x1by ") && text.contains("exec.ask: touch *"), "{text}");
        let id = asked["id"].as_str().unwrap();
        said(project, &["approvals", "approve", id]);
        assert!(held.wait().unwrap().success());
        assert_eq!(next()["decided"]["scope"], "once");
        let ran = ask(project, &["exec", "web", "--", "test", "-e", "x\u{1b}y"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());

        let held = command(project, &["exec", "web", "--", "touch", "x\u{1b}y"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = next()["id"].as_str().unwrap().to_owned();
        let denied = said(project, &["approvals", "deny", &id, "--reason", "use another name"]);
        assert!(denied.contains(" denied"), "{denied}");
        let ended = held.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && text.contains("use another name"), "{text}");
        assert_eq!(next()["status"], "denied");

        let mut held =
            command(project, &["exec", "web", "--", "sh", "-c", "touch z"]).spawn().unwrap();
        let id = next()["id"].as_str().unwrap().to_owned();
        assert!(watch.wait().unwrap().success());
        let made =
            objects(project, &["approvals", "approve", &id, "--always", "--for", "1h", "--json"]);
        assert_eq!(made[0]["decided"]["scope"], "always");
        assert!(held.wait().unwrap().success());
        let ran = ask(project, &["exec", "web", "--", "sh", "-c", "touch z"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        said(project, &["approvals", "deny", &id]);
        let shown = said(project, &["approvals", "show", &id]);
        assert!(shown.contains("status: \"denied\""), "{shown}");
        let all = objects(project, &["approvals", "list", "--all", "--json"]);
        assert_eq!(all.len(), 3, "{all:?}");
    });
}

/// What the user's own policy has asked about is so in sandboxes of a server too.
#[test]
fn a_sandbox_asks_for_what_the_users_policies_say() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let config = project.home().join(".config/atoll");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.toml"), "[exec]\nask = ['git push *']\n").unwrap();
        let named = project.outside().join("policy.toml");
        std::fs::write(&named, "[exec]\nask = ['rm *']\n").unwrap();
        let named = named.to_str().unwrap();
        let asks = |arguments: &[&str]| {
            let made = objects(project, &[&["create", "--json"], arguments].concat());
            made[0]["exec_ask"].clone()
        };
        let flags = ["--policy", named, "--exec-ask", "make *", "--exec-ask", "rm *"];
        assert_eq!(asks(&flags), json!(["git push *", "rm *", "make *"]));
        assert_eq!(asks(&["--no-user-policy"]), json!(null));
        let ran = ask(project, &["create", "--policy", "/nowhere/policy.toml"]);
        assert!(ran.stderr().contains("does not exist"), "{}", ran.text());
    });
}
