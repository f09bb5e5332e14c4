//! What a sandbox may reach, looked at and changed from outside, and what is said of refusals.

use super::{Served, ask, command, each, objects, said};
use atoll_testkit::internet::Internet;
use atoll_testkit::pty::Pty;
use atoll_testkit::run::Project;
use serde_json::json;

/// A server with a sandbox `web` that may reach `a.test`, in an internet that has `b.test` too.
fn with_sandbox(test: impl Fn(&Project, &Served<'_>, u16)) {
    each(|project| {
        let internet = Internet::new();
        for name in ["a.test", "b.test"] {
            internet.name(name, &["127.0.0.1"]);
        }
        let site = internet.http(|_| (200, Vec::new(), b"here\n".to_vec()));
        let served = Served::start_in(project, &internet);
        let (port, net) = (site.port, format!("127.0.0.1/32:{}", site.port));
        let flags = ["--allow-host", &format!("a.test:{port}"), "--allow-host", &net];
        said(project, &[&["create", "web"], &flags[..]].concat());
        test(project, &served, port);
    });
}

#[test]
fn rules_are_shown_set_and_added_to() {
    with_sandbox(|project, _, port| {
        let shown = || objects(project, &["network", "show", "web", "--json"]).remove(0);
        let net = format!("127.0.0.1/32:{port}");
        assert_eq!(shown()["allow"], json!([format!("a.test:{port}"), net]));
        let get = |name: &str| {
            let url = format!("http://{name}:{port}/");
            ask(project, &["exec", "web", "--", "curl", "-sS", &url])
        };
        assert_eq!(get("a.test").stdout(), "here\n");
        let refused = get("b.test");
        let body: serde_json::Value = serde_json::from_str(&refused.stdout()).unwrap();
        let next = body["error"]["next_step"].as_str().unwrap();
        assert!(
            next.contains("PUT /v1/sandboxes/web/network") && !next.contains("[network]"),
            "{next}"
        );
        // What it says to do is done.
        let rule = format!("b.test:{port}");
        let words = "atoll network add web --allow-host b.test";
        assert!(next.contains(words) && refused.stderr().contains(words), "{}", refused.text());
        said(project, &["network", "add", "web", "--allow-host", &rule, "--deny-host", "c.test"]);
        assert_eq!(get("b.test").stdout(), "here\n");
        assert_eq!(get("a.test").stdout(), "here\n");
        assert_eq!(shown()["deny"], json!(["c.test"]));
        // Twice is once.
        said(project, &["network", "add", "web", "--allow-host", &rule]);
        assert_eq!(shown()["allow"].as_array().unwrap().len(), 3);
        said(project, &["network", "set", "web", "--allow-host", &rule, "--allow-host", &net]);
        assert_eq!(shown()["allow"], json!([rule, net]));
        assert!(get("a.test").stdout().contains("not-allowed"));
        for wrong in [&["network", "set", "web"][..], &["network", "add", "web"]] {
            let ran = ask(project, wrong);
            assert_eq!(ran.code(), Some(125), "{}", ran.text());
            assert!(ran.stderr().contains("--allow-host"), "{}", ran.text());
        }
        let ran = ask(project, &["network", "add", "web", "--allow-host", "ftp://x"]);
        assert!(ran.stderr().contains("network.allow.2"), "{}", ran.text());
    });
}

#[test]
fn one_that_was_made_without_says_how_it_is_made_with_one() {
    with_sandbox(|project, _, _| {
        said(project, &["create", "alone"]);
        assert_eq!(said(project, &["network", "show", "alone"]), "null\n");
        let ran = ask(project, &["network", "add", "alone", "--allow-host", "a.test"]);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        for words in ["made without a network", "atoll create --network FILE"] {
            assert!(ran.stderr().contains(words), "{}", ran.text());
        }
        // The control: one that reaches nothing at first can get more.
        let nothing = project.write("nothing.json", "{}");
        said(project, &["create", "later", "--network", nothing.to_str().unwrap()]);
        said(project, &["network", "add", "later", "--allow-host", "a.test"]);
    });
}

/// What is said of the network beside what a command prints.
fn told(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.find("atoll: network: ").map(|at| &line[at..]));
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_command_that_was_refused_something_ends_with_a_hint() {
    with_sandbox(|project, _, port| {
        let exec = |flags: &[&str], script: &str| {
            ask(project, &[&["exec"], flags, &["web", "--", "sh", "-c", script]].concat())
        };
        let many = "for n in 1 2 3; do curl -s https://evil.test/x > /dev/null; done; exit 7";
        let ran = exec(&[], many);
        assert_eq!(ran.code(), Some(7), "{}", ran.text());
        let lines = told(&ran.stderr());
        assert!((1..=2).contains(&lines.len()), "{lines:?}");
        for line in &lines {
            assert!(line.contains("evil.test") && line.contains("[not-allowed]"), "{line}");
            assert!(line.contains("atoll network add web --allow-host evil.test"), "{line}");
        }
        // The same in the same minute is not told again; nor is what was told of another.
        assert_eq!(told(&exec(&[], many).stderr()), Vec::<String>::new());
        let fine = format!("curl -sS http://a.test:{port}/");
        let ran = exec(&[], &fine);
        assert_eq!((ran.stdout().as_str(), told(&ran.stderr())), ("here\n", Vec::new()));
        // Lines of JSON stay that; the API tells who wants it.
        let ran = exec(&["--json"], "curl -s https://json.test/; true");
        assert_eq!(told(&ran.stderr()), Vec::<String>::new());
    });
}

#[test]
fn a_shell_ends_with_a_hint() {
    with_sandbox(|project, _, _| {
        let mut command = command(project, &["shell", "web"]);
        let mut pty = Pty::spawn(command.env("TERM", "xterm").env("SHELL", "/bin/sh")).unwrap();
        pty.send("curl -s https://shell.test/ > /dev/null; echo is-$((40 + 2))\n").unwrap();
        pty.expect("is-42").unwrap();
        assert_eq!(told(&String::from_utf8_lossy(pty.screen())), Vec::<String>::new());
        pty.send("exit\n").unwrap();
        pty.expect("atoll network add web --allow-host shell.test").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(0));
    });
}
