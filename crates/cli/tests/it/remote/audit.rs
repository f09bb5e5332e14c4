//! `atoll events --audit` and `atoll events verify`.

use super::super::serve::support::state;
use super::{Served, ask, command, each, objects, said};
use atoll_testkit::run::{Project, Ran};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

fn verify(project: &Project, more: &[&str]) -> Ran {
    let state = state(project);
    let arguments = [&["events", "verify", "--state", state.to_str().unwrap()], more].concat();
    Ran(project.atoll(&arguments).output().unwrap())
}

#[test]
fn the_log_is_printed_followed_and_checked() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["create", "web"]);
        let mut follower = command(project, &["events", "--audit", "--follow", "--json"])
            .args(["--after", "2", "--count", "3"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut followed = BufReader::new(follower.stdout.take().unwrap()).lines();
        let mut next = || -> serde_json::Value {
            serde_json::from_str(&followed.next().unwrap().unwrap()).unwrap()
        };
        assert_eq!(next()["what"]["kind"], "sandbox_created");
        assert_eq!(ask(project, &["exec", "web", "--", "sh", "-c", "exit 3"]).code(), Some(3));
        let started = next();
        assert_eq!(started["what"]["argv"], serde_json::json!(["sh", "-c", "exit 3"]));
        assert_eq!(next()["what"]["exit_code"], 3);
        assert!(follower.wait().unwrap().success());

        let of_one = objects(project, &["events", "--audit", "--sandbox", "web", "--json"]);
        assert_eq!(of_one.len(), 3, "{of_one:?}");
        let text = said(project, &["events", "--audit", "web", "--kind", "exec_started"]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(" exec_started "), "{text}");

        // What is set without the server is seen by it with the next command.
        let mut set =
            project.atoll(&["secret", "set", "LOCAL", "--state", state(project).to_str().unwrap()]);
        set.stdin(Stdio::from(std::fs::File::open("/etc/passwd").unwrap()));
        assert!(set.status().unwrap().success());
        assert_eq!(ask(project, &["exec", "web", "--", "true"]).code(), Some(0));
        let set = objects(project, &["events", "--audit", "--kind", "secret_set", "--json"]);
        assert_eq!(set[0]["what"]["by"], "another program", "{set:?}");

        // While the server runs, too.
        let ran = verify(project, &["--json"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        let whole: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!((&whole["whole"], &whole["first"]), (&true.into(), &1.into()));
        let hash = whole["hash"].as_str().unwrap();
        served.kill();
        served.again();
        let ran = verify(project, &["--hash", hash]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        let other = "0123456789abcdef".repeat(4);
        assert_eq!(verify(project, &["--hash", &other]).code(), Some(1));
        assert_eq!(verify(project, &["--hash", "x"]).code(), Some(125));
        let started =
            objects(project, &["events", "--audit", "--kind", "server_started", "--json"]);
        let in_order = |n: usize| started[n]["what"]["was_in_order"].as_bool().unwrap();
        assert!(in_order(0) && !in_order(1), "{started:?}");
        served.end();

        let folder = state(project).join("audit");
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("exit 3", "exit 4")).unwrap();
        let ran = verify(project, &[]);
        assert_eq!(ran.code(), Some(1), "{}", ran.text());
        let line = text.lines().position(|line| line.contains("exit 3")).unwrap() + 1;
        let named = format!(": line {line} (record {line}): its hash is not that");
        assert!(ran.stdout().contains(&named), "{}", ran.text());
        std::fs::write(&file, &text).unwrap();
        let ran = verify(project, &[]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        served.again();
    });
}
