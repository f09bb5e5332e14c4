//! The committed description is that of the code.

use crate::support::{World, live};
use std::path::Path;

#[test]
fn the_description_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/v1.json");
    let made = atoll_server::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("ATOLL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let difference = committed.lines().zip(made.lines()).find(|(old, new)| old != new);
    assert!(
        committed == made,
        "openapi/v1.json is stale; ATOLL_UPDATE_DOCS=1 writes it anew. First difference: \
         {difference:?}"
    );
}

#[test]
fn requests_refuse_what_they_do_not_know() {
    let api = serde_json::to_value(atoll_server::openapi()).unwrap();
    for name in ["CreateSandbox", "Limits", "Lifecycle", "CreateKey"] {
        let schema = &api["components"]["schemas"][name];
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}

#[test]
fn the_server_gives_its_description() {
    live(async {
        let server = World::new().start().await;
        let given = server.local().get("/v1/openapi.json").await.expect(200);
        assert_eq!(given, serde_json::to_value(atoll_server::openapi()).unwrap());
    });
}
