//! From requests to decisions.

use super::*;
use atoll_egress::name::Name;
use atoll_egress::policy::{Host, Request};
use serde_json::{Value, json};

fn said(value: Value) -> NetworkPolicy {
    let said: NetworkPolicy = serde_json::from_value(value).unwrap();
    said.validate().unwrap();
    said
}

fn understood(value: Value) -> Network {
    policy(&said(value)).unwrap()
}

fn asked(network: &Network, host: &str) -> Action {
    let name: Name = host.parse().unwrap();
    let request = Request { method: "GET", path: "/" };
    network.policy().request(Host::Name(&name), 443, true, request).action
}

#[test]
fn a_request_becomes_decisions() {
    let network = understood(json!({
        "presets": ["python"],
        "allow": ["*.example", "bad.example"],
        "ask": ["asked.example"],
        "deny": ["bad.example"],
    }));
    for (host, action) in [
        ("pypi.org", Action::Allow),
        ("a.example", Action::Allow),
        ("asked.example", Action::Ask),
        ("bad.example", Action::Deny),
        ("other.test", Action::Deny),
    ] {
        assert_eq!(asked(&network, host), action, "{host}");
    }
    let name: Name = "bad.example".parse().unwrap();
    let verdict = network.policy().tls(Host::Name(&name), 443);
    assert_eq!(network.rule(verdict.rule.unwrap()).unwrap().field, "network.deny.0");
    let name: Name = "pypi.org".parse().unwrap();
    let verdict = network.policy().tls(Host::Name(&name), 443);
    let rule = network.rule(verdict.rule.unwrap()).unwrap();
    assert_eq!((rule.field.as_str(), rule.preset), ("network.presets.0", Some("python")));
}

#[test]
fn nothing_is_reached_where_nothing_allows_it() {
    for value in [
        json!({}),
        json!({"allow": [], "deny": ["b.example"]}),
        json!({"mode": "none", "allow": ["*"]}),
    ] {
        assert_eq!(asked(&understood(value.clone()), "a.example"), Action::Deny, "{value}");
    }
    assert_eq!(asked(&understood(json!({"allow": ["*"]})), "a.example"), Action::Allow, "control");
}

#[test]
fn what_is_not_understood_is_told_with_its_field() {
    let secret =
        |at: &str, used_as: &str| json!({"secrets": [{"name": "A", "at": [at], "as": used_as}]});
    for (value, field) in [
        (json!({"presets": ["python", "pyhton"]}), "network.presets.1"),
        (json!({"allow": ["a.example", "ftp://a"]}), "network.allow.1"),
        (json!({"ask": [""]}), "network.ask.0"),
        (json!({"deny": ["a..b"]}), "network.deny.0"),
        (secret("a.example", "bearer"), "network.secrets.0.at.0"),
        (secret("https://*.example", "bearer"), "network.secrets.0.at.0"),
        (secret("https://a..b", "bearer"), "network.secrets.0.at.0"),
        (secret("https://a.example", "header:host"), "network.secrets.0.as"),
    ] {
        let error = policy(&said(value)).unwrap_err().to_api();
        assert_eq!(error.details.field.as_deref(), Some(field), "{error}");
        assert!(error.message.starts_with(field), "{error}");
    }
    let network = understood(secret("https://PUT@a.example/x/**", "basic:x"));
    assert_eq!(network.secrets()[0].at[0].to_string(), "https://PUT@a.example/x/**");
    assert_eq!(network.secrets()[0].form.to_string(), "basic:x");
}

#[test]
fn what_is_the_operators_needs_an_admin() {
    for (value, scope) in [
        (json!({"allow": ["*", "tcp://db.example:5432"], "presets": ["github"]}), Scope::Run),
        (json!({"deny": ["10.0.0.0/8"]}), Scope::Run),
        (json!({"allow": ["1.1.1.1"]}), Scope::Run),
        (json!({"allow": ["10.0.0.0/8"]}), Scope::Admin),
        (json!({"ask": ["127.0.0.1:8080"]}), Scope::Admin),
        (json!({"allow": ["169.254.169.254"]}), Scope::Admin),
        (json!({"allow": ["[::/0]"]}), Scope::Admin),
        (json!({"allow": ["0.0.0.0/0"]}), Scope::Admin),
        (json!({"secrets": [{"name": "A", "file": "/run/secrets/a"}]}), Scope::Admin),
        (
            json!({"secrets": [{"name": "A", "at": ["https://a.example"], "as": "bearer"}]}),
            Scope::Admin,
        ),
    ] {
        assert_eq!(understood(value.clone()).scope(), scope, "{value}");
    }
}
