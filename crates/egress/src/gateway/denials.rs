//! Refusals as they are told: each once, and then at most once a minute with how many there were.

use crate::control::Denial;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long the same refusal is not told again.
const QUIET: Duration = Duration::from_secs(60);

/// Most kinds of refusals that are remembered; beyond it the oldest is forgotten.
const KINDS_MAX: usize = 1024;

/// What makes refusals the same.
type Kind = (String, String, u16, Option<String>);

/// Refusals of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Denials {
    known: HashMap<Kind, Known>,
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
        if self.known.len() >= KINDS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.told);
            if let Some(oldest) = oldest.map(|(kind, _)| kind.clone()) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(kind, Known { told: now, since: 0 });
        Some(denial)
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
        for number in 0..3000_u32 {
            let now = begin + Duration::from_millis(number.into());
            assert!(denials.count(denial(&format!("{number}.test")), now).is_some());
        }
        assert_eq!(denials.known.len(), KINDS_MAX);
    }
}
