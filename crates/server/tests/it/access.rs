//! Who may ask what, on which socket.

use crate::support::{Client, World, live};
use atoll_api::key::Scope;
use serde_json::{Value, json};
use std::process::Command;

/// Every operation that the API has, with a path that can be asked.
fn operations() -> Vec<(String, String)> {
    let api = serde_json::to_value(atoll_server::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        let path = path.replace("{sandbox}", "web").replace("{key}", "key_00000000000000000000");
        let path = path
            .replace("{secret}", "TOKEN")
            .replace("{snapshot}", "snp_00000000000000000000")
            .replace("{volume}", "data")
            .replace("{pool}", "web")
            .replace("{archive}", "arc_00000000000000000000")
            .replace("{approval}", "apr_00000000000000000000")
            .replace("{service}", "web")
            .replace("{port}", "80");
        for method in item.as_object().unwrap().keys() {
            operations.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(operations.len() > 15, "{operations:?}");
    operations
}

/// What an operation needs at least, said here a second time.
fn needed(method: &str, path: &str) -> Option<Scope> {
    match (method, path) {
        (_, "/healthz") => None,
        (_, path) if path.starts_with("/v1/keys") => Some(Scope::Admin),
        // Hosts and paths that a sandbox tried.
        ("GET", path) if path.ends_with("/denials") => Some(Scope::Run),
        // Who decides gives rights; what is asked for has paths and command lines in it.
        ("POST", path) if path.starts_with("/v1/approvals/") => Some(Scope::Admin),
        (_, path) if path.starts_with("/v1/approvals") => Some(Scope::Run),
        // It tells what everybody did.
        (_, "/v1/audit") => Some(Scope::Admin),
        ("PUT" | "DELETE", path) if path.starts_with("/v1/secrets") => Some(Scope::Admin),
        // They are everybody's, and take room on the server's disk.
        ("POST" | "DELETE", path) if path.starts_with("/v1/images") => Some(Scope::Admin),
        // They may be another server's, which decided what they are made of and may reach.
        ("POST" | "DELETE", path) if path.starts_with("/v1/archives") => Some(Scope::Admin),
        // They take places and memory, and what they may reach is given to everybody.
        ("POST" | "PUT" | "DELETE", path) if path.starts_with("/v1/pools") => Some(Scope::Admin),
        // A connection to a port can do whatever is behind it.
        ("GET", path) if path.ends_with("/connect") => Some(Scope::Run),
        // What commands print is theirs who run them.
        (_, path) if path.contains("/execs") || path.contains("/git/") => Some(Scope::Run),
        ("GET", path) if path.starts_with("/v1/builds/") && path.ends_with("/logs") => {
            Some(Scope::Run)
        }
        // What is in files is its user's, and who sleeps is woken for it.
        (_, path) if path.contains("/files/") => Some(Scope::Run),
        // What is on it is theirs who run sandboxes.
        ("GET", path) if path.starts_with("/v1/volumes/") && path.ends_with("/export") => {
            Some(Scope::Run)
        }
        ("GET", path) if path.starts_with("/v1/snapshots/") && path.ends_with("/diff") => {
            Some(Scope::Run)
        }
        ("GET", _) => Some(Scope::Read),
        _ => Some(Scope::Run),
    }
}

async fn status(client: &Client, method: &str, path: &str) -> u16 {
    // A stream would not end.
    client.open(method, path, &[], "").await.status().as_u16()
}

#[test]
fn every_operation_asks_for_its_scope() {
    live(async {
        let server = World::new().start().await;
        let local = server.local();
        let keys =
            [Scope::Read, Scope::Run, Scope::Admin].map(|scope| (scope, server.with_key(scope)));
        let revoked = server.with_key(Scope::Admin);
        let last = server.keys.list().pop().unwrap();
        server.keys.revoke(last.id).unwrap();
        let unknown = server.stranger().with(format!("e2b_{}", "0".repeat(40)));
        for (method, path) in operations() {
            let needed = needed(&method, &path);
            for client in [&server.stranger(), &revoked, &unknown] {
                let is_let_in = status(client, &method, &path).await != 401;
                assert_eq!(is_let_in, needed.is_none(), "{method} {path} without a key");
            }
            for (scope, client) in &keys {
                let is_let_in = status(client, &method, &path).await != 403;
                let may = needed.is_none_or(|needed| *scope >= needed);
                assert_eq!(is_let_in, may, "{method} {path} with a key of scope {scope}");
            }
            let at_home = status(&local, &method, &path).await;
            assert!(at_home != 401 && at_home != 403, "{method} {path} on the socket");
        }
    });
}

#[test]
fn an_image_by_its_path_is_for_those_who_may_do_everything() {
    live(async {
        let server = World::new().start().await;
        let (run, admin) = (server.with_key(Scope::Run), server.with_key(Scope::Admin));
        let request = json!({"image": "/srv/rootfs"});
        for (method, path) in [("POST", "/v1/sandboxes"), ("PUT", "/v1/sandboxes/web")] {
            let refused = run.json(method, path, &request).await;
            assert_eq!(refused.code(), "forbidden");
            admin.json(method, path, &request).await.expect(201);
        }
        run.json("PUT", "/v1/sandboxes/other", &json!({"image": "host"})).await.expect(201);
    });
}

#[test]
fn a_path_that_there_is_not_is_closed_too() {
    live(async {
        let server = World::new().start().await;
        assert_eq!(server.stranger().get("/v1/nothing").await.status, 401);
        assert_eq!(server.with_key(Scope::Read).get("/v1/nothing").await.status, 404);
        assert_eq!(server.stranger().get("/healthz/").await.status, 401);
    });
}

#[test]
fn keys_are_made_used_listed_and_revoked() {
    live(async {
        let server = World::new().start().await;
        let admin = server.local();
        let request = json!({"scope": "run", "note": "ci"});
        let made = admin.json("POST", "/v1/keys", &request).await.expect(201);
        let secret = made["secret"].as_str().unwrap();
        let client = server.stranger().with(secret.to_owned());
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let listed = admin.get("/v1/keys").await.expect(200);
        assert_eq!(listed["keys"], json!([made["key"]]));
        assert!(!listed.to_string().contains(secret));
        let bearer = format!("Bearer {secret}");
        let headers = [("authorization", bearer.as_str())];
        server.stranger().send("GET", "/v1/sandboxes", &headers, "").await.expect(200);
        let id = made["key"]["id"].as_str().unwrap();
        let revoked = admin.delete(&format!("/v1/keys/{id}")).await;
        assert_eq!((revoked.status.as_u16(), revoked.text.as_str()), (204, ""));
        assert_eq!(client.get("/v1/sandboxes").await.code(), "unauthenticated");
        assert_eq!(admin.delete(&format!("/v1/keys/{id}")).await.code(), "not_found");
        assert_eq!(admin.get("/v1/keys").await.expect(200)["keys"], json!([]));
    });
}

/// Sends a request as a process of another user would.
const OTHER: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'GET /v1/sandboxes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')
print(s.makefile().read())
";

#[test]
fn another_user_is_not_served_on_the_unix_socket() {
    live(async {
        let mut world = World::new();
        let is_root = world.owner_uid == 0;
        if !is_root {
            // Who may not become another user is one to the server of another.
            world.owner_uid += 1;
            let server = world.start().await;
            let answer = server.local().get("/v1/sandboxes").await;
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (403, "forbidden"));
            return;
        }
        let server = world.start().await;
        open_to_all(&server.socket);
        for (uid, expect) in [("0", "200 OK"), ("65534", "403 Forbidden")] {
            let mut other = Command::new("setpriv");
            other.args(["--reuid", uid, "--clear-groups", "/usr/bin/python3", "-c", OTHER]);
            other.arg(&server.socket);
            let ran = tokio::task::spawn_blocking(move || other.output()).await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(text.contains(expect), "as {uid}: {ran:?}");
        }
    });
}

/// Takes away what protects the socket otherwise, so that the server alone does.
fn open_to_all(socket: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for path in [socket, socket.parent().unwrap()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
}

#[test]
fn who_asks_too_often_waits_and_others_do_not() {
    live(async {
        let mut world = World::new();
        world.config.requests_burst_max = 5;
        world.config.requests_per_second_max = 1;
        let server = world.start().await;
        let (eager, other) = (server.with_key(Scope::Read), server.with_key(Scope::Read));
        let mut refused = None;
        for _ in 0..10 {
            let answer = eager.get("/v1/sandboxes").await;
            if answer.status == 429 {
                refused = Some(answer);
            }
        }
        let refused = refused.expect("ten requests at once are more than five");
        assert_eq!(refused.headers["retry-after"], "1");
        let error: Value = refused.json()["error"].clone();
        assert_eq!(error["code"], "capacity");
        assert_eq!(error["details"]["limit"], "requests_per_second_max");
        assert_eq!(error["retry"]["kind"], "after");
        other.get("/v1/sandboxes").await.expect(200);
        // Whoever watches the server must not be told that it is down.
        for _ in 0..10 {
            eager.get("/healthz").await.expect(200);
        }
    });
}
