//! Budgets: what is used up stops, and does not start again before there is more.
//!
//! [`Ledger`] has what sandboxes drew on the budgets that they have together; the meter
//! ([`crate::usage`]) draws on it whatever it sees them use, and knows what each has used of its
//! own. Their owners ask it at every decision, so that a budget stops a sandbox by the same code as
//! any other time of its lifecycle, and whoever starts one is refused before anything happens.

mod ledger;

pub use ledger::{Drawn, Ledger, Rule, Spent};

use crate::engine::{Engine, Shared};
use crate::error::OperationError;
use crate::owner::Command;
use atoll_api::budget::{Budget, Budgets};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{Sandbox, State};
use std::sync::Arc;

impl Engine {
    /// Gives a sandbox another budget of its own; an empty one takes it away. What it has used
    /// counts on.
    ///
    /// # Errors
    /// If there is none of that id, if this host does not measure what the budget is about, or if
    /// it cannot be written.
    pub async fn set_budget(
        &self,
        id: SandboxId,
        budget: Budget,
    ) -> Result<Sandbox, OperationError> {
        let shared = self.shared();
        if let Some(capability) = shared.backend.capabilities().lacks_of(&budget) {
            let tier = shared.backend.tier();
            return Err(OperationError::Unsupported { id, tier, capability });
        }
        self.ask(id, |reply| Command::SetBudget { budget, reply }).await
    }

    /// The budgets that sandboxes have together, and what is left of them. Sandboxes that run were
    /// looked at within the last half minute.
    pub fn budgets(&self) -> Budgets {
        let shared = self.shared();
        Budgets { budgets: shared.meter.budgets() }
    }
}

/// Has sandboxes stopped whose budgets are used up, until it is dropped.
pub(crate) async fn keep(shared: Arc<Shared>) {
    loop {
        shared.meter.overdrawn().await;
        for handle in shared.directory().handles() {
            let uses = matches!(handle.view.borrow().state, State::Running | State::Paused);
            if uses && shared.meter.spent(handle.id).is_some() {
                // One that has no room for it is busy, and sees it when it decides next.
                handle.mailbox.try_send(Command::Overdrawn).ok();
            }
        }
    }
}
