//! A sandbox that runs, and what can be asked for in it.
//!
//! Questions and answers are the API's; what the guest is told and says is made of
//! them here, and in the room beside it, [`crate::guest`], every byte of it is doubted.

mod error;
pub mod exec;
mod files;
mod gate;
mod git;
mod health;
mod ports;
mod translate;
mod wait;
mod watch;

pub use error::InsideError;
pub use files::Download;
use gate::Gate;
pub use gate::Refused;
pub(crate) use git::check_clone;
pub use ports::ConnectError;
pub(crate) use translate::to_guest as path_to_guest;
pub(crate) use wait::check_pattern;
pub use watch::{Sight, Watch};

use crate::engine::Engine;
use crate::error::OperationError;
use crate::guest::{Guest, GuestError};
use crate::lifecycle::HoldId;
use crate::oversight::Oversight;
use crate::owner::{Command, Reply};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{HoldCause, Sandbox, State};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, WeakSender};
use tokio::sync::{oneshot, watch as latest};

/// What to do with a sandbox that does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Start or resume it: something is to happen in it.
    IfAsleep,
    /// Leave it: only a look was wanted.
    Never,
}

/// A sandbox that ran a moment ago. Clones are of the same one.
#[derive(Debug, Clone)]
pub struct Inside {
    id: SandboxId,
    guest: Guest,
    view: latest::Receiver<Sandbox>,
    /// Weak, so that an engine can shut down while streams go on.
    owner: WeakSender<Command>,
    hold_max: Duration,
    oversight: Arc<Oversight>,
    /// What a command has to pass that is not its owner's.
    gate: Option<Gate>,
}

impl Engine {
    /// Gives access to what is inside a sandbox that runs, or is made to run first.
    ///
    /// # Errors
    /// [`OperationError::NotRunning`] where it does not run and is not to be woken; where
    /// it is, those of [`Engine::resume`].
    pub async fn inside(&self, id: SandboxId, wake: Wake) -> Result<Inside, OperationError> {
        if let Some(inside) = self.look_inside(id)? {
            return Ok(inside);
        }
        // Whatever is under way comes first, and then it runs already or is resumed.
        let state = match wake {
            Wake::IfAsleep => self.resume(id).await?.state,
            Wake::Never => self.get(id)?.state,
        };
        // It may have ended again already.
        self.look_inside(id)?.ok_or(OperationError::NotRunning { id, state })
    }

    /// The same if it runs now.
    fn look_inside(&self, id: SandboxId) -> Result<Option<Inside>, OperationError> {
        let handle = self.handle(id)?;
        if handle.view.borrow().state != State::Running {
            return Ok(None);
        }
        let guest = handle.guest.borrow().clone();
        Ok(guest.map(|guest| Inside {
            id,
            guest,
            view: handle.view.clone(),
            owner: handle.mailbox.downgrade(),
            hold_max: self.config().hold_max,
            oversight: self.shared().oversight.clone(),
            gate: Some(Gate {
                approvals: self.approvals().clone(),
                hold: self.config().approval_hold,
            }),
        }))
    }
}

impl Inside {
    /// As its owner uses it, which needs no holds and hears of none.
    pub(crate) fn of_owner(
        id: SandboxId,
        guest: Guest,
        view: latest::Receiver<Sandbox>,
        hold_max: Duration,
        oversight: Arc<Oversight>,
    ) -> Self {
        let owner = mpsc::channel(1).0.downgrade();
        Self { id, guest, view, owner, hold_max, oversight, gate: None }
    }

    /// Which sandbox.
    pub fn id(&self) -> SandboxId {
        self.id
    }

    /// Its guest.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// What the guest could not do.
    fn failed(&self, source: GuestError) -> InsideError {
        InsideError::Guest { id: self.id, source }
    }

    /// Notes that something worked in it just now, so that it was not idle.
    pub fn worked(&self) {
        if let Some(owner) = self.owner.upgrade() {
            // Where so much waits for its owner that this has no room, it is not idle.
            owner.try_send(Command::Worked).unwrap_or_default();
        }
    }

    /// Holds it awake until what is given is dropped, for as long as a hold may be.
    ///
    /// # Errors
    /// As for [`Engine::hold`].
    pub async fn hold(&self, cause: HoldCause) -> Result<Held, OperationError> {
        let id = self.id;
        let (reply, answer) = oneshot::channel();
        let command = Command::Hold { cause, bound: self.hold_max, reply: Reply(reply) };
        let owner = self.owner.upgrade().ok_or(OperationError::NotFound { id })?;
        owner.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => OperationError::Busy { id },
            TrySendError::Closed(_) => OperationError::NotFound { id },
        })?;
        drop(owner);
        let hold = answer.await.unwrap_or(Err(OperationError::NotFound { id }))?;
        Ok(Held { owner: self.owner.clone(), hold })
    }
}

/// A hold on a sandbox, which ends when this is dropped.
#[derive(Debug)]
pub struct Held {
    owner: WeakSender<Command>,
    hold: HoldId,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(owner) = self.owner.upgrade() else { return };
        let Err(TrySendError::Full(command)) = owner.try_send(Command::Release { hold: self.hold })
        else {
            return;
        };
        // Without a runtime nothing runs any more that could be held.
        if let Ok(runtime) = runtime::Handle::try_current() {
            runtime.spawn(async move { owner.send(command).await });
        }
    }
}
