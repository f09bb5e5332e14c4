//! Approvals: asking, deciding, and waiting for a decision.
//!
//! [`book`] is the state machine. One task, the keeper, changes it, so that changes are written to
//! the records in their order; everybody else looks, asks the keeper, or follows what it tells.
//! A decision is written before it counts. What is pending is written too, so that it can be looked
//! up after a restart, but ends with the server: whoever held a connection for it is gone.

pub mod book;

pub use book::{AskRefusal, Asked, DecideRefusal, Question, Status, Verdict};

use crate::clock::wait_until;
use crate::oversight::Oversight;
use crate::records::{Records, RecordsError};
use atoll_api::approval::{Approval, ApprovalStatus, GrantScope};
use atoll_api::audit::AuditKind;
use atoll_api::id::{ApprovalId, ID_BYTES, SandboxId};
use book::{Book, Change};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{broadcast, mpsc, oneshot};

/// Requests that wait for the keeper.
const ORDERS: usize = 256;
/// Changes that a slow follower may be behind.
const BEHIND: usize = 1024;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It is not taken.
    #[error(transparent)]
    Refused(#[from] AskRefusal),
    /// It cannot be written that an approval is used up.
    #[error("could not record that an approval was used")]
    Records(#[source] RecordsError),
    /// The system gave no random bytes.
    #[error("could not get random bytes for an id")]
    Random(#[source] getrandom::Error),
    /// The server shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
}

/// Why something was not decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// It cannot be.
    #[error(transparent)]
    Refused(#[from] DecideRefusal),
    /// It cannot be written, so it was not done.
    #[error("could not record the decision")]
    Records(#[source] RecordsError),
    /// The server shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
}

/// How a wait for a decision ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It may happen.
    Approved(GrantScope),
    /// It was approved once, for somebody else who waited for the same: it has to be asked for anew.
    Taken,
    /// It may not, and why, if somebody said so.
    Denied(Option<String>),
    /// Nobody decided in time, or there is no such approval any more.
    Expired,
    /// The server shuts down.
    ShuttingDown,
}

/// What can be asked; clones are of the same.
#[derive(Debug, Clone)]
pub struct Approvals {
    book: Arc<Mutex<Book>>,
    orders: mpsc::Sender<Order>,
    told: broadcast::Sender<Arc<Approval>>,
    oversight: Arc<Oversight>,
}

#[derive(Debug)]
enum Order {
    Ask {
        question: Question,
        reply: oneshot::Sender<Result<Asked, AskError>>,
    },
    Wait {
        id: ApprovalId,
        reply: oneshot::Sender<Outcome>,
    },
    Decide {
        id: ApprovalId,
        verdict: Verdict,
        by: String,
        reply: oneshot::Sender<Result<Approval, DecideError>>,
    },
    Gone {
        sandbox: SandboxId,
    },
}

/// The one who changes the book.
pub(crate) struct Keeper {
    book: Arc<Mutex<Book>>,
    orders: mpsc::Receiver<Order>,
    told: broadcast::Sender<Arc<Approval>>,
    oversight: Arc<Oversight>,
    waiting: HashMap<ApprovalId, Vec<oneshot::Sender<Outcome>>>,
}

impl Approvals {
    /// The book that was written down, and its keeper, who has to be run.
    pub(crate) fn new(written: Vec<(u64, Approval)>, oversight: Arc<Oversight>) -> (Self, Keeper) {
        let (book, _) = Book::read(written, oversight.clock.now());
        let book = Arc::new(Mutex::new(book));
        let (sender, orders) = mpsc::channel(ORDERS);
        let told = broadcast::Sender::new(BEHIND);
        let keeper = Keeper {
            book: book.clone(),
            orders,
            told: told.clone(),
            oversight: oversight.clone(),
            waiting: HashMap::new(),
        };
        (Self { book, orders: sender, told, oversight }, keeper)
    }

    /// Asks whether something may happen. The same question of the same sandbox is one approval,
    /// however often it is asked.
    ///
    /// # Errors
    /// [`AskError`]; it may not happen then.
    pub async fn ask(&self, question: Question) -> Result<Asked, AskError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.orders.send(Order::Ask { question, reply }).await;
        sent.map_err(|_| AskError::ShuttingDown)?;
        answer.await.unwrap_or(Err(AskError::ShuttingDown))
    }

    /// Waits until an approval is decided. One that is approved once while somebody waits is theirs
    /// who waits longest, and [`Outcome::Taken`] for the others.
    pub async fn decided(&self, id: ApprovalId) -> Outcome {
        let (reply, answer) = oneshot::channel();
        match self.orders.send(Order::Wait { id, reply }).await {
            Ok(()) => answer.await.unwrap_or(Outcome::ShuttingDown),
            Err(_) => Outcome::ShuttingDown,
        }
    }

    /// The grant that lets something happen now without a question, if there is one. One for once
    /// is not among them: [`Approvals::ask`] uses it.
    pub fn matching_grant(
        &self,
        sandbox: Option<SandboxId>,
        rule: &str,
        name: &str,
    ) -> Option<(ApprovalId, GrantScope)> {
        let now = self.oversight.clock.now();
        lock(&self.book).grant(sandbox, (rule, name), None, now)
    }

    /// Decides an approval that is pending, or takes one back.
    ///
    /// # Errors
    /// [`DecideError`]; it is as it was then.
    pub async fn decide(
        &self,
        id: ApprovalId,
        verdict: Verdict,
        by: String,
    ) -> Result<Approval, DecideError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.orders.send(Order::Decide { id, verdict, by, reply }).await;
        sent.map_err(|_| DecideError::ShuttingDown)?;
        answer.await.unwrap_or(Err(DecideError::ShuttingDown))
    }

    /// One approval.
    pub fn get(&self, id: ApprovalId) -> Option<Approval> {
        lock(&self.book).get(id).map(|(_, approval)| approval.clone())
    }

    /// Up to `count` approvals behind a number, the oldest first, and the number to go on behind.
    pub fn list(
        &self,
        status: Option<ApprovalStatus>,
        sandbox: Option<SandboxId>,
        behind: u64,
        count: usize,
    ) -> (Vec<Approval>, Option<u64>) {
        let book = lock(&self.book);
        let mut wanted = book.behind(behind).filter(|(_, approval)| {
            status.is_none_or(|status| approval.status == status)
                && sandbox.is_none_or(|id| approval.sandbox_id == Some(id))
        });
        let page: Vec<(u64, &Approval)> = wanted.by_ref().take(count).collect();
        let next = page.last().map(|(number, _)| *number).filter(|_| wanted.next().is_some());
        (page.into_iter().map(|(_, approval)| approval.clone()).collect(), next)
    }

    /// Every approval as it changes, from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Approval>> {
        self.told.subscribe()
    }

    /// A sandbox is gone, and what it asked for with it.
    pub(crate) async fn gone(&self, sandbox: SandboxId) {
        // Without a keeper everything is over.
        self.orders.send(Order::Gone { sandbox }).await.unwrap_or_default();
    }
}

impl Keeper {
    /// Keeps the book until nobody can ask any more, or is dropped.
    pub(crate) async fn run(mut self, records: &Records) {
        let clock = self.oversight.clock.clone();
        self.start(records).await;
        loop {
            let due = lock(&self.book).next_due();
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(order, records).await,
                    None => return,
                },
                () = wait_until(&*clock, due) => {
                    let ended = lock(&self.book).expire(clock.now());
                    self.ended(ended, records).await;
                }
            }
        }
    }

    /// Writes down that what was pending ended with the server before.
    async fn start(&mut self, records: &Records) {
        let now = self.oversight.clock.now();
        let mut changes: Vec<Change> = {
            let book = lock(&self.book);
            let is_ended =
                |one: &Approval| one.decided.as_ref().is_some_and(|decided| decided.by == "server");
            let ended = book.behind(0).filter(|(_, one)| is_ended(one));
            ended.map(|(number, one)| Change::Keep(number, Box::new(one.clone()))).collect()
        };
        changes.extend(lock(&self.book).forget_some(now));
        save(records, changes).await.unwrap_or_default();
    }

    async fn carry_out(&mut self, order: Order, records: &Records) {
        // Whoever asked may have gone; what is done is done.
        match order {
            Order::Ask { question, reply } => drop(reply.send(self.ask(question, records).await)),
            Order::Wait { id, reply } => self.wait(id, reply, records).await,
            Order::Decide { id, verdict, by, reply } => {
                drop(reply.send(self.decide_all(id, &verdict, &by, records).await));
            }
            Order::Gone { sandbox } => {
                let now = self.oversight.clock.now();
                let ended = lock(&self.book).gone(sandbox, now);
                self.ended(ended, records).await;
            }
        }
    }

    async fn ask(&mut self, question: Question, records: &Records) -> Result<Asked, AskError> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(AskError::Random)?;
        let (id, now) = (ApprovalId::from_random(bytes), self.oversight.clock.now());
        let (asked, changes) = lock(&self.book).ask(question, id, now)?;
        let is_new = asked.id == id;
        let saved = save(records, changes).await;
        if matches!(asked.status, Status::Approved(_)) {
            // Else it could be used once more after a restart.
            saved.map_err(AskError::Records)?;
        }
        if is_new && let Some(approval) = self.get(id) {
            let Approval { rule, name, .. } = approval.clone();
            let what = AuditKind::ApprovalCreated { approval_id: id, rule, name };
            self.oversight.tell(approval.sandbox_id, what);
            self.tell(approval);
        }
        Ok(asked)
    }

    async fn wait(&mut self, id: ApprovalId, reply: oneshot::Sender<Outcome>, records: &Records) {
        let outcome = self.get(id).map_or(Some(Outcome::Expired), |approval| outcome(&approval));
        match outcome {
            // It was decided before the wait began, and is theirs who come first.
            Some(Outcome::Approved(GrantScope::Once)) => {
                let changes = lock(&self.book).take(id, self.oversight.clock.now());
                let is_theirs = match changes {
                    Some(changes) => save(records, changes).await.is_ok(),
                    None => false,
                };
                let outcome = Outcome::Approved(GrantScope::Once);
                drop(reply.send(if is_theirs { outcome } else { Outcome::Taken }));
            }
            Some(outcome) => drop(reply.send(outcome)),
            None => {
                let waiting = self.waiting.entry(id).or_default();
                waiting.retain(|other| !other.is_closed());
                waiting.push(reply);
            }
        }
    }

    /// Decides an approval, and what else is pending that the decision holds for.
    async fn decide_all(
        &mut self,
        id: ApprovalId,
        verdict: &Verdict,
        by: &str,
        records: &Records,
    ) -> Result<Approval, DecideError> {
        let decided = self.decide(id, verdict, by, records).await?;
        let others = lock(&self.book).others(&decided, self.oversight.clock.now());
        for other in others {
            // One that cannot be decided stays pending, and somebody sees it.
            drop(self.decide(other, verdict, by, records).await);
        }
        Ok(decided)
    }

    async fn decide(
        &mut self,
        id: ApprovalId,
        verdict: &Verdict,
        by: &str,
        records: &Records,
    ) -> Result<Approval, DecideError> {
        let now = self.oversight.clock.now();
        let waiting = self.waiting.get(&id);
        let is_waited_for =
            waiting.is_some_and(|waiting| waiting.iter().any(|one| !one.is_closed()));
        let (number, approval) = lock(&self.book).decided(id, verdict, by, is_waited_for, now)?;
        let change = Change::Keep(number, Box::new(approval.clone()));
        save(records, vec![change]).await.map_err(DecideError::Records)?;
        lock(&self.book).put(number, approval.clone());
        let decided = approval.decided.clone();
        self.oversight.tell(
            approval.sandbox_id,
            AuditKind::ApprovalDecided {
                approval_id: id,
                status: approval.status,
                scope: decided.as_ref().and_then(|decided| decided.scope),
                until: decided.as_ref().and_then(|decided| decided.until),
                reason: decided.and_then(|decided| decided.reason),
                by: by.to_owned(),
            },
        );
        self.tell(approval.clone());
        Ok(approval)
    }

    /// Tells what ended by itself.
    async fn ended(&mut self, ended: Vec<(u64, Approval)>, records: &Records) {
        let keep = |(number, one): &(u64, Approval)| Change::Keep(*number, Box::new(one.clone()));
        let mut changes: Vec<Change> = ended.iter().map(keep).collect();
        changes.extend(lock(&self.book).forget_some(self.oversight.clock.now()));
        // What cannot be written ends anew with the next server.
        save(records, changes).await.unwrap_or_default();
        for (_, approval) in ended {
            let what = AuditKind::ApprovalExpired { approval_id: approval.id };
            self.oversight.tell(approval.sandbox_id, what);
            self.tell(approval);
        }
    }

    fn tell(&mut self, approval: Approval) {
        if let Some(outcome) = outcome(&approval) {
            let is_once = outcome == Outcome::Approved(GrantScope::Once);
            let mut is_taken = false;
            for reply in self.waiting.remove(&approval.id).unwrap_or_default() {
                let outcome = if is_taken { Outcome::Taken } else { outcome.clone() };
                // Who has gone takes nothing.
                is_taken |= reply.send(outcome).is_ok() && is_once;
            }
        }
        // Nobody has to follow.
        drop(self.told.send(Arc::new(approval)));
    }

    fn get(&self, id: ApprovalId) -> Option<Approval> {
        lock(&self.book).get(id).map(|(_, approval)| approval.clone())
    }
}

async fn save(records: &Records, changes: Vec<Change>) -> Result<(), RecordsError> {
    if changes.is_empty() {
        return Ok(());
    }
    let saved = records.save_approvals(changes).await;
    if let Err(error) = &saved {
        tracing::error!(cause = crate::error::chain(error), "an approval could not be recorded");
    }
    saved
}

fn outcome(approval: &Approval) -> Option<Outcome> {
    let decided = approval.decided.as_ref();
    match approval.status {
        ApprovalStatus::Pending => None,
        ApprovalStatus::Approved => {
            let scope = decided.and_then(|decided| decided.scope);
            Some(Outcome::Approved(scope.unwrap_or(GrantScope::Once)))
        }
        ApprovalStatus::Denied => {
            Some(Outcome::Denied(decided.and_then(|decided| decided.reason.clone())))
        }
        ApprovalStatus::Expired => Some(Outcome::Expired),
    }
}

/// What is behind the lock is whole after every step.
fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
