//! What is told of secrets: each for the first time at once, and then how often it was, with the
//! counts of the sandbox. They are in every request, of which there may be thousands a second.

use crate::control::Told;
use std::collections::HashMap;

/// Most that are counted. Hosts of secrets are in the rules, so that there are fewer; each of those
/// beyond is told by itself.
const KINDS_MAX: usize = 1024;

/// What happened to a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// It was sent.
    Used,
    /// It was in an answer.
    Redacted,
}

/// A secret, and which host at which port it was sent to or came from.
type Kind = (Event, String, String, u16);

/// Of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// How often, since it was told.
    since: HashMap<Kind, u64>,
}

impl Uses {
    /// Counts one more; gives what is to be told at once.
    pub(super) fn count(
        &mut self,
        sandbox: u64,
        event: Event,
        (secret, host, port): (String, &str, u16),
    ) -> Option<Told> {
        let kind = (event, secret, host.to_owned(), port);
        if let Some(since) = self.since.get_mut(&kind) {
            *since += 1;
            return None;
        }
        let first = told(sandbox, &kind, 1);
        if self.since.len() < KINDS_MAX {
            self.since.insert(kind, 0);
        }
        Some(first)
    }

    /// What has come since it was told.
    pub(super) fn news(&mut self, sandbox: u64) -> Vec<Told> {
        let more = self.since.iter_mut().filter(|(_, since)| **since > 0);
        more.map(|(kind, since)| told(sandbox, kind, std::mem::take(since))).collect()
    }
}

fn told(sandbox: u64, (event, secret, host, port): &Kind, count: u64) -> Told {
    let (secret, host, port) = (secret.clone(), host.clone(), *port);
    match event {
        Event::Used => Told::Used { sandbox, secret, host, port, count },
        Event::Redacted => Told::Redacted { sandbox, secret, host, port, count },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let mut uses = Uses::default();
        let mut count =
            |event, secret: &str, host| uses.count(7, event, (secret.to_owned(), host, 443));
        let used = |secret: &str, host: &str, count| {
            let (secret, host) = (secret.to_owned(), host.to_owned());
            Told::Used { sandbox: 7, secret, host, port: 443, count }
        };
        assert_eq!(count(Event::Used, "A", "a.test"), Some(used("A", "a.test", 1)));
        for _ in 0..1000 {
            assert_eq!(count(Event::Used, "A", "a.test"), None);
        }
        assert_eq!(count(Event::Used, "A", "b.test"), Some(used("A", "b.test", 1)));
        assert_eq!(count(Event::Used, "B", "a.test"), Some(used("B", "a.test", 1)));
        let covered = count(Event::Redacted, "A", "a.test");
        assert!(matches!(covered, Some(Told::Redacted { count: 1, .. })), "{covered:?}");
        assert_eq!(uses.news(7), [used("A", "a.test", 1000)]);
        assert_eq!(uses.news(7), []);
    }

    #[test]
    fn many_kinds_take_no_more_room_and_are_told_all_the_same() {
        let mut uses = Uses::default();
        for port in 0..2000 {
            let told = uses.count(1, Event::Used, ("A".to_owned(), "a.test", port));
            assert!(told.is_some(), "{port}");
        }
        assert_eq!(uses.since.len(), KINDS_MAX);
        assert!(uses.count(1, Event::Used, ("A".to_owned(), "a.test", 1999)).is_some());
    }
}
