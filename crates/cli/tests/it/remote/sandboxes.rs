//! Sandboxes by the command line: made, listed, looked at, changed, deleted.

use super::{Served, ask, command, each, objects, said};
use atoll_testkit::run::Ran;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

#[test]
fn a_sandbox_lives_from_create_to_delete() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let id = said(project, &["create", "web", "--label", "team=red", "--env", "A=b=c"]);
        let id = id.trim();
        assert!(id.starts_with("sbx_"), "{id}");
        let shown = objects(project, &["show", "web", "--json"]);
        assert_eq!(shown[0]["id"], id);
        assert_eq!(shown[0]["labels"]["team"], "red");
        assert!(said(project, &["show", id]).contains("\"state\": \"running\""));

        for (verb, state) in [("stop", "stopped"), ("start", "running"), ("kill", "stopped")] {
            let done = objects(project, &[verb, "web", "--json"]);
            assert_eq!(done[0]["state"], state, "{verb}");
        }
        assert_eq!(said(project, &["resume", "web"]), "");
        assert_eq!(said(project, &["delete", "web"]), "");
        let gone = ask(project, &["show", "web"]);
        assert_eq!(gone.code(), Some(1), "{}", gone.text());
        assert!(gone.stderr().contains("(not_found)"), "{}", gone.text());
        assert!(gone.stderr().contains("\nhint: "), "{}", gone.text());
    });
}

#[test]
fn lists_are_for_people_and_for_programs() {
    each(|project| {
        let _served = Served::start(project, &[]);
        assert_eq!(said(project, &["list"]), "ID  NAME  STATE  SINCE  IMAGE\n");
        assert_eq!(said(project, &["list", "--json"]), "");
        said(project, &["create", "one", "--label", "n=1"]);
        said(project, &["create", "two", "--label", "n=2"]);
        said(project, &["create"]);
        assert_eq!(objects(project, &["list", "--json"]).len(), 3);
        assert_eq!(said(project, &["list", "-q"]).lines().count(), 3);
        let text = said(project, &["list"]);
        assert!(text.lines().nth(1).unwrap().contains("  one   running  "), "{text}");
        assert!(text.lines().nth(3).unwrap().contains("  -     running  "), "{text}");
        let two = objects(project, &["list", "--json", "--label", "n=2", "--state", "running"]);
        assert_eq!((two.len(), &two[0]["name"]), (1, &"two".into()));
        assert_eq!(objects(project, &["list", "--json", "--state", "paused"]).len(), 0);
    });
}

#[test]
fn what_the_server_refuses_is_told_with_its_code() {
    each(|project| {
        let _served = Served::start(project, &[]);
        said(project, &["create", "one"]);
        let taken = ask(project, &["create", "one"]);
        assert_eq!(taken.code(), Some(1), "{}", taken.text());
        assert!(taken.stderr().starts_with("error: "), "{}", taken.text());
        assert!(taken.stderr().contains("(conflict)"), "{}", taken.text());
        let taken = ask(project, &["create", "one", "--json"]);
        assert_eq!(taken.code(), Some(1), "{}", taken.text());
        assert_eq!(taken.json()["error"]["code"], "conflict");
        // It is there, so it is given.
        let given = objects(project, &["create", "one", "--get", "--json"]);
        assert_eq!(given[0]["name"], "one");
        let image = ask(project, &["create", "--image", "/nowhere"]);
        assert!(image.stderr().contains("(invalid)"), "{}", image.text());
        for (arguments, what) in [
            (&["create", "Not a name"][..], "lower-case letters"),
            (&["create", "--memory", "much"], "--memory"),
            (&["create", "--env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
            (&["create", "--label", "x"], "KEY=VALUE"),
            (&["list", "--state", "asleep"], "there is no such state"),
            (&["delete"], "required"),
            (&["list", "--host", "ftp://x"], "neither unix:///PATH nor http://HOST:PORT"),
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(2), "{arguments:?}: {}", ran.text());
            assert!(ran.stderr().contains(what), "{arguments:?}: {}", ran.text());
        }
    });
}

#[test]
fn one_that_fails_does_not_keep_the_others_from_it() {
    each(|project| {
        let _served = Served::start(project, &[]);
        said(project, &["create", "a"]);
        said(project, &["create", "b"]);
        let ran = ask(project, &["delete", "a", "../keys", "nobody", "b", "--json"]);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        assert_eq!(ran.stdout().lines().count(), 2, "{}", ran.text());
        assert_eq!(ran.stderr().lines().count(), 2, "{}", ran.text());
        assert_eq!(said(project, &["list", "-q"]), "");
    });
}

#[test]
fn events_are_followed_and_a_reader_may_leave() {
    each(|project| {
        let _served = Served::start(project, &[]);
        said(project, &["create", "one"]);
        let events = objects(project, &["events", "--after", "0", "--count", "2", "--json"]);
        assert_eq!(events[0]["what"]["kind"], "requested");
        assert_eq!(events[1]["what"]["kind"], "started");
        let text = said(project, &["events", "one", "--after", "1", "--count", "1"]);
        assert!(text.starts_with("2 ") && text.ends_with(" started\n"), "{text}");

        let mut following = command(project, &["events", "--after", "0", "--json"]);
        let mut child = following.stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("requested"), "{line}");
        drop(reader);
        // Whoever writes next learns that nobody reads.
        said(project, &["delete", "one"]);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let later = ask(project, &["events", "--after", "1000000"]);
        assert!(later.stderr().contains("(invalid)"), "{}", later.text());
    });
}

#[test]
fn keys_open_tcp_until_they_are_revoked() {
    each(|project| {
        let _served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        let log = super::super::serve::support::log(project);
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
        let host = format!("http://{address}");
        let key = said(project, &["keys", "create", "--scope", "read", "--note", "mine"]);
        let over_tcp = |key: &str, arguments: &[&str]| {
            let mut command = project.atoll(arguments);
            Ran(command.env("ATOLL_API_KEY", key).args(["--host", &host]).output().unwrap())
        };
        assert_eq!(over_tcp(key.trim(), &["list"]).code(), Some(0));
        let refused = over_tcp(key.trim(), &["create"]);
        assert!(refused.stderr().contains("(forbidden)"), "{}", refused.text());
        let listed = objects(project, &["keys", "list", "--json"]);
        let mine = listed.iter().find(|key| key["note"] == "mine").unwrap();
        assert!(said(project, &["keys", "list"]).contains("read"));
        said(project, &["keys", "revoke", mine["id"].as_str().unwrap()]);
        let refused = over_tcp(key.trim(), &["list"]);
        assert!(refused.stderr().contains("(unauthenticated)"), "{}", refused.text());
    });
}
