//! Every kind of error has the same form, and says what to do.

use crate::support::{Answer, World, live};
use atoll_api::sandbox::{Lifecycle, Limits};
use atoll_engine::backend::fake::{Call, Fake, Moment};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// An answer as text that is the same every time.
fn picture(title: &str, answer: &Answer) -> String {
    let body = answer.json();
    let mut fields = body.as_object().unwrap().keys();
    let only = (fields.next().map(String::as_str), fields.next());
    assert_eq!(only, (Some("error"), None), "{title}");
    for field in ["code", "message", "took_effect", "retry", "next_step", "details"] {
        assert!(!body["error"][field].is_null(), "{title} has no {field}");
    }
    assert!(answer.headers["x-request-id"].to_str().unwrap().starts_with("req_"));
    assert_eq!(answer.headers["content-type"], "application/json");
    format!("{title}\n{} {}\n", answer.status, line(&body["error"]))
}

fn line(error: &Value) -> String {
    let mut text = String::new();
    let word = |name: &str| error[name].as_str().unwrap().to_owned();
    let (code, effect) = (word("code"), word("took_effect"));
    writeln!(text, "{code} (took effect: {effect}, retry: {})", error["retry"]["kind"]).unwrap();
    write!(text, "  {}\n  {}\n  {}\n", word("message"), word("next_step"), error["details"])
        .unwrap();
    let is_id = |rest: &&str| {
        rest.get(..20).is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let prefixes = ["sbx_", "snp_"];
    let rests = prefixes.into_iter().flat_map(|prefix| text.split(prefix).skip(1));
    let ids: Vec<String> = rests.filter(is_id).map(|rest| rest[..20].to_owned()).collect();
    ids.iter().fold(text, |text, id| text.replace(id, "ID"))
}

#[test]
fn errors_of_requests() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let mut text = String::new();
        let kind = [("content-type", "application/json")];
        for (method, path, headers, body) in [
            ("GET", "/v1/nothing", &[][..], ""),
            ("PATCH", "/v1/sandboxes", &[], ""),
            ("GET", "/v1/sandboxes/web", &[], ""),
            ("GET", "/v1/sandboxes/sbx_00000000000000000000", &[], ""),
            ("GET", "/v1/sandboxes/sbx_1", &[], ""),
            ("GET", "/v1/sandboxes/No_Name", &[], ""),
            ("GET", "/v1/sandboxes/%FF", &[], ""),
            ("PUT", "/v1/sandboxes/sbx_00000000000000000000", &kind, "{}"),
            ("PUT", "/v1/sandboxes/web", &kind, r#"{"name": "other"}"#),
            ("POST", "/v1/sandboxes", &[], "{}"),
            ("POST", "/v1/sandboxes", &[("content-type", "text/plain")], "{}"),
            ("POST", "/v1/sandboxes", &kind, ""),
            ("POST", "/v1/sandboxes", &kind, "{} {}"),
            ("POST", "/v1/sandboxes", &kind, "[]"),
            ("POST", "/v1/sandboxes", &kind, r#"{"limits": []}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"colour": "red"}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"limits": {"memory_mib": 1}}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"limits": {"pids": -1}}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"limits": {"pids": 0}}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"name": "No"}"#),
            ("POST", "/v1/sandboxes", &kind, r#"{"env": {"A": "1", "B": 2}}"#),
            ("GET", "/v1/sandboxes?colour=red", &[], ""),
            ("GET", "/v1/sandboxes?state=asleep", &[], ""),
            ("GET", "/v1/sandboxes?page_count=0", &[], ""),
            ("GET", "/v1/sandboxes?page_count=1001", &[], ""),
            ("GET", "/v1/sandboxes?page_count=1&page_count=2", &[], ""),
            ("GET", "/v1/sandboxes?cursor=x", &[], ""),
            ("GET", "/v1/sandboxes?label=red", &[], ""),
            ("GET", "/v1/events?after=-1", &[], ""),
            ("GET", "/v1/events?after=1000", &[], ""),
            ("GET", "/v1/events", &[("last-event-id", "x")], ""),
            ("GET", "/v1/events?sandbox=web", &[], ""),
            ("POST", "/v1/sandboxes/web/snapshots", &kind, "{}"),
            ("GET", "/v1/snapshots?after=snp_1", &[], ""),
            ("GET", "/v1/snapshots/web", &[], ""),
            ("DELETE", "/v1/snapshots/snp_00000000000000000000", &[], ""),
            ("POST", "/v1/snapshots/snp_00000000000000000000/fork", &kind, "{}"),
            ("POST", "/v1/keys", &kind, r#"{"scope": "all"}"#),
            ("DELETE", "/v1/keys/web", &[], ""),
            ("DELETE", "/v1/keys/key_00000000000000000000", &[], ""),
        ] {
            let title = format!("{method} {path} {body}");
            let answer = client.send(method, path, headers, body).await;
            text.push_str(&picture(title.trim(), &answer));
        }
        insta::assert_snapshot!("requests", text);
    });
}

#[test]
fn errors_of_sandboxes() {
    live(async {
        let mut world = World::new();
        world.engine.sandboxes_max = 2;
        world.engine.caps.lifecycle = Lifecycle { lease_ms: Some(1000), ..Lifecycle::default() };
        world.engine.caps.limits = Limits { pids: Some(10), ..Limits::default() };
        let server = world.start().await;
        let client = server.local();
        let mut text = String::new();
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        for (title, body) in [
            ("a name that is taken", json!({"name": "web"})),
            ("a lease above the cap", json!({"lifecycle": {"lease_ms": 1001}})),
            ("a limit above the cap", json!({"limits": {"pids": 11}})),
        ] {
            let answer = client.json("POST", "/v1/sandboxes", &body).await;
            text.push_str(&picture(title, &answer));
        }
        let times = json!({"lease_ms": 1001});
        let answer = client.json("PUT", "/v1/sandboxes/web/lifecycle", &times).await;
        text.push_str(&picture("a new lease above the cap", &answer));
        let times = json!({"lease_ms": 0});
        let answer = client.json("PUT", "/v1/sandboxes/web/lifecycle", &times).await;
        text.push_str(&picture("no lease at all", &answer));
        client.post("/v1/sandboxes/web/stop").await.expect(200);
        let answer = client.post("/v1/sandboxes/web/pause").await;
        text.push_str(&picture("a pause of what is stopped", &answer));
        world.host.fail(Call::Start, Moment::Before);
        let answer = client.post("/v1/sandboxes/web/resume").await;
        text.push_str(&picture("a host that fails", &answer));
        world.host.heal();
        world.host.fill_disk(Call::Create, Moment::Midway);
        let answer = client.json("POST", "/v1/sandboxes", &json!({})).await;
        text.push_str(&picture("a disk that is full", &answer));
        world.host.heal();
        world.host.until(|host| host.ids().len() == 1).await;
        client.json("PUT", "/v1/sandboxes/api", &json!({})).await.expect(201);
        let answer = client.json("POST", "/v1/sandboxes", &json!({})).await;
        assert_eq!(answer.headers["retry-after"], "1");
        text.push_str(&picture("a host that is full", &answer));
        insta::assert_snapshot!("sandboxes", text);
    });
}

#[test]
fn errors_of_snapshots() {
    live(async {
        let mut world = World::new();
        world.engine.sandboxes_max = 2;
        let server = world.start().await;
        let client = server.local();
        let mut text = String::new();
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let snapshots = "/v1/sandboxes/web/snapshots";
        let taken = client.json("POST", snapshots, &json!({})).await.expect(201);
        let fork = format!("/v1/snapshots/{}/fork", taken["id"].as_str().unwrap());
        let gone = json!({"snapshot": "snp_00000000000000000000"});
        for (title, path, body) in [
            ("no time at all", snapshots, json!({"delete_after_ms": 0})),
            ("a label that is none", snapshots, json!({"labels": {"a b": "c"}})),
            ("no forks", &fork, json!({"count": 0})),
            ("too many forks", &fork, json!({"count": 1001})),
            ("forks with an image", &fork, json!({"sandbox": {"image": "other"}})),
            ("forks of something else", &fork, json!({"sandbox": gone})),
            ("forks with no limit", &fork, json!({"sandbox": {"limits": {"pids": 0}}})),
            ("a name too long", &fork, json!({"count": 2, "sandbox": {"name": "a".repeat(63)}})),
            ("forks whose name is taken", &fork, json!({"sandbox": {"name": "web"}})),
            (
                "forks of a sandbox with no time",
                "/v1/sandboxes/web/fork",
                json!({"snapshot": {"delete_after_ms": 0}}),
            ),
            ("a restore of what is gone", "/v1/sandboxes/web/restore", gone.clone()),
            ("a sandbox of what is gone", "/v1/sandboxes", gone.clone()),
            (
                "a sandbox of two things",
                "/v1/sandboxes",
                json!({"snapshot": taken["id"], "image": "other"}),
            ),
        ] {
            let answer = client.json("POST", path, &body).await;
            text.push_str(&picture(title, &answer));
        }
        world.host.fail(Call::Snapshot, Moment::Before);
        let answer = client.json("POST", snapshots, &json!({})).await;
        text.push_str(&picture("a host that fails", &answer));
        world.host.heal();
        client.json("PUT", "/v1/sandboxes/api", &json!({})).await.expect(201);
        let answer = client.json("POST", &fork, &json!({"count": 3})).await;
        assert_eq!(answer.headers["retry-after"], "1");
        text.push_str(&picture("forks on a host that is full", &answer));
        insta::assert_snapshot!("snapshots", text);
    });
}

#[test]
fn errors_of_access() {
    live(async {
        let server = World::new().start().await;
        let read = server.with_key(atoll_api::key::Scope::Read);
        let mut text = String::new();
        let stranger = server.stranger();
        let answer = stranger.get("/v1/sandboxes").await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        text.push_str(&picture("no key", &answer));
        let answer = stranger.send("GET", "/v1/sandboxes", &[("x-api-key", "sk-1")], "").await;
        text.push_str(&picture("something else", &answer));
        let answer = stranger.send("GET", "/v1/sandboxes", &[("x-api-key", "e2b_1")], "").await;
        text.push_str(&picture("an unknown key", &answer));
        text.push_str(&picture("a scope too low", &read.delete("/v1/sandboxes/web").await));
        insta::assert_snapshot!("access", text);
    });
}

#[test]
fn what_the_tier_lacks_is_named() {
    live(async {
        let world = World::new();
        let mut lacking = atoll_engine::backend::Backend::capabilities(&Fake::on(&world.host));
        lacking.limit_disk = false;
        let server = world.start_with(Fake::on(&world.host).with(lacking)).await;
        let client = server.local();
        let told = client.get("/v1/capabilities").await.expect(200);
        assert_eq!(told["flags"]["limit_disk"], false);
        assert_eq!(told["flags"]["limit_memory"], true);
        let body = json!({"limits": {"disk_bytes": 1 << 30}});
        let answer = client.json("POST", "/v1/sandboxes", &body).await;
        assert_eq!(answer.status, 422);
        assert_eq!(answer.json()["error"]["details"]["capability"], "limit_disk");
    });
}
