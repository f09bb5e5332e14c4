//! What one sandbox has used so far, and how more is added: pure.
//!
//! What is measured starts from 0 whenever something is started anew: the processes of a sandbox,
//! or the gateway. A tally goes on.

use crate::records::Record;
use atoll_api::id::SandboxId;
use atoll_api::name::SandboxName;
use atoll_api::time::Timestamp;
use atoll_api::usage::{NetworkUsage, Usage, Used};
use atoll_egress::control::Counts;
use std::collections::BTreeMap;

/// What is measured of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Processor time since they were started, in microseconds.
    pub cpu_us: Option<u64>,
    /// Memory now.
    pub memory_bytes: Option<u64>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Whose.
    pub id: SandboxId,
    /// Its name.
    pub name: Option<SandboxName>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// All processor time, in microseconds.
    pub cpu_us: Option<u64>,
    /// How much of it was of the processes that there are, when that was last seen.
    pub cpu_seen_us: u64,
    /// Memory times how long: bytes times microseconds.
    pub memory_byte_us: Option<u128>,
    /// Memory as it was last seen, and when, while there are processes.
    pub memory_seen: Option<(Timestamp, u64)>,
    /// What went through the gateway.
    pub network: Option<Counts>,
}

impl Tally {
    /// Of a sandbox that has used nothing.
    pub fn of(record: &Record) -> Self {
        Self {
            id: record.id,
            name: record.name.clone(),
            labels: record.labels.clone(),
            created_at: record.created_at,
            deleted_at: None,
            cpu_us: None,
            cpu_seen_us: 0,
            memory_byte_us: None,
            memory_seen: None,
            network: None,
        }
    }

    /// Whether nothing was ever measured.
    pub fn is_empty(&self) -> bool {
        self.cpu_us.is_none() && self.memory_byte_us.is_none() && self.network.is_none()
    }

    /// Other processes are started.
    pub fn begins(&mut self) {
        (self.cpu_seen_us, self.memory_seen) = (0, None);
    }

    /// Processes that were started for nobody are its own from now on.
    pub fn takes_over(&mut self, until_now: Measured) {
        (self.cpu_seen_us, self.memory_seen) = (until_now.cpu_us.unwrap_or(0), None);
    }

    /// Takes in what was measured.
    pub fn saw(&mut self, at: Timestamp, measured: Measured) {
        if let Some(now_us) = measured.cpu_us {
            // Less than before is of other processes, though nobody said that they were started.
            let more = now_us.checked_sub(self.cpu_seen_us).unwrap_or(now_us);
            self.cpu_us = Some(self.cpu_us.unwrap_or(0).saturating_add(more));
            self.cpu_seen_us = now_us;
        }
        if let Some(bytes) = measured.memory_bytes {
            let before = self.memory_seen.map(|(_, bytes)| bytes);
            // In between it was one and became the other.
            let twice = u128::from(bytes) + u128::from(before.unwrap_or(bytes));
            self.held(at, twice);
            self.memory_seen = Some((at, bytes));
        }
    }

    /// There are no processes any more, which had used so much.
    pub fn ends(&mut self, at: Timestamp, last: Measured) {
        self.saw(at, Measured { memory_bytes: None, ..last });
        if let Some((_, bytes)) = self.memory_seen {
            self.held(at, 2 * u128::from(bytes));
        }
        self.memory_seen = None;
    }

    /// Half of this was held since it was last looked.
    fn held(&mut self, at: Timestamp, twice_bytes: u128) {
        let span_us = self.memory_seen.map_or(0, |(seen, _)| at.since(seen).as_micros());
        let more = twice_bytes * span_us / 2;
        self.memory_byte_us = Some(self.memory_byte_us.unwrap_or(0).saturating_add(more));
    }

    /// Adds what went through the gateway.
    pub fn counted(&mut self, more: Counts) {
        self.network = Some(added(self.network.unwrap_or_default(), more));
    }

    /// What it has used, as the API shows it.
    pub fn used(&self) -> Used {
        let memory_mib_seconds = self
            .memory_byte_us
            .map(|all| u64::try_from(all / (1_000_000 << 20)).unwrap_or(u64::MAX));
        Used { cpu_us: self.cpu_us, memory_mib_seconds, network: self.network.map(network) }
    }

    /// What the API shows of it.
    pub fn view(&self) -> Usage {
        Usage {
            sandbox_id: self.id,
            name: self.name.clone(),
            labels: self.labels.clone(),
            created_at: self.created_at,
            deleted_at: self.deleted_at,
            used: self.used(),
            disk: None,
        }
    }
}

fn network(counts: Counts) -> NetworkUsage {
    let Counts { sent_bytes, received_bytes, connections, requests, questions, denials } = counts;
    NetworkUsage {
        bytes_sent: sent_bytes,
        bytes_received: received_bytes,
        requests,
        connections,
        questions,
        denied: denials,
    }
}

fn added(one: Counts, other: Counts) -> Counts {
    Counts {
        sent_bytes: one.sent_bytes.saturating_add(other.sent_bytes),
        received_bytes: one.received_bytes.saturating_add(other.received_bytes),
        connections: one.connections.saturating_add(other.connections),
        requests: one.requests.saturating_add(other.requests),
        questions: one.questions.saturating_add(other.questions),
        denials: one.denials.saturating_add(other.denials),
    }
}

/// What came to counts since they were others; nothing where they went back, which nobody believes.
pub(crate) fn since(now: Counts, before: Counts) -> Counts {
    Counts {
        sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
        received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
        connections: now.connections.saturating_sub(before.connections),
        requests: now.requests.saturating_sub(before.requests),
        questions: now.questions.saturating_sub(before.questions),
        denials: now.denials.saturating_sub(before.denials),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::id::ID_BYTES;
    use std::time::Duration;

    fn tally() -> Tally {
        Tally {
            id: SandboxId::from_random([1; ID_BYTES]),
            name: None,
            labels: BTreeMap::new(),
            created_at: Timestamp::UNIX_EPOCH,
            deleted_at: None,
            cpu_us: None,
            cpu_seen_us: 0,
            memory_byte_us: None,
            memory_seen: None,
            network: None,
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH.after(Duration::from_secs(seconds))
    }

    fn cpu(cpu_us: u64) -> Measured {
        Measured { cpu_us: Some(cpu_us), memory_bytes: None }
    }

    #[test]
    fn processor_time_goes_on_over_starts_and_is_never_counted_twice() {
        let mut tally = tally();
        assert!(tally.is_empty());
        for (seen, all) in [(10, 10), (10, 10), (25, 25), (5, 30), (6, 31)] {
            tally.saw(at(1), cpu(seen));
            assert_eq!(tally.cpu_us, Some(all));
        }
        // More than before, and of others all the same.
        tally.begins();
        tally.saw(at(2), cpu(7));
        tally.ends(at(3), cpu(9));
        assert_eq!(tally.cpu_us, Some(40));
        assert!(!tally.is_empty());
    }

    #[test]
    fn memory_is_held_between_looks_and_until_the_end() {
        let mut tally = tally();
        let mib = |count: u64| Measured { cpu_us: None, memory_bytes: Some(count << 20) };
        let mut looked = |seconds, count, seen: u64| {
            tally.saw(at(seconds), mib(count));
            assert_eq!(tally.view().used.memory_mib_seconds, Some(seen));
        };
        looked(10, 100, 0);
        looked(20, 100, 1000);
        // It became twice as much in between.
        looked(30, 200, 2500);
        tally.ends(at(31), Measured::default());
        assert_eq!(tally.view().used.memory_mib_seconds, Some(2700));
        // What was between two starts is nobody's.
        tally.begins();
        tally.saw(at(1000), mib(500));
        tally.saw(at(1001), mib(500));
        assert_eq!(tally.view().used.memory_mib_seconds, Some(3200));
        assert_eq!(tally.view().used.cpu_us, None);
    }

    #[test]
    fn counts_that_go_back_add_nothing() {
        let counts = |sent_bytes, requests| Counts { sent_bytes, requests, ..Counts::default() };
        assert_eq!(since(counts(5, 1), counts(3, 4)), counts(2, 0));
        let mut tally = tally();
        tally.counted(counts(2, 0));
        tally.counted(counts(u64::MAX, 1));
        assert_eq!(tally.network, Some(counts(u64::MAX, 1)));
    }
}
