//! TCP ports on a sandbox's loopback.

use super::{Inside, InsideError};
use crate::guest::{GuestError, PortStream};
use atoll_api::id::SandboxId;
use atoll_api::ports::Port;
use atoll_protocol::ports::Wait;
use atoll_protocol::problem::{Code, Problem};
use std::time::Duration;

/// Why there is no connection to a port.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing accepts connections there.
    #[error("nothing listens on port {port} of sandbox {id}")]
    Closed {
        /// The sandbox.
        id: SandboxId,
        /// The port.
        port: u16,
    },
    /// The guest is not there or does not answer: the sandbox has ended since it was
    /// looked at, or was paused.
    #[error("sandbox {id} does not answer")]
    Asleep {
        /// The sandbox.
        id: SandboxId,
        /// What was seen of it.
        source: GuestError,
    },
    /// It failed in another way.
    #[error(transparent)]
    Inside(#[from] InsideError),
}

impl Inside {
    /// Connects to a port, on 127.0.0.1 and then on ::1.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, port: u16) -> Result<PortStream, ConnectError> {
        let id = self.id;
        self.guest.connect(port).await.map_err(|error| match error {
            GuestError::Refused(Problem { code: Code::NotFound | Code::Failed, .. }) => {
                ConnectError::Closed { id, port }
            }
            source @ (GuestError::NotThere { .. }
            | GuestError::Lost { .. }
            | GuestError::TimedOut { .. }) => ConnectError::Asleep { id, source },
            source => self.failed(source).into(),
        })
    }

    /// The ports that something listens on, lowest first.
    ///
    /// # Errors
    /// See [`InsideError`].
    pub async fn ports(&self) -> Result<Vec<Port>, InsideError> {
        let listening = self.guest.ports().await.map_err(|error| self.failed(error))?;
        // A guest could say a port twice, in any order.
        let ports = listening.into_iter().map(|one| Port {
            port: one.port,
            is_listening: true,
            is_any_address: one.is_any_address,
            preview: None,
        });
        let mut ports: Vec<Port> = ports.filter(|one| one.port > 0).collect();
        ports.sort_by_key(|one| (one.port, !one.is_any_address));
        ports.dedup_by_key(|one| one.port);
        Ok(ports)
    }

    /// Waits until something listens on a port, and says whether it does.
    ///
    /// # Errors
    /// See [`InsideError`].
    pub async fn listens_within(&self, port: u16, time: Duration) -> Result<bool, InsideError> {
        let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match self.guest.wait_for_port(Wait { port, timeout_ms }).await {
            Ok(()) => Ok(true),
            Err(GuestError::Refused(Problem { code: Code::TimedOut, .. })) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }
}
