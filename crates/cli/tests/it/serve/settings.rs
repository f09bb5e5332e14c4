//! What the operator decides about all sandboxes of a server, in a file.

use super::support::{command, log};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use atoll_testkit::skip;
use serde_json::json;
use std::fs;

fn settings(project: &Project, text: &str) -> String {
    let path = project.outside().join("serve.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn defaults_hold_and_what_is_above_a_cap_is_refused_with_its_name() {
    each(|project| {
        let text = "[defaults]\nidle_stop = \"30m\"\n[caps]\nlease = \"1h\"\n";
        let served = Served::start(project, &["--config", &settings(project, text)]);
        let made = served.create("web");
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(
            made.body["lifecycle"],
            json!({"idle_stop_ms": 1_800_000, "lease_ms": 3_600_000})
        );
        let longer = json!({"lifecycle": {"lease_ms": 3_600_001}});
        let refused = served.ask("POST", "/v1/sandboxes", Some(&longer));
        assert_eq!(refused.body["error"]["details"]["limit"], "lease_ms_max", "{refused:?}");
        let can = served.ask("GET", "/v1/capabilities", None);
        assert_eq!(can.body["lifecycle_max"]["lease_ms"], 3_600_000);
    });
}

#[test]
fn settings_that_make_no_sense_or_are_not_enforced_here_are_said_at_the_start() {
    each(|project| {
        let refused = |text: &str, said: &str| {
            let path = settings(project, text);
            let mut command = command(project, &["--config", &path]);
            let ended = command.status().unwrap();
            assert_eq!(ended.code(), Some(125), "{}", log(project));
            assert!(log(project).contains(said), "{said}: {}", log(project));
        };
        refused("[caps]\nleese = \"1h\"\n", "leese");
        refused("[defaults]\ndisk = \"1GiB\"\n", "limit_disk");
    });
}

#[test]
fn a_team_whose_budget_is_used_up_stops_and_others_work_on() {
    each(|project| {
        let text = "[[budget]]\nname = \"red\"\nlabels = { team = \"red\" }\nevery = \"month\"\ncpu = \"1s\"\n";
        let path = settings(project, text);
        let mut probe = Served::start(project, &[]);
        let can = probe.ask("GET", "/v1/capabilities", None);
        let counts = can.body["flags"]["measure_cpu"] == true;
        probe.end();
        drop(probe);
        if !counts {
            return skip::skip("budget-cpu", "no cgroup tree can be written");
        }
        let mut served = Served::start(project, &["--config", &path]);
        let create = |served: &Served, name: &str, team: &str| {
            let request = json!({"name": name, "labels": {"team": team}});
            served.ask("POST", "/v1/sandboxes", Some(&request))
        };
        for (name, team) in [("one", "red"), ("two", "blue")] {
            assert_eq!(create(&served, name, team).status, 201);
            let spin = json!({"command": ["sh", "-c", "while :; do :; done"]});
            let begun = served.ask("POST", &format!("/v1/sandboxes/{name}/execs"), Some(&spin));
            assert!(begun.status < 300, "{begun:?}");
        }
        wait_until("it is stopped", || served.state("one") == "stopped");
        assert_eq!(served.state("two"), "running");
        let one = served.ask("GET", "/v1/sandboxes/one", None);
        let cause = one.body["cause"].as_str().unwrap();
        assert!(cause.starts_with("the budget red is used up: cpu_us is "), "{cause}");
        // Neither this server nor the next one starts it, and it is said when there is more.
        for _ in 0..2 {
            for (method, path, body) in [
                ("POST", "/v1/sandboxes/one/resume", json!({})),
                ("POST", "/v1/sandboxes/one/execs", json!({"command": ["true"]})),
                ("POST", "/v1/sandboxes", json!({"labels": {"team": "red"}})),
            ] {
                let refused = served.ask(method, path, Some(&body));
                assert_eq!(refused.body["error"]["code"], "capacity", "{refused:?}");
                assert_eq!(refused.body["error"]["details"]["budget"], "red");
                assert_eq!(refused.body["error"]["details"]["limit"], "budget.cpu_us");
                assert_eq!(refused.body["error"]["retry"]["kind"], "after");
            }
            assert_eq!(served.ask("DELETE", "/v1/sandboxes/two", None).status, 200);
            assert!(served.end().success(), "{}", log(project));
            served.again();
            assert_eq!(create(&served, "two", "blue").status, 201);
        }
        let budgets = served.ask("GET", "/v1/budgets", None);
        assert_eq!(budgets.body["budgets"][0]["overdrawn"], "cpu_us", "{budgets:?}");
    });
}
