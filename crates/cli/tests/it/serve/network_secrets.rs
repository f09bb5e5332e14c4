//! Secrets that are shown inside as files, where somebody says so.

use super::execs::{printed, run};
use super::support::state;
use super::{Served, each};
use atoll_testkit::run::Project;
use serde_json::{Value, json};
use std::path::Path;

const FILE: &str = "/run/secrets/own/token";
const VALUE: &str = "a value that is nowhere else: 7Qz1";

fn set(served: &Served<'_>, value: &str) {
    let set = served.ask("PUT", "/v1/secrets/TOKEN", Some(&json!({ "value": value })));
    assert!(matches!(set.status, 200 | 201), "{set:?}");
}

fn create(served: &Served<'_>, file: &str) -> super::Answer {
    let secrets = json!([{ "name": "TOKEN", "file": file }]);
    let request = json!({ "name": "web", "network": { "secrets": secrets } });
    served.ask("POST", "/v1/sandboxes", Some(&request))
}

fn sh(served: &Served<'_>, script: &str) -> String {
    printed(&run(served, &json!({ "shell": script }))).to_owned()
}

fn again(served: &Served<'_>) {
    for verb in ["stop", "resume"] {
        let answer = served.ask("POST", &format!("/v1/sandboxes/web/{verb}"), None);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Whether a value is in a file of the server's.
fn is_kept(project: &Project, value: &str) -> bool {
    fn holds(path: &Path, value: &str) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        if found.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            return entries.flatten().any(|entry| holds(&entry.path(), value));
        }
        let content = if found.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
        content.windows(value.len()).any(|window| window == value.as_bytes())
    }
    holds(&state(project), value)
}

#[test]
fn a_file_has_the_value_where_the_policy_says_so_and_nothing_keeps_it() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        set(&served, VALUE);
        for place in ["/home/user/token", "/run/secrets", "/run/secrets/../token"] {
            let refused = create(&served, place);
            let field = &refused.body["error"]["details"]["field"];
            let expected = (400, &json!("network.secrets.0.file"));
            assert_eq!((refused.status, field), expected, "{refused:?}");
        }
        let made = create(&served, FILE);
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.body["secret_files"], json!([FILE]));
        let told = served.ask("GET", "/v1/sandboxes/web/network", None).body;
        assert_eq!(told["secrets"], json!([{ "name": "TOKEN", "file": FILE }]));
        let look = format!("cat {FILE}; echo; stat -c '%a %U' {FILE}; stat -f -c %T {FILE}");
        assert_eq!(sh(&served, &look), format!("{VALUE}\n400 user\ntmpfs\n"));
        // It stays what it is, while what lies beside can be written.
        let change = format!(
            "chmod u+w {FILE}; echo x > {FILE}; rm -f {FILE}; mv {FILE} {FILE}.3; \
             echo beside > {FILE}.2; cat {FILE} {FILE}.2"
        );
        assert_eq!(sh(&served, &change), format!("{VALUE}beside\n"));
        let environment = sh(&served, "cat /proc/*/environ; env");
        assert!(!environment.contains(VALUE), "{environment}");
        // The control: what a sandbox writes is found.
        sh(&served, "echo control-9Kc > ~/written");
        assert!(is_kept(project, "control-9Kc") && !is_kept(project, VALUE));
        let audit = served.ask("GET", "/v1/audit?kind=secret_shown", None).body.to_string();
        assert!(audit.contains(FILE) && !audit.contains(VALUE), "{audit}");
        // It is there after the server was killed, and after the sandbox was stopped.
        served.kill();
        served.again();
        assert_eq!(sh(&served, &look), format!("{VALUE}\n400 user\ntmpfs\n"));
        again(&served);
        assert_eq!(sh(&served, &look), format!("{VALUE}\n400 user\ntmpfs\n"));
        assert!(!is_kept(project, VALUE));
    });
}

#[test]
fn what_runs_has_what_it_was_started_with() {
    each(|project| {
        let served = Served::start(project, &[]);
        let long = "x".repeat(64 << 10);
        set(&served, &long);
        assert_eq!(create(&served, FILE).status, 201);
        let look = format!("cat {FILE} || echo none");
        assert_eq!(sh(&served, &format!("wc -c < {FILE}")), "65536\n");
        set(&served, "new");
        assert_eq!(sh(&served, &format!("wc -c < {FILE}")), "65536\n");
        again(&served);
        assert_eq!(sh(&served, &look), "new");
        assert_eq!(served.ask("DELETE", "/v1/secrets/TOKEN", None).status, 204);
        assert_eq!(sh(&served, &look), "new");
        again(&served);
        assert_eq!(sh(&served, &look), "none\n");
        // Another policy shows it elsewhere, from the next start on.
        set(&served, "newest");
        let moved = format!("{FILE}-moved");
        let policy = json!({ "secrets": [{ "name": "TOKEN", "file": moved }] });
        let put = served.ask("PUT", "/v1/sandboxes/web/network", Some(&policy));
        assert_eq!(put.status, 200, "{put:?}");
        assert_eq!(sh(&served, &format!("ls {moved} {FILE} 2> /dev/null || echo none")), "none\n");
        again(&served);
        assert_eq!(sh(&served, &format!("{look}; cat {moved}")), "none\nnewest");
        let shown: Value =
            served.ask("GET", "/v1/sandboxes/web", None).body["secret_files"].clone();
        assert_eq!(shown, json!([moved]));
    });
}
