//! Ports that can be reached from outside.

use super::Owner;
use crate::error::OperationError;
use crate::exposure::{self, Exposure, Exposures, Wanted};
use crate::records::Fate;
use atoll_api::sandbox::EventKind;
use std::sync::Arc;

impl Owner {
    pub(super) async fn expose(&mut self, wanted: Wanted) -> Result<Exposure, OperationError> {
        let id = self.record.id;
        let after = exposure::with(&self.record.exposures, &wanted, self.shared.clock.now())
            .ok_or(OperationError::TooManyExposures { id })?;
        let exposure = after[&wanted.port].clone();
        let (port, visibility) = (wanted.port, wanted.visibility);
        self.set_exposures(after, EventKind::Exposed { port, visibility }).await?;
        Ok(exposure)
    }

    pub(super) async fn unexpose(&mut self, port: u16) -> Result<(), OperationError> {
        let mut after = self.record.exposures.clone();
        if after.remove(&port).is_none() {
            return Ok(());
        }
        self.set_exposures(after, EventKind::Unexposed { port }).await
    }

    async fn set_exposures(
        &mut self,
        after: Exposures,
        what: EventKind,
    ) -> Result<(), OperationError> {
        if after == self.record.exposures {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.record.exposures, after);
        if let Err(source) = self.write(what, Fate::Keep).await {
            self.record.exposures = before;
            return Err(OperationError::Records { id: self.record.id, source });
        }
        self.exposures.send_replace(Arc::new(self.record.exposures.clone()));
        Ok(())
    }
}
