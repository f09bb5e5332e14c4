//! The committed description is that of the code.

use crate::support::{World, live};
use serde_json::Value;
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

/// Everything that a description refers to.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn what_is_referred_to_is_there() {
    let api = serde_json::to_value(atoll_server::openapi()).unwrap();
    let mut found = Vec::new();
    references(&api, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for reference in found {
        assert!(api.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}
