//! The gateway of the server's sandboxes: one process, which is told of each while that runs.
//!
//! `keeper` is the task that starts it, tells it everything and hears what it tells; `remembered`
//! is what a sandbox may reach, and `kept` the names that have addresses in it; `rules` says
//! it in the gateway's words.

mod keeper;
mod kept;
mod remembered;
mod rules;

pub(crate) use keeper::Keeper;
pub use keeper::Program;
pub(crate) use kept::Kept;
pub use remembered::{PrepareError, Remembered};

use crate::backend::BackendError;
use atoll_api::id::SandboxId;
use atoll_egress::control::{Addition, Decision, Rules};
use atoll_sys::capture::Listeners;
use tokio::sync::{mpsc, oneshot};

/// What can be asked of it; clones are of the same.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    wishes: mpsc::UnboundedSender<Wish>,
}

/// Why a sandbox has no network.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GatewayError {
    /// The gateway does not take its rules, or its sockets.
    #[error("the gateway does not serve it: {0}")]
    Refused(String),
    /// There is none any more.
    #[error("the server shuts down")]
    Gone,
}

/// Why the way out of a sandbox is closed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its sockets cannot be had.
    #[error("the sockets of its network cannot be had")]
    Listeners(#[source] BackendError),
    /// There are none.
    #[error("nothing of its network comes out")]
    NotCaptured,
    /// The gateway does not serve it.
    #[error(transparent)]
    Gateway(GatewayError),
}

#[derive(Debug)]
enum Wish {
    Serve {
        id: SandboxId,
        addition: Box<Addition>,
        listeners: Listeners,
        reply: oneshot::Sender<Result<(), GatewayError>>,
    },
    Change {
        id: SandboxId,
        rules: Box<Rules>,
        reply: oneshot::Sender<Result<(), GatewayError>>,
    },
    Leave {
        id: SandboxId,
    },
    Count {
        id: SandboxId,
        reply: oneshot::Sender<()>,
    },
    Decide {
        number: u64,
        question: u64,
        decision: Decision,
    },
}

impl Gateway {
    /// Has it serve a sandbox, whose connections wait until then.
    pub(crate) async fn serve(
        &self,
        id: SandboxId,
        addition: Box<Addition>,
        listeners: Listeners,
    ) -> Result<(), GatewayError> {
        self.ask(|reply| Wish::Serve { id, addition, listeners, reply }).await
    }

    /// Has other rules hold for a sandbox, at once. Where this fails it reaches nothing.
    pub(crate) async fn change(&self, id: SandboxId, rules: Rules) -> Result<(), GatewayError> {
        self.ask(|reply| Wish::Change { id, rules: Box::new(rules), reply }).await
    }

    /// Has it serve a sandbox no more.
    pub(crate) fn leave(&self, id: SandboxId) {
        // Without a keeper nobody is served.
        self.wishes.send(Wish::Leave { id }).ok();
    }

    /// Has it tell what a sandbox has used until now. One that is not served has used no more.
    pub(crate) async fn count(&self, id: SandboxId) {
        let (reply, answer) = oneshot::channel();
        self.wishes.send(Wish::Count { id, reply }).ok();
        answer.await.unwrap_or_default();
    }

    async fn ask(
        &self,
        wish: impl FnOnce(oneshot::Sender<Result<(), GatewayError>>) -> Wish,
    ) -> Result<(), GatewayError> {
        let (reply, answer) = oneshot::channel();
        self.wishes.send(wish(reply)).map_err(|_| GatewayError::Gone)?;
        answer.await.unwrap_or(Err(GatewayError::Gone))
    }
}
