//! Rules that never decide.

use super::rule::{Protocol, Rule, Target};
use std::cmp::Reverse;
use std::collections::HashMap;

/// More rules about the same host than this are not compared with each other: whoever writes so
/// many has a program write them, and it would take long.
const COMPARED_MAX: usize = 200;

/// Rules of a layer in whose place another one always decides, with another word: both by their
/// places. Such a rule is a slip more often than not.
#[must_use]
pub fn shadowed(rules: &[Rule]) -> Vec<(usize, usize)> {
    let rank = |rule: &Rule| (rule.precision(), rule.action);
    // One that fits as much and is no less precise is about the same hosts.
    let mut by_target: HashMap<&Target, Vec<(usize, &Rule)>> = HashMap::new();
    for (place, rule) in rules.iter().enumerate() {
        by_target.entry(&rule.target).or_default().push((place, rule));
    }
    let mut found = Vec::new();
    for mut group in by_target.into_values().filter(|group| group.len() <= COMPARED_MAX) {
        // The one that would decide comes first.
        group.sort_by_key(|(_, rule)| Reverse(rank(rule)));
        for (index, (place, rule)) in group.iter().enumerate() {
            let is_before = |other: &&(usize, &Rule)| rank(other.1) > rank(rule);
            let mut before = group[..index].iter().take_while(is_before);
            let by = before.find(|(_, other)| covers(other, rule));
            found
                .extend(by.filter(|(_, by)| by.action != rule.action).map(|(by, _)| (*place, *by)));
        }
    }
    found.sort_unstable();
    found
}

/// Whether a rule fits whatever another one fits.
fn covers(wide: &Rule, narrow: &Rule) -> bool {
    let has_ports = narrow.ports().into_iter().all(|port| wide.has_port(port));
    let is_spoken = match wide.protocol {
        Protocol::Web | Protocol::Tcp => true,
        Protocol::Https | Protocol::Http => wide.protocol == narrow.protocol,
    };
    let has_methods = wide.methods.is_empty()
        || (!narrow.methods.is_empty() && narrow.methods.is_subset(&wide.methods));
    let has_path = wide.path.is_none() || wide.path == narrow.path;
    has_ports && is_spoken && has_methods && has_path && holds(&wide.target, &narrow.target)
}

/// Whether hosts are among others.
fn holds(wide: &Target, narrow: &Target) -> bool {
    match (wide, narrow) {
        (Target::EveryName, Target::EveryName | Target::Below(_) | Target::Name(_)) => true,
        (Target::Below(parent), Target::Name(name)) => name.is_below(parent),
        (Target::Below(parent), Target::Below(name)) => name == parent || name.is_below(parent),
        (Target::Name(name), Target::Name(other)) => name == other,
        (Target::Network(network), Target::Network(other)) => network.contains(other),
        _ => false,
    }
}

/// Whether there may be a connection that both rules are about.
#[must_use]
pub fn meet(one: &Rule, other: &Rule) -> bool {
    let have_hosts = holds(&one.target, &other.target) || holds(&other.target, &one.target);
    let have_ports = one.ports().into_iter().any(|port| other.has_port(port));
    let is_spoken = !matches!(
        (one.protocol, other.protocol),
        (Protocol::Https, Protocol::Http) | (Protocol::Http, Protocol::Https)
    );
    have_hosts && have_ports && is_spoken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Action::{self, Allow, Ask, Deny};
    use crate::policy::{Host, Layer, Policy, Request};
    use proptest::prelude::*;

    fn rules(lines: &[(Action, &str)]) -> Vec<Rule> {
        lines.iter().map(|(action, text)| Rule::parse(text, *action).unwrap()).collect()
    }

    #[test]
    fn what_never_decides_is_found() {
        for (other, rule) in [
            ((Deny, "a.b"), (Allow, "a.b")),
            ((Ask, "a.b"), (Allow, "a.b")),
            ((Deny, "a.b"), (Ask, "https://a.b")),
            ((Allow, "a.b:80,443"), (Deny, "a.b")),
            ((Deny, "*"), (Allow, "http://*")),
            ((Deny, "https://GET,PUT@a.b"), (Allow, "https://GET@a.b")),
            ((Deny, "tcp://a.b:443"), (Allow, "https://a.b:443")),
            ((Deny, "10.0.0.0/8"), (Allow, "10.0.0.0/8")),
        ] {
            assert_eq!(shadowed(&rules(&[rule, other])), [(0, 1)], "{rule:?}");
        }
        for (other, rule) in [
            // Precise ones are the exceptions of general ones.
            ((Deny, "*.b"), (Allow, "a.b")),
            ((Deny, "a.b"), (Allow, "a.b:443")),
            ((Deny, "a.b"), (Allow, "a.b/x")),
            ((Deny, "a.b"), (Allow, "https://GET@a.b")),
            ((Allow, "a.b:443"), (Deny, "a.b")),
            ((Deny, "https://a.b"), (Allow, "a.b")),
            ((Deny, "https://GET@a.b"), (Allow, "https://GET,PUT@a.b")),
            // The same again is no slip.
            ((Allow, "a.b"), (Allow, "https://a.b")),
        ] {
            assert_eq!(shadowed(&rules(&[rule, other])), [], "{rule:?}");
        }
        let three = [(Allow, "a.b"), (Allow, "a.b:80,443"), (Deny, "a.b")];
        assert_eq!(shadowed(&rules(&three)), [(2, 1)], "the first is decided to the same end");
    }

    #[test]
    fn very_many_are_not_compared() {
        let count = COMPARED_MAX / 2;
        let mut all: Vec<String> = (0..count).map(|at| format!("https://a.b/{at}")).collect();
        all.extend(all.clone());
        let rule = |(at, text): (usize, &String)| {
            Rule::parse(text, if at < count { Allow } else { Deny }).unwrap()
        };
        let mut all: Vec<Rule> = all.iter().enumerate().map(rule).collect();
        assert_eq!(shadowed(&all).len(), count, "control");
        all.extend(rules(&[(Allow, "a.b")]));
        assert_eq!(shadowed(&all), []);
    }

    fn line() -> impl Strategy<Value = Rule> {
        let line = (
            prop::sample::select(vec![Allow, Ask, Deny]),
            prop::sample::select(vec!["", "https://", "http://", "https://GET@", "GET,PUT@"]),
            prop::sample::select(vec!["*", "*.b", "a.b"]),
            prop::sample::select(vec!["", ":443", ":80,443", ":80"]),
            prop::sample::select(vec!["", "/x", "/x/**"]),
        );
        line.prop_map(|(action, front, host, port, path)| {
            Rule::parse(&format!("{front}{host}{port}{path}"), action).unwrap()
        })
    }

    proptest! {
        /// A rule that never decides is missed by nobody.
        #[test]
        fn without_it_everything_is_as_it_was(rules in prop::collection::vec(line(), 2..6)) {
            let policy = |rules: &[Rule]| Policy::new(vec![Layer::new(rules.to_vec())]);
            for (place, _) in shadowed(&rules) {
                let mut others = rules.clone();
                others.remove(place);
                let (with, without) = (policy(&rules), policy(&others));
                for (host, port, is_tls, method, path) in requests() {
                    let name = host.parse().unwrap();
                    let request = Request { method, path };
                    let of = |policy: &Policy| {
                        policy.request(Host::Name(&name), port, is_tls, request).action
                    };
                    prop_assert_eq!(of(&with), of(&without), "{}: {} {:?}", host, port, request);
                }
            }
        }
    }

    fn requests() -> impl Iterator<Item = (&'static str, u16, bool, &'static str, &'static str)> {
        let hosts = ["a.b", "c.b", "b"].into_iter();
        let wires = [(80, false), (443, true), (443, false)];
        let asked = [("GET", "/"), ("GET", "/x"), ("PUT", "/x/y"), ("POST", "/x")];
        hosts.flat_map(move |host| {
            let wires = wires.into_iter();
            wires.flat_map(move |(port, is_tls)| {
                asked.map(|(method, path)| (host, port, is_tls, method, path))
            })
        })
    }

    #[test]
    fn rules_meet() {
        for (one, other, is_so) in [
            ("*", "a.b", true),
            ("*.b", "*.a.b", true),
            ("a.b", "b", false),
            ("https://a.b", "http://a.b", false),
            ("a.b:22", "a.b", false),
            ("tcp://a.b:443", "a.b", true),
            ("10.0.0.0/8", "10.1.1.1", true),
            ("10.0.0.0/8", "*", false),
        ] {
            let both = rules(&[(Allow, one), (Allow, other)]);
            assert_eq!(meet(&both[0], &both[1]), is_so, "{one} {other}");
            assert_eq!(meet(&both[1], &both[0]), is_so, "{one} {other}");
        }
    }
}
