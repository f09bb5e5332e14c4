//! What sandboxes of a server reach, and what stays so when it, or its gateway, is killed.

use super::execs::{printed, run};
use super::{Served, each};
use atoll_testkit::internet::{Internet, Request, Response, Site};
use atoll_testkit::process::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const VALUE: &str = "ghp_TheRealValue0123456789";

fn echo(request: &Request) -> Response {
    let text = format!("{} {}\n", request.path, request.all("authorization").join(","));
    (200, Vec::new(), text.into_bytes())
}

/// A server whose sandbox `web` has this network.
fn with_network(policy: impl Fn(u16) -> Value, test: impl Fn(&mut Served<'_>, &Internet, &Site)) {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let site = internet.https(&["a.test"], echo);
        let mut served = Served::start_in(project, &internet);
        let secret = served.ask("PUT", "/v1/secrets/GITHUB", Some(&json!({ "value": VALUE })));
        assert_eq!(secret.status, 201, "{secret:?}");
        let request = json!({ "name": "web", "network": policy(site.port) });
        let made = served.ask("POST", "/v1/sandboxes", Some(&request));
        assert_eq!(made.status, 201, "{made:?}");
        test(&mut served, &internet, &site);
    });
}

fn allowing(port: u16) -> Value {
    json!({
        "allow": [format!("a.test:{port}"), format!("127.0.0.1/32:{port}")],
        "secrets": [{
            "name": "GITHUB", "at": [format!("https://a.test:{port}")], "as": "bearer",
            "env": "GITHUB_TOKEN",
        }],
    })
}

fn sh(served: &Served<'_>, script: &str) -> String {
    printed(&run(served, &json!({ "shell": script }))).to_owned()
}

#[test]
fn a_sandbox_reaches_what_its_policy_allows_with_secrets_that_it_never_sees() {
    with_network(allowing, |served, internet, site| {
        let port = site.port;
        let reached = sh(served, &format!("curl -sS https://a.test:{port}/own"));
        assert_eq!(reached.split_once(' ').unwrap().0, "/own", "{reached}");
        assert!(reached.contains("Bearer atoll_GITHUB_") && !reached.contains(VALUE), "{reached}");
        let refused = sh(served, "curl -sS https://evil.test/x; env; cat /proc/*/environ");
        assert!(refused.contains("\"not-allowed\"") && !refused.contains(VALUE), "{refused}");
        for words in ["atoll network add web --allow-host evil.test", "/v1/sandboxes/web/network"] {
            assert!(refused.contains(words) && !refused.contains("policy file"), "{refused}");
        }
        assert!(internet.questions().iter().all(|name| name == "a.test"));
        // The same is told outside, with the command and for who looks back.
        let denials = served.ask("GET", "/v1/sandboxes/web/denials", None).body;
        let told = denials["denials"].as_array().unwrap();
        assert!(
            told.iter().any(|one| one["host"] == "evil.test" && one["code"] == "not-allowed"),
            "{denials}"
        );
        let audit = served.ask("GET", "/v1/audit", None).body.to_string();
        for kind in ["gateway_started", "egress_allowed", "egress_denied", "secret_used"] {
            assert!(audit.contains(kind), "{kind}: {audit}");
        }
        assert!(!audit.contains(VALUE));
        // What is deleted is sent no more, and what is set anew is.
        let other = "ghp_AnotherValue0123456789";
        let set = served.ask("PUT", "/v1/secrets/GITHUB", Some(&json!({ "value": other })));
        assert_eq!(set.status, 200, "{set:?}");
        sh(served, &format!("curl -sS https://a.test:{port}/"));
        assert_eq!(served.ask("DELETE", "/v1/secrets/GITHUB", None).status, 204);
        // Without a secret TLS is not opened, and the site vouches for itself.
        sh(served, &format!("curl -sSk https://a.test:{port}/"));
        let sent: Vec<String> =
            site.requests().iter().map(|request| request.all("authorization").concat()).collect();
        assert_eq!(sent, [format!("Bearer {VALUE}"), format!("Bearer {other}"), String::new()]);
        // It was used twice for one host, which is recorded once.
        let audit = served.ask("GET", "/v1/audit", None).body.to_string();
        assert_eq!(audit.matches("secret_used").count(), 1, "{audit}");
        // The control: without a network there is none.
        assert_eq!(served.create("other").status, 201);
        let request = json!({ "shell": format!("curl -sS https://a.test:{port}/ 2>&1") });
        let alone = served.ask("POST", "/v1/sandboxes/other/execs?wait_ms=60000", Some(&request));
        assert!(printed(&alone.body).contains("Could not resolve host"), "{alone:?}");
    });
}

#[test]
fn what_is_changed_holds_at_once_and_for_all_that_is_open() {
    with_network(allowing, |served, _, site| {
        let port = site.port;
        let path = "/v1/sandboxes/web/network";
        let get = format!("curl -sS -o /dev/null -w '%{{http_code}}' https://a.test:{port}/");
        assert_eq!(sh(served, &get), "200");
        let mut narrow = allowing(port);
        narrow["allow"] =
            json!([format!("https://a.test:{port}/only/**"), format!("127.0.0.1/32:{port}")]);
        let set = served.ask("PUT", path, Some(&narrow));
        assert_eq!(set.status, 200, "{set:?}");
        assert_eq!(sh(served, &get), "403");
        assert_eq!(sh(served, &format!("{get}only/x")), "200");
        assert_eq!(served.ask("GET", path, None).body["allow"], narrow["allow"]);
        // What is not understood changes nothing.
        let wrong = json!({ "allow": ["a.test", "ftp://a.test"] });
        let refused = served.ask("PUT", path, Some(&wrong));
        assert_eq!(
            (refused.status, &refused.body["error"]["details"]["field"]),
            (400, &json!("network.allow.1")),
            "{refused:?}"
        );
        assert_eq!(sh(served, &format!("{get}only/x")), "200");
        let none = served.ask("PUT", path, Some(&json!({ "mode": "none", "allow": ["*"] })));
        assert_eq!(none.status, 200, "{none:?}");
        assert_ne!(sh(served, &format!("{get}only/x")), "200");
    });
}

#[test]
fn a_network_outlives_the_server_and_the_gateway() {
    with_network(allowing, |served, _, site| {
        let port = site.port;
        let look = format!(
            "python3 -c 'import socket; print(socket.gethostbyname(\"a.test\"))'; \
             curl -sS -o /dev/null -w '%{{http_code}}\\n' https://a.test:{port}/"
        );
        let first = sh(served, &look);
        assert_eq!(first, "11.0.0.1\n200\n");
        let gateway = gateway_of(served).expect("there is one");
        kill_process(Pid::from_raw(gateway).unwrap(), Signal::KILL).unwrap();
        wait_until("another gateway", || gateway_of(served).is_some_and(|other| other != gateway));
        assert_eq!(sh(served, &look), first);
        served.kill();
        served.again();
        assert_eq!(sh(served, &look), first);
        let stopped = served.ask("POST", "/v1/sandboxes/web/stop", None);
        assert_eq!(stopped.status, 200, "{stopped:?}");
        let resumed = served.ask("POST", "/v1/sandboxes/web/resume", None);
        assert_eq!(resumed.status, 200, "{resumed:?}");
        assert_eq!(sh(served, &look), first);
    });
}

#[test]
fn what_was_used_of_the_network_is_known_however_often_something_is_killed() {
    with_network(allowing, |served, _, site| {
        let port = site.port;
        let get = format!("curl -sS -o /dev/null -w '%{{http_code}}' https://a.test:{port}/");
        let usage = |served: &mut Served<'_>| {
            let told = served.ask("GET", "/v1/sandboxes/web/usage", None);
            assert_eq!(told.status, 200, "{told:?}");
            told.body
        };
        let network = |usage: &Value, what: &str| usage["used"]["network"][what].as_u64().unwrap();
        assert_eq!(network(&usage(served), "requests"), 0);
        assert_eq!(sh(served, &get), "200");
        sh(served, "curl -sS https://evil.test/");
        let first = usage(served);
        assert_eq!((network(&first, "requests"), network(&first, "connections")), (1, 0));
        assert!(network(&first, "bytes_received") > 0 && network(&first, "denied") > 0, "{first}");
        // Where there is no control group nobody counts it, and nothing is said.
        let flags = served.ask("GET", "/v1/capabilities", None).body["flags"].clone();
        let has_group = flags["pause"] == true;
        assert_eq!(first["used"]["cpu_us"].as_u64().is_some_and(|us| us > 0), has_group, "{first}");
        assert!(first["disk"]["bytes"].as_u64().unwrap() > 0, "{first}");
        let gateway = gateway_of(served).expect("there is one");
        kill_process(Pid::from_raw(gateway).unwrap(), Signal::KILL).unwrap();
        wait_until("another gateway", || gateway_of(served).is_some_and(|other| other != gateway));
        assert_eq!(sh(served, &get), "200");
        assert_eq!(network(&usage(served), "requests"), 2);
        // A server that ends writes everything; one that is killed had a while to.
        assert!(served.end().success());
        served.again();
        assert_eq!(network(&usage(served), "requests"), 2);
        assert_eq!(sh(served, &get), "200");
        assert_eq!(served.ask("GET", "/v1/usage", None).body["total"]["sandboxes"], 1);
        let before = usage(served);
        served.ask("GET", "/v1/usage", None);
        served.kill();
        served.again();
        let after = usage(served);
        assert_eq!(network(&after, "requests"), 3);
        assert!(after["used"]["cpu_us"].as_u64() >= before["used"]["cpu_us"].as_u64());
        // With the sandbox it does not go, nor does what the gateway says at last.
        assert_eq!(sh(served, &get), "200");
        let path = format!("/v1/sandboxes/{}/usage", after["sandbox_id"].as_str().unwrap());
        assert_eq!(served.ask("DELETE", "/v1/sandboxes/web", None).status, 200);
        wait_until("the last count", || {
            let told = served.ask("GET", &path, None).body;
            network(&told, "requests") == 4 && told["deleted_at"].is_string()
        });
    });
}

#[test]
fn nothing_is_kept_of_a_network_whose_sandbox_is_deleted_while_it_runs() {
    with_network(allowing, |served, _, site| {
        let descriptors = |pid: i32| {
            std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count())
        };
        let server = i32::try_from(served.child.id()).unwrap();
        let get =
            format!("curl -sS -o /dev/null -w '%{{http_code}}' https://a.test:{}/", site.port);
        assert_eq!(sh(served, &get), "200");
        let before = descriptors(server);
        for _ in 0..5 {
            let request = json!({ "name": "other", "network": allowing(site.port) });
            assert_eq!(served.ask("POST", "/v1/sandboxes", Some(&request)).status, 201);
            assert_eq!(served.ask("DELETE", "/v1/sandboxes/other", None).status, 200);
        }
        // Four sockets hold each network.
        wait_until("the server to let go of them", || descriptors(server) <= before + 3);
        // The other one is served on.
        assert_eq!(sh(served, &get), "200");
    });
}

#[test]
fn who_has_to_be_asked_is_asked_and_waited_for() {
    let asking = |port: u16| {
        json!({
            "ask": [format!("https://a.test:{port}/**")],
            "allow": [format!("127.0.0.1/32:{port}")],
        })
    };
    with_network(asking, |served, _, site| {
        let port = site.port;
        let ended = std::thread::scope(|scope| {
            let held = scope.spawn(|| sh(served, &format!("curl -sS https://a.test:{port}/x")));
            let mut pending = Value::Null;
            wait_until("the question", || {
                let listed = served.ask("GET", "/v1/approvals?status=pending", None).body;
                pending = listed["approvals"][0].clone();
                !pending.is_null()
            });
            assert_eq!(pending["what"]["host"], "a.test", "{pending}");
            let path = format!("/v1/approvals/{}/approve", pending["id"].as_str().unwrap());
            let approved = served.ask("POST", &path, Some(&json!({ "scope": "sandbox" })));
            assert_eq!(approved.status, 200, "{approved:?}");
            held.join().unwrap()
        });
        assert!(ended.starts_with("/x"), "{ended}");
        // It holds for the sandbox.
        assert!(sh(served, &format!("curl -sS https://a.test:{port}/y")).starts_with("/y"));
    });
}

/// The process that serves, below the one that keeps it, below the server.
fn gateway_of(served: &Served<'_>) -> Option<i32> {
    let server = served.child.id().to_string();
    let above = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        Some(line.trim().to_owned())
    };
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.to_owned();
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let is_ours = name == "atoll-gateway\n" && above(&above(&pid)?)? == server;
        is_ours.then(|| pid.parse().ok())?
    })
}
