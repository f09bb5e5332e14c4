//! `atoll ps`, `logs`, `wait` and `expose`.

use super::{Served, ask, command, each, objects, said};
use atoll_testkit::run::Project;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

fn with_sandbox(test: impl Fn(&Project, &mut Served<'_>)) {
    each(|project| {
        let mut served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        said(project, &["create", "web"]);
        test(project, &mut served);
    });
}

fn detach(project: &Project, arguments: &[&str]) -> String {
    let words = [&["exec", "web", "-d"], arguments].concat();
    said(project, &words).trim().to_owned()
}

#[test]
fn commands_and_services_are_listed_and_drive_no_terminal() {
    with_sandbox(|project, served| {
        assert_eq!(said(project, &["ps", "web"]), "EXEC  NAME  STATE  STARTED  COMMAND\n");
        let id = detach(
            project,
            &["--name", "build", "--", "sh", "-c", "sleep 600", "\x1b]0;owned\x07"],
        );
        ask(project, &["exec", "web", "--", "sh", "-c", "exit 3"]);
        let text = said(project, &["ps", "web"]);
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with(&format!("{id}  build  running  ")), "{text}");
        assert!(line.ends_with("  sh -c sleep 600 \\x1b]0;owned\\x07"), "{text}");
        let all = said(project, &["ps", "web", "-a"]);
        assert!(all.contains("  exit 3   "), "{all}");
        assert_eq!(objects(project, &["ps", "web", "--json"])[0]["execs"][0]["name"], "build");

        let services = json!([{ "name": "db", "shell": "echo up; exec sleep 600" }]);
        let wanted = json!({ "name": "other", "services": services });
        assert_eq!(served.ask("POST", "/v1/sandboxes", Some(&wanted)).status, 201);
        let text = said(project, &["ps", "other"]);
        assert!(text.contains("\nSERVICE  STATE"), "{text}");
        assert!(text.lines().last().unwrap().starts_with("db       ready"), "{text}");
        assert_eq!(said(project, &["logs", "other", "db"]), "up\n");
        said(project, &["stop", "other"]);
        let text = said(project, &["ps", "other"]);
        assert!(text.lines().last().unwrap().starts_with("db       stopped"), "{text}");
    });
}

#[test]
fn what_was_used_is_shown_of_one_and_of_all_and_as_a_table() {
    with_sandbox(|project, _| {
        let usage = said(project, &["usage", "web"]);
        assert!(usage.starts_with("WHAT              USED\nprocessor time    "), "{usage}");
        assert!(usage.contains("\nfiles             ") && usage.contains("iB, at 2"), "{usage}");
        let one = &objects(project, &["usage", "web", "--json"])[0];
        assert_eq!((&one["name"], &one["used"]["network"]), (&"web".into(), &Value::Null));
        said(project, &["create", "other", "--label", "team=red"]);
        said(project, &["delete", "other"]);
        let all = said(project, &["usage"]);
        assert!(all.lines().last().unwrap().contains("together"), "{all}");
        let csv = said(project, &["usage", "--label", "team=red", "--csv"]);
        assert!(csv.starts_with("sandbox_id,name,labels,"), "{csv}");
        // Where nothing is counted, nothing is left of it.
        let has_any =
            objects(project, &["usage", "--label", "team=red", "--json"])[0]["total"]["sandboxes"]
                .as_u64();
        assert_eq!(csv.lines().count() as u64, 1 + has_any.unwrap(), "{csv}");
        let nobody = ask(project, &["usage", "no\x1bsuch"]);
        assert_eq!(nobody.code(), Some(1), "{}", nobody.text());
    });
}

#[test]
fn what_was_printed_is_printed_again_and_followed() {
    with_sandbox(|project, served| {
        let script = r"printf 'out\000\033[1m\n'; echo err >&2; read x < go; echo went; exit 4";
        said(project, &["exec", "web", "mkfifo", "go"]);
        let id = detach(project, &["--name", "job", "--", "sh", "-c", script]);
        said(project, &["wait", "web", "--log", &id, "err"]);
        let logs = ask(project, &["logs", "web", "job"]);
        assert_eq!((&*logs.0.stdout, &*logs.0.stderr), (&b"out\0\x1b[1m\n"[..], &b"err\n"[..]));
        let only = ask(project, &["logs", "web", "--stderr"]);
        assert_eq!((only.stdout(), only.stderr()), (String::new(), "err\n".to_owned()));
        let part = ask(project, &["logs", "web", &id, "--stdout", "--since-offset", "8"]);
        assert_eq!(part.stdout(), "\n");
        let events = objects(project, &["logs", "web", &id, "--stderr", "--json"]);
        assert_eq!((&events[0]["offset"], &events[0]["text"]), (&0.into(), &"err\n".into()));

        let mut following = command(project, &["logs", "web", "job", "--follow", "--stdout"]);
        let mut child = following.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
        assert_eq!(lines.next().unwrap().unwrap(), b"out\0\x1b[1m");
        served.kill();
        served.again();
        said(project, &["exec", "web", "--", "sh", "-c", "echo > go"]);
        assert_eq!(lines.next().unwrap().unwrap(), b"went");
        assert!(lines.next().is_none());
        assert_eq!(child.wait().unwrap().code(), Some(0));

        let nothing = ask(project, &["logs", "web", "no\x1bsuch"]);
        assert_eq!(nothing.code(), Some(1), "{}", nothing.text());
        assert!(nothing.stderr().contains("no\\x1bsuch"), "{}", nothing.text());
        let both = ask(project, &["logs", "web", "--since-offset", "1"]);
        assert_eq!(both.code(), Some(2), "{}", both.text());
    });
}

#[test]
fn waiting_ends_when_it_is_there_or_the_time_is_over() {
    with_sandbox(|project, _| {
        let over = ask(project, &["wait", "web", "--port", "8000", "--timeout", "200ms"]);
        assert_eq!(over.code(), Some(124), "{}", over.text());
        let id = detach(project, &["--cwd", "/tmp", "python3", "-m", "http.server", "8000"]);
        assert_eq!(said(project, &["wait", "web", "--port", "8000"]), "");
        assert_eq!(said(project, &["wait", "web", "--http", "8000/none"]), "404\n");
        let waited = objects(project, &["wait", "web", "--http", "8000", "--json"]);
        assert_eq!(waited[0]["matched"], "200");
        let line = said(project, &["wait", "web", "--log", &id, "GET /no[n]e"]);
        assert!(line.contains("\"GET /none HTTP/1.1\" 404"), "{line}");

        let running = ask(project, &["wait", "web", "--exec", &id, "--timeout", "200ms"]);
        assert_eq!(running.code(), Some(124), "{}", running.text());
        let ending = detach(project, &["--", "sh", "-c", "kill -KILL $$"]);
        assert_eq!(said(project, &["wait", "web", "--exec", &ending]), "137\n");
        let ended = objects(project, &["wait", "web", "--exec", &ending, "--json"]);
        assert_eq!(ended[0]["ended"]["signal"], 9);

        for (arguments, code) in [
            (&["wait", "web"][..], 2),
            (&["wait", "web", "--port", "1", "--http", "1"], 2),
            (&["wait", "web", "--port", "0"], 2),
            (&["wait", "web", "--log", "exe_1", "x"], 125),
            (&["wait", "web", "--log", &id, "("], 1),
            (&["wait", "nobody", "--port", "1"], 1),
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(code), "{arguments:?}: {}", ran.text());
        }
    });
}

#[test]
fn a_port_has_an_address_until_it_is_taken_back() {
    with_sandbox(|project, _| {
        said(project, &["exec", "web", "--", "sh", "-c", "echo page > /tmp/index.html"]);
        detach(project, &["--cwd", "/tmp", "python3", "-m", "http.server", "8000"]);
        said(project, &["wait", "web", "--http", "8000"]);
        let get = |url: &str| {
            let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--max-time", "20", "--resolve", &format!("{host}:127.0.0.1"), url]);
            String::from_utf8(curl.output().unwrap().stdout).unwrap()
        };
        let url = said(project, &["expose", "web", "8000"]);
        assert_eq!(get(url.trim()), "page\n", "{url}");
        let by_path = said(project, &["expose", "web", "8000", "--by-path"]);
        assert_eq!(get(by_path.trim()), "page\n", "{by_path}");
        let shown = objects(project, &["expose", "web", "8000", "--json"]);
        assert_eq!(shown[0]["visibility"], "private");
        assert_eq!(format!("{}\n", shown[0]["url"].as_str().unwrap()), url);
        assert_eq!(said(project, &["expose", "web", "8000", "--remove"]), "");
        assert!(get(url.trim()).contains("not_found"), "{}", get(url.trim()));
        let public = objects(project, &["expose", "web", "8000", "--public", "--json"]);
        assert_eq!(
            (&public[0]["visibility"], &public[0]["token"]),
            (&json!("public"), &Value::Null)
        );
        assert_eq!(get(public[0]["url"].as_str().unwrap()), "page\n");
    });
}
