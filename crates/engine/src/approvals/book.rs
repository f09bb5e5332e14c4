//! What was asked for and decided: a pure state machine.
//!
//! ```text
//!     ask ──► pending ──► approved once ──► used
//!                │    ──► approved for the sandbox, or always ──► denied (taken back)
//!                │    ──► denied
//!                └──────► expired
//! ```
//!
//! A decision holds for the same rule and name: in its sandbox, or everywhere, until it ends. One
//! for once is for what was shown alone, so what differs in that is pending by itself.
//! Nothing here knows the time or writes; whoever keeps the book says what time it is, and writes
//! down what it is told has changed.

use atoll_api::approval::{
    APPROVALS_PENDING_MAX, APPROVALS_PENDING_OF_SANDBOX_MAX, Approval, ApprovalStatus,
    ApprovalWhat, Decided, GRANTS_COUNT_MAX, GrantScope,
};
use atoll_api::id::{ApprovalId, SandboxId};
use atoll_api::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Longest rule and longest name, in bytes.
pub const WORDS_BYTES_MAX: usize = 2048;
/// How long nobody may decide.
pub const PENDING_FOR: Duration = Duration::from_secs(600);
/// How long something that was approved once may take to be asked for again.
pub const ONCE_FOR: Duration = Duration::from_secs(600);
/// How long a denial holds.
pub const DENIED_FOR: Duration = Duration::from_secs(600);
/// How long `always` is, where nothing is said.
pub const ALWAYS_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Approvals that are remembered although they mean nothing any more.
pub const HISTORY_MAX: usize = 1000;

/// Something that a sandbox, or somebody, wants and a rule says to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which sandbox, if it is one's.
    pub sandbox: Option<SandboxId>,
    /// Who else asks, if it is none's.
    pub asked_by: Option<String>,
    /// What it wants.
    pub what: ApprovalWhat,
    /// The rule that says `ask`.
    pub rule: String,
    /// What of that rule it is about.
    pub name: String,
}

/// What is answered at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It may happen.
    Approved(GrantScope),
    /// It may not, and why, if somebody said so.
    Denied(Option<String>),
    /// Nobody has decided yet.
    Pending,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The approval that it is about.
    pub id: ApprovalId,
    /// How that stands.
    pub status: Status,
}

/// Why a question is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskRefusal {
    /// A rule or a name is too long.
    #[error("a rule and a name have at most {WORDS_BYTES_MAX} bytes")]
    TooLong,
    /// The sandbox waits for as much as it may.
    #[error(
        "{APPROVALS_PENDING_OF_SANDBOX_MAX} approvals of this sandbox, or of nobody's, are pending, \
         which is the most"
    )]
    TooManyOfSandbox,
    /// All sandboxes together do.
    #[error("{APPROVALS_PENDING_MAX} approvals are pending, which is the most")]
    TooMany,
}

/// Why something is not decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideRefusal {
    /// There is no such approval.
    #[error("there is no approval {id}")]
    NotFound {
        /// What was asked for.
        id: ApprovalId,
    },
    /// It was decided before, or its time is over.
    #[error("approval {id} is {status}")]
    NotPending {
        /// The approval.
        id: ApprovalId,
        /// How it stands.
        status: ApprovalStatus,
    },
    /// What is to happen changes each time.
    #[error("what is applied is approved `once`")]
    OnlyOnce,
    /// As many grants stand as may.
    #[error("{GRANTS_COUNT_MAX} grants stand, which is the most")]
    TooManyGrants,
}

/// What somebody decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen, so far and for so long.
    Approve(GrantScope, Option<Duration>),
    /// It may not.
    Deny(Option<String>),
}

/// Everything that was asked for and may still matter, and some that does not.
#[derive(Debug, Default)]
pub struct Book {
    approvals: BTreeMap<u64, Approval>,
    numbers: HashMap<ApprovalId, u64>,
    /// By rule and name.
    about: HashMap<(String, String), Vec<u64>>,
    last: u64,
}

/// What changed, to be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is as it says now.
    Keep(u64, Box<Approval>),
    /// It is forgotten.
    Forget(ApprovalId),
}

impl Book {
    /// The book as it was written down. Who waited for a decision is gone with the server that
    /// they asked.
    pub fn read(written: Vec<(u64, Approval)>, now: Timestamp) -> (Self, Vec<Change>) {
        let mut book = Self::default();
        let mut changes = Vec::new();
        for (number, mut approval) in written {
            book.last = book.last.max(number);
            if approval.status == ApprovalStatus::Pending {
                approval.status = ApprovalStatus::Expired;
                approval.decided = Some(ended("server", now));
                changes.push(Change::Keep(number, Box::new(approval.clone())));
            }
            book.put(number, approval);
        }
        (book, changes)
    }

    /// The number and the approval of an id.
    pub fn get(&self, id: ApprovalId) -> Option<(u64, &Approval)> {
        let number = *self.numbers.get(&id)?;
        Some((number, self.approvals.get(&number)?))
    }

    /// Approvals behind a number, the oldest first.
    pub fn behind(&self, number: u64) -> impl Iterator<Item = (u64, &Approval)> {
        self.approvals.range(number.saturating_add(1)..).map(|(number, one)| (*number, one))
    }

    /// The grant that lets this happen, if there is one; one for once is for `what` alone.
    pub fn grant(
        &self,
        sandbox: Option<SandboxId>,
        (rule, name): (&str, &str),
        what: Option<&ApprovalWhat>,
        now: Timestamp,
    ) -> Option<(ApprovalId, GrantScope)> {
        let mut found = None;
        for (_, approval) in self.about(rule, name) {
            let Some(scope) = stands(approval, now) else { continue };
            let is_its = match scope {
                GrantScope::Always => true,
                GrantScope::Sandbox => approval.sandbox_id == sandbox,
                GrantScope::Once => approval.sandbox_id == sandbox && what == Some(&approval.what),
            };
            // One that is not used up before one that is.
            let is_better = found.is_none_or(|(_, before)| before == GrantScope::Once);
            if is_its && is_better {
                found = Some((approval.id, scope));
            }
        }
        found
    }

    /// Answers a question; `id` is for it if it is a new one.
    ///
    /// # Errors
    /// [`AskRefusal`]; nothing changed then.
    pub fn ask(
        &mut self,
        question: Question,
        id: ApprovalId,
        now: Timestamp,
    ) -> Result<(Asked, Vec<Change>), AskRefusal> {
        let Question { sandbox, asked_by, what, rule, name } = question;
        if rule.len() > WORDS_BYTES_MAX || name.len() > WORDS_BYTES_MAX {
            return Err(AskRefusal::TooLong);
        }
        if let Some((id, scope)) = self.grant(sandbox, (&rule, &name), Some(&what), now) {
            let asked = Asked { id, status: Status::Approved(scope) };
            let changes = if scope == GrantScope::Once { self.using(id) } else { Vec::new() };
            return Ok((asked, changes));
        }
        let known = self.about(&rule, &name).find_map(|(number, approval)| {
            let is_its = approval.sandbox_id == sandbox;
            let status = match approval.status {
                ApprovalStatus::Pending
                    if approval.pending_until > now && approval.what == what =>
                {
                    Status::Pending
                }
                ApprovalStatus::Denied if holds(approval, now) => {
                    Status::Denied(approval.decided.as_ref().and_then(|one| one.reason.clone()))
                }
                _ => return None,
            };
            is_its.then_some((number, approval.id, status))
        });
        if let Some((number, id, status)) = known {
            if let (Status::Pending, Some(one)) = (&status, self.approvals.get_mut(&number)) {
                one.count += 1;
                one.last_asked_at = now;
            }
            return Ok((Asked { id, status }, Vec::new()));
        }
        let pending = |sandbox: Option<Option<SandboxId>>| {
            let is_pending = |one: &&Approval| {
                one.status == ApprovalStatus::Pending
                    && sandbox.is_none_or(|sandbox| one.sandbox_id == sandbox)
            };
            self.approvals.values().filter(is_pending).count()
        };
        if pending(Some(sandbox)) >= APPROVALS_PENDING_OF_SANDBOX_MAX {
            return Err(AskRefusal::TooManyOfSandbox);
        }
        if pending(None) >= APPROVALS_PENDING_MAX {
            return Err(AskRefusal::TooMany);
        }
        let approval = Approval {
            id,
            sandbox_id: sandbox,
            asked_by,
            what,
            rule,
            name,
            status: ApprovalStatus::Pending,
            count: 1,
            asked_at: now,
            last_asked_at: now,
            pending_until: now.after(PENDING_FOR),
            decided: None,
        };
        let number = self.last + 1;
        let mut changes = vec![Change::Keep(number, Box::new(approval.clone()))];
        self.put(number, approval);
        changes.extend(self.forget_some(now));
        Ok((Asked { id, status: Status::Pending }, changes))
    }

    /// What an approval becomes by a decision; [`Book::put`] makes it so. `is_waited_for` says that
    /// somebody waits, who uses it at once if it is for once.
    ///
    /// # Errors
    /// [`DecideRefusal`].
    pub fn decided(
        &self,
        id: ApprovalId,
        verdict: &Verdict,
        by: &str,
        is_waited_for: bool,
        now: Timestamp,
    ) -> Result<(u64, Approval), DecideRefusal> {
        let (number, approval) = self.get(id).ok_or(DecideRefusal::NotFound { id })?;
        let is_pending = approval.status == ApprovalStatus::Pending && approval.pending_until > now;
        let is_taken_back = matches!(verdict, Verdict::Deny(_)) && stands(approval, now).is_some();
        if !is_pending && !is_taken_back {
            let status = match approval.status {
                ApprovalStatus::Pending => ApprovalStatus::Expired,
                other => other,
            };
            return Err(DecideRefusal::NotPending { id, status });
        }
        let mut approval = approval.clone();
        let (at, by) = (now, by.to_owned());
        match verdict {
            Verdict::Approve(GrantScope::Sandbox | GrantScope::Always, _)
                if matches!(approval.what, ApprovalWhat::Apply(_)) =>
            {
                return Err(DecideRefusal::OnlyOnce);
            }
            Verdict::Approve(scope, span) => {
                let grants = self.approvals.values().filter(|one| stands(one, now).is_some());
                if grants.count() >= GRANTS_COUNT_MAX {
                    return Err(DecideRefusal::TooManyGrants);
                }
                let span = span.or(match scope {
                    GrantScope::Once => Some(ONCE_FOR),
                    GrantScope::Sandbox => None,
                    GrantScope::Always => Some(ALWAYS_FOR),
                });
                approval.status = ApprovalStatus::Approved;
                approval.decided = Some(Decided {
                    at,
                    by,
                    scope: Some(*scope),
                    until: span.map(|span| now.after(span)),
                    reason: None,
                    is_used: *scope == GrantScope::Once && is_waited_for,
                });
            }
            Verdict::Deny(reason) => {
                approval.status = ApprovalStatus::Denied;
                let (scope, until) = (None, Some(now.after(DENIED_FOR)));
                let reason = reason.clone();
                approval.decided = Some(Decided { at, by, scope, until, reason, is_used: false });
            }
        }
        Ok((number, approval))
    }

    /// What else is pending that the same decision is about, if it is not for once.
    pub fn others(&self, decided: &Approval, now: Timestamp) -> Vec<ApprovalId> {
        let scope = decided.decided.as_ref().and_then(|decided| decided.scope);
        let is_it = |one: &Approval| {
            let is_its = scope == Some(GrantScope::Always) || one.sandbox_id == decided.sandbox_id;
            is_its && one.status == ApprovalStatus::Pending && one.pending_until > now
        };
        let others = self.about(&decided.rule, &decided.name).filter(|(_, one)| is_it(one));
        let is_for_all = scope != Some(GrantScope::Once);
        others.filter(|_| is_for_all).map(|(_, one)| one.id).collect()
    }

    /// Ends what nobody decided in time, and gives what that changed.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(u64, Approval)> {
        self.end(now, "time", |approval| {
            approval.status == ApprovalStatus::Pending && approval.pending_until <= now
        })
    }

    /// Ends everything of a sandbox that is gone.
    pub fn gone(&mut self, sandbox: SandboxId, now: Timestamp) -> Vec<(u64, Approval)> {
        self.end(now, "sandbox", |approval| {
            let is_its = approval.sandbox_id == Some(sandbox);
            let is_pending = approval.status == ApprovalStatus::Pending;
            let scope = stands(approval, now);
            is_its && (is_pending || scope.is_some_and(|scope| scope != GrantScope::Always))
        })
    }

    fn end(
        &mut self,
        now: Timestamp,
        by: &str,
        is_over: impl Fn(&Approval) -> bool,
    ) -> Vec<(u64, Approval)> {
        let over = self.approvals.iter_mut().filter(|(_, approval)| is_over(approval));
        let ended_ones = over.map(|(number, approval)| {
            approval.status = ApprovalStatus::Expired;
            approval.decided = Some(ended(by, now));
            (*number, approval.clone())
        });
        ended_ones.collect()
    }

    /// Uses something that was approved once, if it still can be.
    pub fn take(&mut self, id: ApprovalId, now: Timestamp) -> Option<Vec<Change>> {
        let (_, approval) = self.get(id)?;
        stands(approval, now).filter(|scope| *scope == GrantScope::Once)?;
        Some(self.using(id))
    }

    /// When something ends by itself next.
    pub fn next_due(&self) -> Option<Timestamp> {
        let pending = self.approvals.values().filter(|one| one.status == ApprovalStatus::Pending);
        pending.map(|one| one.pending_until).min()
    }

    /// Puts an approval in its place, whether it is there or not.
    pub fn put(&mut self, number: u64, approval: Approval) {
        self.last = self.last.max(number);
        if self.numbers.insert(approval.id, number).is_none() {
            let about = (approval.rule.clone(), approval.name.clone());
            self.about.entry(about).or_default().push(number);
        }
        self.approvals.insert(number, approval);
    }

    /// Forgets the oldest of those that mean nothing any more, if they are too many.
    pub fn forget_some(&mut self, now: Timestamp) -> Vec<Change> {
        let is_over = |one: &Approval| {
            one.status != ApprovalStatus::Pending && stands(one, now).is_none() && !holds(one, now)
        };
        let over = self.approvals.iter().filter(|(_, approval)| is_over(approval));
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let too_many = over.len().saturating_sub(HISTORY_MAX);
        let gone = over[..too_many].iter().filter_map(|number| {
            let approval = self.approvals.remove(number)?;
            self.numbers.remove(&approval.id);
            let about = (approval.rule, approval.name);
            let others = self.about.get_mut(&about)?;
            others.retain(|other| other != number);
            if others.is_empty() {
                self.about.remove(&about);
            }
            Some(Change::Forget(approval.id))
        });
        gone.collect()
    }

    fn about(&self, rule: &str, name: &str) -> impl Iterator<Item = (u64, &Approval)> {
        let numbers = self.about.get(&(rule.to_owned(), name.to_owned()));
        let numbers = numbers.map_or(&[][..], Vec::as_slice).iter().rev();
        numbers.filter_map(|number| Some((*number, self.approvals.get(number)?)))
    }

    fn using(&mut self, id: ApprovalId) -> Vec<Change> {
        let Some(number) = self.numbers.get(&id).copied() else { return Vec::new() };
        let Some(approval) = self.approvals.get_mut(&number) else { return Vec::new() };
        if let Some(decided) = &mut approval.decided {
            decided.is_used = true;
        }
        vec![Change::Keep(number, Box::new(approval.clone()))]
    }
}

fn ended(by: &str, at: Timestamp) -> Decided {
    let (scope, until, reason) = (None, None, None);
    Decided { at, by: by.to_owned(), scope, until, reason, is_used: false }
}

/// How far an approval reaches that can be used now.
fn stands(approval: &Approval, now: Timestamp) -> Option<GrantScope> {
    let decided =
        approval.decided.as_ref().filter(|_| approval.status == ApprovalStatus::Approved)?;
    let is_over = decided.is_used || decided.until.is_some_and(|until| until <= now);
    decided.scope.filter(|_| !is_over)
}

/// Whether a denial still holds.
fn holds(approval: &Approval, now: Timestamp) -> bool {
    let until = approval.decided.as_ref().and_then(|decided| decided.until);
    approval.status == ApprovalStatus::Denied && until.is_some_and(|until| until > now)
}
