//! Ports that can be reached from outside.

use super::Engine;
use crate::error::OperationError;
use crate::exposure::{Exposure, Exposures, Wanted};
use crate::owner::Command;
use atoll_api::id::SandboxId;
use atoll_api::ports::{PREVIEW_TOKEN_BYTES, PreviewToken, Visibility};
use atoll_api::sandbox::State;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Lets a port be reached from outside, for as long as `lasts`. One that is exposed to
    /// the same already keeps its token.
    ///
    /// # Errors
    /// For more ports than may be, and as for every operation.
    pub async fn expose(
        &self,
        id: SandboxId,
        port: u16,
        visibility: Visibility,
        lasts: Option<Duration>,
    ) -> Result<Exposure, OperationError> {
        let mut token = [0; PREVIEW_TOKEN_BYTES];
        getrandom::fill(&mut token).map_err(|source| OperationError::Random { id, source })?;
        let token = PreviewToken::from_random(token);
        let expires_at = lasts.map(|lasts| self.shared.clock.now().after(lasts));
        let wanted = Wanted { port, visibility, expires_at, token };
        self.ask(id, |reply| Command::Expose { wanted, reply }).await
    }

    /// Takes that back: on return nothing new gets to the port. One that is not exposed is
    /// no mistake.
    ///
    /// # Errors
    /// It is as it was then.
    pub async fn unexpose(&self, id: SandboxId, port: u16) -> Result<(), OperationError> {
        self.ask(id, |reply| Command::Unexpose { port, reply }).await
    }

    /// The ports that can be reached now.
    ///
    /// # Errors
    /// If there is no such sandbox.
    pub fn exposures(&self, id: SandboxId) -> Result<Exposures, OperationError> {
        let mut exposures = Exposures::clone(&*self.all_exposures(id)?);
        let now = self.shared.clock.now();
        exposures.retain(|_, exposure| exposure.holds_at(now));
        Ok(exposures)
    }

    /// One of them.
    pub fn exposure(&self, id: SandboxId, port: u16) -> Option<Exposure> {
        let exposure = self.all_exposures(id).ok()?.get(&port).cloned()?;
        exposure.holds_at(self.shared.clock.now()).then_some(exposure)
    }

    fn all_exposures(&self, id: SandboxId) -> Result<Arc<Exposures>, OperationError> {
        let handle = self.handle(id)?;
        if handle.view.borrow().state == State::Deleted {
            return Err(OperationError::NotFound { id });
        }
        Ok(handle.exposures.borrow().clone())
    }
}
