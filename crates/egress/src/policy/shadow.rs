//! Rules that never decide.

use super::rule::{Protocol, Rule, Target};
use std::cmp::Reverse;

/// The rule of a layer that always decides in the place of another one with another word: by its
/// place among `rules`. Such a rule is a slip more often than not.
#[must_use]
pub fn shadowed_by(rules: &[Rule], place: usize) -> Option<usize> {
    let rule = rules.get(place)?;
    let rank = |rule: &Rule| (rule.precision(), rule.action);
    let mut others: Vec<_> = rules.iter().enumerate().collect();
    // The one that would decide comes first.
    others.sort_by_key(|(_, other)| Reverse(rank(other)));
    let is_before = |other: &&(usize, &Rule)| rank(other.1) > rank(rule);
    let mut before = others.iter().take_while(is_before);
    let (place, other) = before.find(|(_, other)| covers(other, rule))?;
    (other.action != rule.action).then_some(*place)
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
            assert_eq!(shadowed_by(&rules(&[rule, other]), 0), Some(1), "{rule:?}");
            assert_eq!(shadowed_by(&rules(&[rule, other]), 1), None, "{other:?}");
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
            assert_eq!(shadowed_by(&rules(&[rule, other]), 0), None, "{rule:?}");
        }
        let three = [(Allow, "a.b"), (Allow, "a.b:80,443"), (Deny, "a.b")];
        assert_eq!(shadowed_by(&rules(&three), 0), None, "another decides, to the same end");
        assert_eq!(shadowed_by(&rules(&three), 2), Some(1));
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
