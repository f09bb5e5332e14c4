use super::*;

fn labels(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|n| (format!("key{n}"), "value".to_owned())).collect()
}

fn env(name: &str, value: &str) -> Env {
    Env([(name.to_owned(), value.to_owned())].into())
}

#[track_caller]
fn refused(request: CreateSandbox, expect: &str) {
    assert_eq!(request.validate().unwrap_err().to_string(), expect);
}

#[test]
fn what_is_at_the_limits_is_accepted() {
    let request = CreateSandbox {
        image: "i".repeat(IMAGE_BYTES_MAX),
        env: env("A", &"v".repeat(ENV_BYTES_MAX - 3)),
        labels: [("k".repeat(LABEL_KEY_BYTES_MAX), "v".repeat(LABEL_VALUE_BYTES_MAX))].into(),
        limits: Limits { memory_bytes: Some(1 << 20), ..Limits::default() },
        lifecycle: Lifecycle { lease_ms: Some(1), ..Lifecycle::default() },
        ..CreateSandbox::default()
    };
    assert_eq!(request.validate(), Ok(()));
    let request = CreateSandbox { labels: labels(LABELS_COUNT_MAX), ..CreateSandbox::default() };
    assert_eq!(request.validate(), Ok(()));
    assert_eq!(CreateSandbox::default().validate(), Ok(()));
}

#[test]
fn what_is_beyond_them_is_refused_with_field_and_limit() {
    let base = CreateSandbox::default;
    refused(
        CreateSandbox { image: "i".repeat(IMAGE_BYTES_MAX + 1), ..base() },
        "image has 513 bytes, and at most 512 are accepted",
    );
    refused(CreateSandbox { image: String::new(), ..base() }, "image is empty");
    refused(
        CreateSandbox { labels: labels(LABELS_COUNT_MAX + 1), ..base() },
        "labels has 33 entries, and at most 32 are accepted",
    );
    refused(
        CreateSandbox { env: env("A", &"v".repeat(ENV_BYTES_MAX - 2)), ..base() },
        "env has 98305 bytes, and at most 98304 are accepted",
    );
    refused(
        CreateSandbox { env: env("A=B", "v"), ..base() },
        "env has a name that is empty or contains = or NUL",
    );
    refused(CreateSandbox { env: env("A", "\0"), ..base() }, "env.A contains a NUL");
    refused(
        CreateSandbox { labels: [("a b".to_owned(), String::new())].into(), ..base() },
        "labels has a key with other than letters, digits, . _ - /",
    );
    refused(
        CreateSandbox { labels: [("team".to_owned(), "a\nb".to_owned())].into(), ..base() },
        "labels.team contains a control character",
    );
    let limits = Limits { pids: Some(0), ..Limits::default() };
    refused(CreateSandbox { limits, ..base() }, "limits.pids is 0, and it must be at least 1");
    let lifecycle = Lifecycle { lease_ms: Some(1 << 53), ..Lifecycle::default() };
    refused(
        CreateSandbox { lifecycle, ..base() },
        "lifecycle.lease_ms is 9007199254740992, and it must be at most 9007199254740991",
    );
    let lifecycle = Lifecycle { idle_stop_ms: Some(0), ..Lifecycle::default() };
    let request = CreateSandbox { lifecycle, ..base() };
    assert_eq!(request.validate().unwrap_err().field(), "lifecycle.idle_stop_ms");
}

#[test]
fn unknown_fields_are_refused_at_every_depth() {
    for text in
        [r#"{"nam": "web"}"#, r#"{"limits": {"memory": 1}}"#, r#"{"lifecycle": {"lease": 1}}"#]
    {
        let error = serde_json::from_str::<CreateSandbox>(text).unwrap_err().to_string();
        assert!(error.contains("unknown field"), "{error}");
    }
    assert_eq!(serde_json::from_str::<CreateSandbox>("{}").unwrap(), CreateSandbox::default());
}

#[test]
fn values_of_variables_are_not_shown() {
    let request = CreateSandbox { env: env("TOKEN", "hunter2"), ..CreateSandbox::default() };
    let shown = format!("{request:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_request_as_it_is_written() {
    let text = r#"{"name": "web", "env": {"PORT": "5173"}, "lifecycle": {"idle_stop_ms": 600000}}"#;
    let request: CreateSandbox = serde_json::from_str(text).unwrap();
    assert_eq!(request.name.unwrap().as_str(), "web");
    assert_eq!(request.env, env("PORT", "5173"));
    assert_eq!(request.lifecycle.idle_stop_ms, Some(600_000));
}

#[test]
fn arrays_are_no_objects() {
    for text in [r#"{"limits": []}"#, r#"{"limits": [1, 2]}"#, r#"{"lifecycle": []}"#] {
        let error = serde_json::from_str::<CreateSandbox>(text).unwrap_err().to_string();
        assert!(error.contains("expected an object"), "{text}: {error}");
    }
}
