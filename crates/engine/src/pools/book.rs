//! Which pools there are, and how many members each is to make when: pure.
//!
//! ```text
//!     due ──► being made ──► ready ──► given, or let go
//!      ▲          │ failed
//!      └─ later ◄─┘
//! ```

use super::KeptPool;
use atoll_api::name::SandboxName;
use atoll_api::pool::Pool;
use atoll_api::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Most members of a pool that are made at a time.
const AT_ONCE: u32 = 4;

/// How long a pool waits after a failure: at first, and at most.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// See the module. `M` is a member that is ready.
#[derive(Debug)]
pub struct Book<M> {
    pools: BTreeMap<SandboxName, Entry<M>>,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry<M> {
    kept: KeptPool,
    /// The oldest first.
    ready: VecDeque<M>,
    making: u32,
    /// No member is begun before this time.
    not_before: Timestamp,
    failures: u32,
    error: Option<String>,
    given: u64,
    missed: u64,
}

/// Why no member is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotGiven {
    /// There is no such pool.
    NoPool,
    /// None is ready.
    Exhausted,
    /// What the request has cannot be given to a member any more.
    Unfit(&'static str),
}

/// Whether a member can be given to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It can.
    Fits,
    /// No member can.
    Never(&'static str),
    /// It is of what the pool is not made of any more.
    Stale,
}

impl<M> Default for Book<M> {
    fn default() -> Self {
        Self { pools: BTreeMap::new(), is_closed: false }
    }
}

impl<M> Book<M> {
    /// Takes in a pool, in place of one of its name.
    pub fn keep(&mut self, kept: KeptPool, now: Timestamp) {
        let entry = Entry {
            kept,
            ready: VecDeque::new(),
            making: 0,
            not_before: now,
            failures: 0,
            error: None,
            given: 0,
            missed: 0,
        };
        self.pools.insert(entry.kept.name.clone(), entry);
    }

    /// Whether there is one of that name.
    pub fn has(&self, name: &SandboxName) -> bool {
        self.pools.contains_key(name)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pools.len()
    }

    /// What is kept of one.
    pub fn kept(&self, name: &SandboxName) -> Option<&KeptPool> {
        self.pools.get(name).map(|entry| &entry.kept)
    }

    /// What is kept of all.
    pub fn all(&self) -> Vec<KeptPool> {
        self.pools.values().map(|entry| entry.kept.clone()).collect()
    }

    /// Takes one away; gives the members that are to go.
    pub fn forget(&mut self, name: &SandboxName) -> Option<Vec<M>> {
        self.pools.remove(name).map(|entry| entry.ready.into())
    }

    /// Gives one another size; gives the members that are to go.
    pub fn set_size(&mut self, name: &SandboxName, size: u32) -> Vec<M> {
        let Some(entry) = self.pools.get_mut(name) else { return Vec::new() };
        entry.kept.size = size;
        let beyond = entry.ready.len().saturating_sub(usize::try_from(size).unwrap_or(usize::MAX));
        entry.ready.drain(..beyond).collect()
    }

    /// Takes nothing more in; gives all members.
    pub fn close(&mut self) -> Vec<M> {
        self.is_closed = true;
        self.pools.values_mut().flat_map(|entry| std::mem::take(&mut entry.ready)).collect()
    }

    /// The pools of which a member is to be begun now, each as often as one is, and when to look again.
    pub fn due(&mut self, now: Timestamp) -> (Vec<KeptPool>, Option<Timestamp>) {
        let (mut due, mut look_at) = (Vec::new(), None::<Timestamp>);
        if self.is_closed {
            return (due, look_at);
        }
        for entry in self.pools.values_mut() {
            while entry.lacks() > 0 && entry.not_before <= now && entry.making < AT_ONCE {
                entry.making += 1;
                entry.not_before = now.after(Duration::from_millis(entry.kept.refill_ms));
                due.push(entry.kept.clone());
            }
            if entry.lacks() > 0 && entry.not_before > now {
                let at = entry.not_before;
                look_at = Some(look_at.map_or(at, |other| other.min(at)));
            }
        }
        (due, look_at)
    }

    /// One that was begun is ready; gives it back if nobody wants it any more.
    pub fn made(&mut self, name: &SandboxName, member: M) -> Option<M> {
        let is_closed = self.is_closed;
        let Some(entry) = self.pools.get_mut(name) else { return Some(member) };
        entry.making = entry.making.saturating_sub(1);
        (entry.failures, entry.error) = (0, None);
        let size = usize::try_from(entry.kept.size).unwrap_or(usize::MAX);
        if is_closed || entry.ready.len() >= size {
            return Some(member);
        }
        entry.ready.push_back(member);
        None
    }

    /// One that was begun could not be made.
    pub fn failed(&mut self, name: &SandboxName, now: Timestamp, error: String) {
        let Some(entry) = self.pools.get_mut(name) else { return };
        entry.making = entry.making.saturating_sub(1);
        let wait = RETRY_AFTER.saturating_mul(1 << entry.failures.min(16)).min(RETRY_AFTER_MAX);
        entry.failures = entry.failures.saturating_add(1);
        entry.error = Some(error);
        entry.not_before = entry.not_before.max(now.after(wait));
    }

    /// Gives the oldest member that fits, and those that are to go since they are stale.
    pub fn take(
        &mut self,
        name: &SandboxName,
        fit: impl Fn(&M) -> Fit,
    ) -> (Result<M, NotGiven>, Vec<M>) {
        let mut stale = Vec::new();
        let Some(entry) = self.pools.get_mut(name) else {
            return (Err(NotGiven::NoPool), stale);
        };
        let given = loop {
            let Some(first) = entry.ready.front() else { break Err(NotGiven::Exhausted) };
            match fit(first) {
                Fit::Never(what) => break Err(NotGiven::Unfit(what)),
                Fit::Stale => stale.extend(entry.ready.pop_front()),
                Fit::Fits => break entry.ready.pop_front().ok_or(NotGiven::Exhausted),
            }
        };
        match given {
            Ok(_) => entry.given += 1,
            Err(_) => entry.missed += 1,
        }
        (given, stale)
    }

    /// One that was taken is not wanted after all; gives it back if there is no place for it.
    pub fn put_back(&mut self, name: &SandboxName, member: M) -> Option<M> {
        if self.is_closed {
            return Some(member);
        }
        let Some(entry) = self.pools.get_mut(name) else { return Some(member) };
        entry.given = entry.given.saturating_sub(1);
        entry.ready.push_front(member);
        None
    }

    /// Takes out the members of a pool that are to go.
    pub fn drain(&mut self, name: &SandboxName, is_stale: impl Fn(&M) -> bool) -> Vec<M> {
        let Some(entry) = self.pools.get_mut(name) else { return Vec::new() };
        let all = std::mem::take(&mut entry.ready).into_iter();
        let (stale, ready): (Vec<M>, Vec<M>) = all.partition(is_stale);
        entry.ready = ready.into();
        stale
    }

    /// What the API shows of one.
    pub fn view(&self, name: &SandboxName) -> Option<Pool> {
        self.pools.get(name).map(Entry::view)
    }

    /// The same of all, by name.
    pub fn views(&self) -> Vec<Pool> {
        self.pools.values().map(Entry::view).collect()
    }
}

impl<M> Entry<M> {
    fn ready(&self) -> u32 {
        u32::try_from(self.ready.len()).unwrap_or(u32::MAX)
    }

    /// How many are neither ready nor being made.
    fn lacks(&self) -> u32 {
        self.kept.size.saturating_sub(self.ready()).saturating_sub(self.making)
    }

    fn view(&self) -> Pool {
        let kept = &self.kept;
        Pool {
            name: kept.name.clone(),
            created_at: kept.created_at,
            size: kept.size,
            refill_ms: kept.refill_ms,
            when_exhausted: kept.when_exhausted,
            of: kept.sandbox.made_of(),
            ready: self.ready(),
            making: self.making,
            given: self.given,
            missed: self.missed,
            error: self.error.clone(),
        }
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
