//! Any text is a rule or is refused; what is understood is written as what is understood the
//! same, and a request that no rule is about is refused.
#![no_main]

use atoll_egress::name::Name;
use atoll_egress::policy::{Action, Host, Layer, Policy, Request, Rule};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str, u16)| {
    let (text, host, path, port) = input;
    let Ok(rule) = Rule::parse(text, Action::Allow) else { return };
    assert_eq!(Rule::parse(&rule.to_string(), Action::Allow).as_ref(), Ok(&rule));
    let is_port = rule.has_port(port);
    let has_path = rule.path.is_some();
    let policy = Policy::new(vec![Layer::new(vec![rule])]);
    let Ok(name) = host.parse::<Name>() else { return };
    let asked = Request { method: "GET", path };
    let verdict = policy.request(Host::Name(&name), port, true, asked);
    if verdict.action == Action::Allow {
        assert!(is_port && policy.name(&name).is_ok());
        assert!(!has_path || (!path.contains("..") || !path.contains("/../")));
    }
});
