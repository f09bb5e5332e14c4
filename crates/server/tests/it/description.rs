//! A tool that knows nothing of the code asks for everything that the description offers,
//! and for much that it does not.

use crate::support::{DEADLINE, World, live_within};
use atoll_api::key::Scope;
use atoll_testkit::skip::is_installed;
use std::process::Command;

/// What is not asked for: a stream does not end, the key would be revoked that is used, and
/// a WebSocket is beyond the tool. What a sandbox has used is told when it is gone too, which the tool
/// takes for a fault. Who waits, waits as long as it asks to, and the tool asks for much.
const LEFT_OUT: &[&str] = &[
    "attach_exec",
    "connect_port",
    "follow_approvals",
    "follow_events",
    "follow_exec",
    "get_usage",
    "revoke_key",
    "wait",
    "watch_files",
];

/// To JSON Schema 1.0 is an integer, and to the server it is none; the check that
/// whatever fits the schema is accepted would trip over that.
const WITHOUT: &str = "positive_data_acceptance";

#[test]
fn the_server_does_what_its_description_says() {
    if !is_installed("schemathesis", "server-description") {
        return;
    }
    // The tool computes for longer than the server does.
    live_within(4 * DEADLINE, async {
        let mut world = World::new();
        world.config.requests_per_second_max = 100_000;
        world.config.requests_burst_max = 100_000;
        let server = world.start().await;
        let key = server.with_key(Scope::Admin).key.unwrap();
        let url = format!("http://{}", server.address);
        let folder = tempfile::tempdir().unwrap();
        let mut tool = Command::new("schemathesis");
        tool.current_dir(folder.path());
        tool.arg("run").arg(format!("{url}/v1/openapi.json")).args(["--url", &url]);
        tool.args(["--header", &format!("Authorization: Bearer {key}")]);
        tool.args(["--checks", "all", "--exclude-checks", WITHOUT]);
        for operation in LEFT_OUT {
            tool.args(["--exclude-operation-id", operation]);
        }
        // The same requests every time.
        tool.args(["--seed", "1", "--max-examples", "10", "--request-timeout", "10"]);
        tool.args(["--no-color", "--generation-database", "none"]);
        let ran = tokio::task::spawn_blocking(move || tool.output()).await.unwrap().unwrap();
        let (told, talk) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{told}\n{talk}");
        // The tool is content too where it found nothing to ask for.
        let words: Vec<&str> = told.split_whitespace().collect();
        let before = |word: &str| {
            let at = words.iter().position(|one| *one == word).unwrap();
            words[at - 1].parse::<usize>().unwrap()
        };
        let (selected, total) = (before("selected"), before("total"));
        assert!(total >= 22 && selected + LEFT_OUT.len() == total, "{told}");
        server.local().get("/healthz").await.expect(200);
    });
}
