//! The audit log over the API.

use crate::support::{DEADLINE, Running, World, live};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::timeout;

/// All records, after what was told so far is written.
async fn records(server: &Running, query: &str) -> Vec<Value> {
    server.engine.audit().sync().await;
    let page = server.local().get(&format!("/v1/audit{query}")).await.expect(200);
    page["records"].as_array().unwrap().clone()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["what"]["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_happens_is_recorded_without_values_and_in_order() {
    live(async {
        let mut world = World::new();
        world.guest.is_silent = true;
        let server = world.start().await;
        let client = server.local();
        let value = json!({"value": "s3cr3t-value"});
        client.json("PUT", "/v1/secrets/TOKEN", &value).await.expect(201);
        let wanted = json!({"name": "web", "env": {"A": "in-the-environment"}});
        let sandbox = client.json("POST", "/v1/sandboxes", &wanted).await.expect(201);
        let run = json!({
            "command": ["curl", "-H", "authorization: s3cr3t-value"],
            "env": {"B": "in-the-environment"},
        });
        // A stand-in runs another command, so that nobody knows whether this one runs.
        let answer = client.json("POST", "/v1/sandboxes/web/execs", &run).await;
        assert_eq!(answer.code(), "lost");
        assert_eq!(client.delete("/v1/secrets/TOKEN").await.status, 204);
        client.delete("/v1/sandboxes/web").await.expect(200);
        let all = records(&server, "").await;
        assert_eq!(
            kinds(&all),
            [
                "continued",
                "server_started",
                "secret_set",
                "sandbox_created",
                "exec_started",
                "secret_deleted",
                "sandbox_deleted"
            ]
        );
        assert_eq!(all[2]["what"]["by"], format!("uid:{}", world.owner_uid));
        let argv = json!(["curl", "-H", "authorization: [secret TOKEN]"]);
        assert_eq!(all[4]["what"]["argv"], argv);
        assert_eq!(all[4]["sandbox_id"], sandbox["id"]);
        for file in std::fs::read_dir(world.folder().join("audit")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(!text.contains("s3cr3t") && !text.contains("in-the-environment"), "{text}");
        }
        let id = sandbox["id"].as_str().unwrap();
        let query = format!("?sandbox={id}&kind=exec_started&kind=sandbox_deleted");
        assert_eq!(kinds(&records(&server, &query).await), ["exec_started", "sandbox_deleted"]);
        let first = client.get("/v1/audit?page_count=3&after=1").await.expect(200);
        assert_eq!((first["records"].as_array().unwrap().len(), &first["next"]), (3, &json!(4)));
        for query in ["page_count=0", "page_count=1001", "after=x", "after=99", "more=1"] {
            assert_eq!(client.get(&format!("/v1/audit?{query}")).await.code(), "invalid");
        }
        server.shut_down().await;
        let server = world.start().await;
        let again = records(&server, &format!("?after={}", all.len())).await;
        assert_eq!(kinds(&again), ["server_stopped", "server_started"]);
        assert_eq!(again[1]["what"]["was_in_order"], true);
    });
}

#[test]
fn it_is_followed_from_where_one_wants() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let accept = ("accept", "text/event-stream");
        server.engine.audit().sync().await;
        let mut from_now = client.open("GET", "/v1/audit?kind=secret_set", &[accept], "").await;
        let path = "/v1/audit?after=1";
        let mut from_before = client.open("GET", path, &[accept], "").await;
        let value = json!({"value": "x"});
        client.json("PUT", "/v1/secrets/TOKEN", &value).await.expect(201);
        let text = read_to(&mut from_before, "secret_set").await;
        assert_eq!(first_of(&text)["what"]["kind"], "server_started", "{text}");
        let text = read_to(&mut from_now, "secret_set").await;
        assert_eq!(first_of(&text)["what"]["kind"], "secret_set", "{text}");
        assert!(text.contains(&format!("id: {}\n", first_of(&text)["seq"])), "{text}");
        // Who lost the connection before anything came goes on from where the stream began.
        let begin = text.split_once("\n\n").unwrap().0.strip_prefix("id: ").unwrap();
        let back = [accept, ("last-event-id", begin)];
        let mut again = client.open("GET", "/v1/audit?kind=secret_set&after=1", &back, "").await;
        let text = read_to(&mut again, "secret_set").await;
        assert_eq!(first_of(&text)["what"]["kind"], "secret_set", "{text}");
    });
}

/// What a stream says up to this word.
async fn read_to(stream: &mut Response<Incoming>, word: &str) -> String {
    let mut text = String::new();
    while !text.contains(word) {
        let frame = timeout(DEADLINE, stream.body_mut().frame()).await.unwrap();
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    text
}

/// The first record of a stream.
fn first_of(text: &str) -> Value {
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_log_that_cannot_be_written_is_said_and_the_server_goes_on() {
    live(async {
        let mut world = World::new();
        // Every write begins a file.
        world.engine.audit.file_bytes_max = 1;
        world.engine.audit.retry_after = std::time::Duration::from_millis(10);
        let server = world.start().await;
        let client = server.local();
        server.engine.audit().sync().await;
        let next = world.folder().join(format!("audit/audit-{:020}.jsonl", 3));
        std::fs::create_dir(&next).unwrap();
        client.json("PUT", "/v1/secrets/TOKEN", &json!({"value": "x"})).await.expect(201);
        while server.engine.audit().trouble().is_none() {
            tokio::task::yield_now().await;
        }
        let health = client.get("/healthz").await.expect(200);
        assert_eq!(health["status"], "degraded", "{health}");
        let check = health["checks"].as_array().unwrap().iter().find(|one| one["name"] == "audit");
        assert_eq!(check.unwrap()["status"], "degraded", "{health}");
        std::fs::remove_dir(&next).unwrap();
        let all = records(&server, "").await;
        assert_eq!(kinds(&all).last(), Some(&"secret_set"));
        assert_eq!(server.engine.audit().trouble(), None);
    });
}
