//! Refusals as they are told: each once, and then at most once a minute with how many there were.

use crate::control::Denial;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long the same refusal is not told again.
const QUIET: Duration = Duration::from_secs(60);

/// Most kinds of refusals that are remembered, and told one by one: of what there is beyond them
/// the number is told, so that nobody hides one among a million, or drowns those of others.
const KINDS_MAX: usize = 1024;

/// What makes refusals the same.
type Kind = (String, String, u16, Option<String>);

/// Refusals of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Denials {
    known: HashMap<Kind, Known>,
    /// There is no room before that.
    full_until: Option<Instant>,
    /// All kinds for which there was no room.
    others: Option<Known>,
}

#[derive(Debug)]
struct Known {
    told: Instant,
    since: u64,
}

impl Denials {
    /// Whether a refusal is to be told, and as how many.
    pub(super) fn count(&mut self, mut denial: Denial, now: Instant) -> Option<Denial> {
        let kind = (denial.code.clone(), denial.host.clone(), denial.port, denial.rule.clone());
        if let Some(known) = self.known.get_mut(&kind) {
            known.since += 1;
            if now.duration_since(known.told) < QUIET {
                return None;
            }
            denial.count = known.since;
            *known = Known { told: now, since: 0 };
            return Some(denial);
        }
        if self.known.len() >= KINDS_MAX && self.full_until.is_none_or(|until| now >= until) {
            self.known.retain(|_, known| now.duration_since(known.told) < QUIET);
            self.full_until = self.known.values().map(|known| known.told + QUIET).min();
        }
        if self.known.len() >= KINDS_MAX {
            return self.count_other(denial, now);
        }
        self.known.insert(kind, Known { told: now, since: 0 });
        Some(denial)
    }

    fn count_other(&mut self, denial: Denial, now: Instant) -> Option<Denial> {
        let since = self.others.as_ref().map_or(0, |others| others.since) + 1;
        let told = self.others.as_ref().map(|others| others.told);
        if let Some(told) = told.filter(|told| now.duration_since(*told) < QUIET) {
            self.others = Some(Known { told, since });
            return None;
        }
        self.others = Some(Known { told: now, since: 0 });
        Some(Denial {
            host: "*".to_owned(),
            port: 0,
            method: None,
            path: None,
            rule: None,
            layer: None,
            message: format!("more than {KINDS_MAX} different things were refused within a minute"),
            next_step: "look at what runs in the sandbox".to_owned(),
            count: since,
            ..denial
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Protocol;

    fn denial(host: &str) -> Denial {
        Denial {
            code: "not-allowed".to_owned(),
            host: host.to_owned(),
            port: 443,
            protocol: Protocol::Tls,
            method: None,
            path: None,
            rule: None,
            layer: None,
            message: String::new(),
            next_step: String::new(),
            count: 1,
        }
    }

    #[test]
    fn the_same_is_told_once_a_minute_with_its_number() {
        let mut denials = Denials::default();
        let begin = Instant::now();
        assert_eq!(denials.count(denial("a.test"), begin).map(|told| told.count), Some(1));
        for second in 1..60 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(denials.count(denial("a.test"), now), None);
            assert_eq!(denials.count(denial("b.test"), now).is_some(), second == 1);
        }
        let now = begin + QUIET;
        assert_eq!(denials.count(denial("a.test"), now).map(|told| told.count), Some(60));
        assert_eq!(denials.count(denial("a.test"), now), None);
    }

    #[test]
    fn many_kinds_take_no_more_room() {
        let mut denials = Denials::default();
        let begin = Instant::now();
        let mut told = Vec::new();
        for number in 0..3000_u32 {
            let now = begin + Duration::from_millis(number.into());
            told.extend(denials.count(denial(&format!("{number}.test")), now));
        }
        assert_eq!((denials.known.len(), told.len()), (KINDS_MAX, KINDS_MAX + 1));
        assert_eq!((told[KINDS_MAX].host.as_str(), told[KINDS_MAX].count), ("*", 1));
        // What is known is told as ever, and the others by their number.
        let now = begin + QUIET;
        assert_eq!(denials.count(denial("0.test"), now).map(|told| told.count), Some(1));
        let now = begin + QUIET + Duration::from_millis(1500);
        let other = denials.count(denial("x.test"), now).unwrap();
        assert_eq!((other.host.as_str(), other.count), ("x.test", 1));
        assert!(denials.known.len() < KINDS_MAX);
    }
}
