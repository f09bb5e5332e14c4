//! What a sandbox has used, and whether that is more than it may.

use super::refusal::{Ask, Refused};
use crate::control::{Budgets, Counts};
use std::collections::HashMap;

/// Most hosts that are counted one by one. Whoever reaches more of them is counted as one.
const HOSTS_MAX: usize = 4096;

/// Counts of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Used {
    counts: Counts,
    /// As they were last told.
    told: Counts,
    hosts: HashMap<Box<str>, Host>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Host {
    requests: u64,
    bytes: u64,
}

impl Used {
    /// Counted on from what was used before.
    pub(super) fn from(counts: Counts) -> Self {
        Self { counts, told: counts, hosts: HashMap::new() }
    }

    /// What there is so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The same, if it was not told before.
    pub(super) fn news(&mut self) -> Option<Counts> {
        let is_news = self.counts != self.told;
        self.told = self.counts;
        is_news.then_some(self.counts)
    }

    /// A question for a name.
    pub(super) fn question(&mut self) {
        self.counts.questions += 1;
    }

    /// A refusal.
    pub(super) fn denial(&mut self) {
        self.counts.denials += 1;
    }

    /// Counts a request, or a connection that is no HTTP, if one more may be made. Says whether
    /// it is the first one to that host.
    ///
    /// # Errors
    ///
    /// The budget that is spent.
    pub(super) fn begin(
        &mut self,
        host: &str,
        is_request: bool,
        budgets: &Budgets,
    ) -> Result<bool, Refused> {
        let total = self.counts.requests + self.counts.connections;
        let bytes = self.counts.sent_bytes + self.counts.received_bytes;
        let own = self.host(host).copied().unwrap_or_default();
        for (used, most, code, what) in [
            (total, budgets.requests_max, "budget-requests", "requests of this sandbox"),
            (bytes, budgets.bytes_max, "budget-bytes", "bytes of this sandbox"),
            (
                own.requests,
                budgets.requests_per_host_max,
                "budget-requests",
                "requests to this host",
            ),
            (own.bytes, budgets.bytes_per_host_max, "budget-bytes", "bytes to and from this host"),
        ] {
            if let Some(most) = most.filter(|most| used >= *most) {
                let message = format!("the policy allows {most} {what}, and they are spent");
                let refused = Refused::new(code, message, "ask the user for a larger budget");
                return Err(refused.asking(Ask::Policy));
            }
        }
        match is_request {
            true => self.counts.requests += 1,
            false => self.counts.connections += 1,
        }
        let entry = self.entry(host);
        entry.requests += 1;
        Ok(entry.requests == 1)
    }

    /// Counts bytes. False: no more may be moved.
    pub(super) fn bytes(
        &mut self,
        host: &str,
        sent: u64,
        received: u64,
        budgets: &Budgets,
    ) -> bool {
        self.counts.sent_bytes += sent;
        self.counts.received_bytes += received;
        let total = self.counts.sent_bytes + self.counts.received_bytes;
        let entry = self.entry(host);
        entry.bytes += sent + received;
        budgets.bytes_max.is_none_or(|most| total < most)
            && budgets.bytes_per_host_max.is_none_or(|most| entry.bytes < most)
    }

    fn host(&self, host: &str) -> Option<&Host> {
        self.hosts.get(host).or_else(|| match self.hosts.len() < HOSTS_MAX {
            true => None,
            false => self.hosts.get(""),
        })
    }

    fn entry(&mut self, host: &str) -> &mut Host {
        let is_known = self.hosts.contains_key(host) || self.hosts.len() < HOSTS_MAX;
        self.hosts.entry(if is_known { host } else { "" }.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_refused_by_its_name() {
        let budgets = Budgets {
            requests_max: Some(3),
            requests_per_host_max: Some(2),
            bytes_per_host_max: Some(1000),
            ..Budgets::default()
        };
        let mut used = Used::default();
        assert_eq!(used.begin("a.test", true, &budgets), Ok(true));
        assert_eq!(used.begin("a.test", true, &budgets), Ok(false));
        let refused = used.begin("a.test", true, &budgets).unwrap_err();
        assert_eq!(refused.code, "budget-requests");
        assert!(refused.message.contains("2 requests to this host"), "{}", refused.message);
        assert_eq!(used.begin("b.test", false, &budgets), Ok(true));
        let refused = used.begin("c.test", true, &budgets).unwrap_err();
        assert!(refused.message.contains("3 requests of this sandbox"), "{}", refused.message);
        assert!(used.bytes("b.test", 500, 499, &budgets));
        assert!(!used.bytes("b.test", 0, 1, &budgets));
        let all = Budgets::default();
        assert_eq!(used.begin("c.test", true, &all), Ok(true));
        let refused = used.begin("b.test", true, &Budgets { requests_max: None, ..budgets });
        assert_eq!(refused.unwrap_err().code, "budget-bytes");
        let counts = used.counts();
        assert_eq!((counts.requests, counts.connections), (3, 1));
        assert_eq!((counts.sent_bytes, counts.received_bytes), (500, 500));
    }

    #[test]
    fn what_was_used_before_counts_and_only_what_is_new_is_told() {
        let budgets = Budgets { requests_max: Some(3), ..Budgets::default() };
        let before = Counts { requests: 2, sent_bytes: 10, ..Counts::default() };
        let mut used = Used::from(before);
        assert_eq!(used.news(), None);
        assert_eq!(used.begin("a.test", true, &budgets), Ok(true));
        assert!(used.begin("a.test", true, &budgets).is_err());
        let now = Counts { requests: 3, ..before };
        assert_eq!((used.news(), used.news()), (Some(now), None));
        used.bytes("a.test", 1, 2, &budgets);
        assert_eq!(used.news(), Some(Counts { sent_bytes: 11, received_bytes: 2, ..now }));
    }

    #[test]
    fn many_hosts_are_one() {
        let budgets = Budgets { requests_per_host_max: Some(1), ..Budgets::default() };
        let mut used = Used::default();
        for number in 0..HOSTS_MAX {
            assert_eq!(used.begin(&format!("{number}.test"), true, &budgets), Ok(true));
        }
        assert_eq!(used.begin("x.test", true, &budgets), Ok(true));
        assert!(used.begin("y.test", true, &budgets).is_err());
        assert_eq!(used.hosts.len(), HOSTS_MAX + 1);
    }
}
