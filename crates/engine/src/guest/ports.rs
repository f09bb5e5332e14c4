//! TCP ports on the sandbox's own loopback.

use super::Guest;
use super::connection::Connection;
use super::error::GuestError;
use super::hearing::Answers;
use super::port_stream::PortStream;
use atoll_protocol::ports::{Connect, Listening, Wait};
use atoll_protocol::request::{Reply, Request};
use std::sync::Arc;
use std::time::Duration;

impl Guest {
    /// Connects to a port inside.
    ///
    /// # Errors
    ///
    /// [`GuestError`]; `Malformed` where what the guest hands over is anything but a
    /// connection to that port on loopback.
    pub async fn connect(&self, port: u16) -> Result<PortStream, GuestError> {
        let settings = &self.shared.settings;
        let place = Arc::clone(&self.shared.ports)
            .try_acquire_owned()
            .map_err(|_| GuestError::Busy { connections_max: settings.ports_max })?;
        let request = Request::Connect(Connect { port });
        let answers = Answers::WithDescriptor;
        let (mut connection, reply) =
            Connection::ask(&self.shared, &request, answers, settings.answer).await?;
        match (reply, connection.hearing.take_descriptor()) {
            (Reply::Connected, Some(socket)) => PortStream::new(socket, port, place),
            (Reply::Connected, None) => Err(GuestError::malformed("it handed no socket over")),
            _ => Err(GuestError::malformed("it answers something else")),
        }
    }

    /// Waits until something listens on a port.
    ///
    /// # Errors
    ///
    /// [`GuestError`]; `Refused` with the code `timed_out` where nothing does in time.
    pub async fn wait_for_port(&self, wait: Wait) -> Result<(), GuestError> {
        let time = Duration::from_millis(wait.timeout_ms);
        self.done(&Request::WaitForPort(wait), time).await
    }

    /// The ports that something listens on.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn ports(&self) -> Result<Vec<Listening>, GuestError> {
        let patience = self.shared.settings.answer;
        self.once(&Request::Ports, Answers::Long, patience, |reply| match reply {
            // There are no more ports than that.
            Reply::Ports(ports) if ports.len() <= usize::from(u16::MAX) => Some(ports),
            _ => None,
        })
        .await
    }
}
