//! What sandboxes were refused on their way out: the last ones of each, in memory.
//!
//! They are for the agent that wonders why something does not work. What has to be kept is in the
//! audit log, to which each goes too.

use crate::engine::Engine;
use crate::error::OperationError;
use atoll_api::denial::{
    DENIALS_KEPT, DENIALS_OF_EXEC_MAX, DENIALS_PAGE_COUNT, Denial, DenialPage,
};
use atoll_api::exec::Exec;
use atoll_api::id::SandboxId;
use atoll_api::time::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long the gateway may take to tell what it has refused.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Longest text of a denial that is kept, in bytes: a sandbox chooses hosts and paths.
const TEXT_BYTES_MAX: usize = 1024;

/// The denials of all sandboxes.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    rings: Mutex<HashMap<SandboxId, Ring>>,
}

/// The last denials of one.
#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Denial>,
    last: u64,
}

impl Denials {
    /// Keeps one; its number is given here.
    pub(crate) fn keep(&self, sandbox: SandboxId, mut denial: Denial) -> Denial {
        let texts =
            [&mut denial.code, &mut denial.host, &mut denial.message, &mut denial.next_step];
        let more = [&mut denial.method, &mut denial.path, &mut denial.rule, &mut denial.layer];
        for text in texts.into_iter().chain(more.into_iter().flatten()) {
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            }
        }
        let mut rings = self.lock();
        let ring = rings.entry(sandbox).or_default();
        ring.last += 1;
        denial.seq = ring.last;
        if ring.kept.len() == DENIALS_KEPT {
            ring.kept.pop_front();
        }
        ring.kept.push_back(denial.clone());
        denial
    }

    /// A page of those of a sandbox behind a number.
    pub(crate) fn page(&self, sandbox: SandboxId, behind: u64) -> DenialPage {
        let rings = self.lock();
        let kept = rings.get(&sandbox).map(|ring| &ring.kept);
        let mut wanted = kept.into_iter().flatten().filter(|denial| denial.seq > behind);
        let denials: Vec<Denial> = wanted.by_ref().take(DENIALS_PAGE_COUNT).cloned().collect();
        let next = denials.last().map(|last| last.seq).filter(|_| wanted.next().is_some());
        let first = denials.first().map_or(0, |first| first.seq);
        let missed = first.saturating_sub(behind + 1);
        DenialPage { denials, next, missed }
    }

    /// The last of those that fell into a time.
    pub(crate) fn between(
        &self,
        sandbox: SandboxId,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<Denial> {
        let rings = self.lock();
        let kept = rings.get(&sandbox).map(|ring| &ring.kept);
        let wanted = kept.into_iter().flatten().rev();
        let wanted = wanted.skip_while(|denial| denial.at > to);
        let wanted = wanted.take_while(|denial| denial.at >= from).take(DENIALS_OF_EXEC_MAX);
        let mut found: Vec<Denial> = wanted.cloned().collect();
        found.reverse();
        found
    }

    /// Forgets those of a sandbox that is gone.
    pub(crate) fn gone(&self, sandbox: SandboxId) {
        self.lock().remove(&sandbox);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Ring>> {
        // A ring is whole after every step.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Notes that a sandbox was refused something: for whoever asks it, and in the audit log.
    /// Its number is given here. One of a sandbox that is gone is noted in the log alone.
    pub fn denied(&self, sandbox: SandboxId, denial: Denial) {
        let oversight = &self.shared().oversight;
        oversight.refused(sandbox, &denial);
        if self.get(sandbox).is_ok() {
            oversight.denials.keep(sandbox, denial);
        }
    }

    /// What the sandbox of an exec was refused while that ran.
    pub async fn denials_of(&self, sandbox: SandboxId, exec: &Exec) -> Vec<Denial> {
        let now = self.shared().clock.now();
        self.all_is_told(sandbox).await;
        let ago_us = exec.started_ago_ms.saturating_add(1).saturating_mul(1000);
        let from = now.unix_us().saturating_sub_unsigned(ago_us);
        let from = Timestamp::from_unix_us(from).unwrap_or(Timestamp::UNIX_EPOCH);
        let ended = exec.ended.as_ref();
        // A denial has the time at which it was heard of, which may be a little later.
        let heard = self.shared().clock.now();
        let to = ended.map_or(heard, |ended| {
            from.after(Duration::from_micros(ended.duration_us) + TOLD_WITHIN).min(heard)
        });
        self.shared().oversight.denials.between(sandbox, from, to)
    }

    /// Waits until the gateway has told what it has refused the sandbox: who was refused knows it
    /// from the gateway, and may be sooner here. It tells in order, so an answer of its comes behind.
    async fn all_is_told(&self, sandbox: SandboxId) {
        if let Some(gateway) = &self.shared().gateway {
            // One that does not answer is being started anew, and tells nothing any more.
            timeout(TOLD_WITHIN, gateway.count(sandbox)).await.unwrap_or_default();
        }
    }

    /// The last of what a sandbox was refused in so much time until now.
    ///
    /// # Errors
    /// If there is no such sandbox.
    pub async fn denials_within(
        &self,
        sandbox: SandboxId,
        time: Duration,
    ) -> Result<DenialPage, OperationError> {
        self.get(sandbox)?;
        let now = self.shared().clock.now();
        self.all_is_told(sandbox).await;
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let from = Timestamp::from_unix_us(now.unix_us().saturating_sub_unsigned(time_us));
        let from = from.unwrap_or(Timestamp::UNIX_EPOCH);
        let heard = self.shared().clock.now();
        let denials = self.shared().oversight.denials.between(sandbox, from, heard);
        Ok(DenialPage { denials, next: None, missed: 0 })
    }

    /// A page of what a sandbox was refused since the server started, behind a number.
    ///
    /// # Errors
    /// If there is no such sandbox.
    pub fn denials(&self, sandbox: SandboxId, behind: u64) -> Result<DenialPage, OperationError> {
        self.get(sandbox)?;
        Ok(self.shared().oversight.denials.page(sandbox, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::denial::DenialProtocol;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH.after(Duration::from_secs(seconds))
    }

    fn denial(seconds: u64) -> Denial {
        Denial {
            seq: 0,
            at: at(seconds),
            code: "not-allowed".to_owned(),
            host: format!("{seconds}.example"),
            port: Some(443),
            protocol: DenialProtocol::Tls,
            method: None,
            path: None,
            rule: None,
            layer: None,
            message: "no".to_owned(),
            next_step: "ask".to_owned(),
            count: 1,
        }
    }

    #[test]
    fn the_last_ones_are_kept_and_paged() {
        let denials = Denials::default();
        let id = SandboxId::from_random([1; 10]);
        let other = SandboxId::from_random([2; 10]);
        denials.keep(other, denial(0));
        let count = DENIALS_KEPT as u64 + 50;
        for n in 0..count {
            denials.keep(id, denial(n));
        }
        let mut seqs = Vec::new();
        let (mut behind, mut missed) = (0, 0);
        loop {
            let page = denials.page(id, behind);
            seqs.extend(page.denials.iter().map(|denial| denial.seq));
            missed += page.missed;
            match page.next {
                Some(next) => behind = next,
                None => break,
            }
        }
        assert_eq!(seqs, (51..=count).collect::<Vec<_>>());
        assert_eq!(missed, 50);
        assert_eq!(denials.page(other, 0).denials.len(), 1);
        let nothing = DenialPage { denials: Vec::new(), next: None, missed: 0 };
        assert_eq!(denials.page(id, count), nothing);
        denials.gone(id);
        assert_eq!(denials.page(id, 0), nothing);
    }

    #[test]
    fn those_of_a_time_are_found() {
        let denials = Denials::default();
        let id = SandboxId::from_random([1; 10]);
        for n in 0..200 {
            denials.keep(id, denial(n));
        }
        let hosts = |from, to| -> Vec<String> {
            denials.between(id, at(from), at(to)).into_iter().map(|one| one.host).collect()
        };
        assert_eq!(hosts(3, 5), ["3.example", "4.example", "5.example"]);
        assert_eq!(hosts(0, 999).len(), DENIALS_OF_EXEC_MAX);
        assert_eq!(hosts(0, 999).last().unwrap(), "199.example");
        assert_eq!(hosts(500, 999), Vec::<String>::new());
    }

    #[test]
    fn texts_that_a_sandbox_chose_are_cut() {
        let denials = Denials::default();
        let id = SandboxId::from_random([1; 10]);
        let path = Some("é".repeat(4000));
        let kept = denials.keep(id, Denial { path, ..denial(0) });
        assert_eq!(kept.path.unwrap().len(), TEXT_BYTES_MAX);
    }
}
