//! What the maker of a sandbox reports, and how it is told to give up.

use super::BackendError;
use atoll_api::sandbox::{Stage, Timeline};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Tells who works that nobody waits any more, when it is dropped.
pub(crate) struct Waiting(pub(crate) Arc<Progress>);

impl Waiting {
    pub(crate) fn begin() -> Self {
        Self(Arc::new(Progress::new(Instant::now())))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Shared between a sandbox's owner and the thread that makes it.
#[derive(Debug)]
pub struct Progress {
    asked_at: Instant,
    timeline: Mutex<Timeline>,
    is_cancelled: watch::Sender<bool>,
}

impl Progress {
    /// For a request that came at `asked_at`.
    pub fn new(asked_at: Instant) -> Self {
        Self {
            asked_at,
            timeline: Mutex::new(Timeline::default()),
            is_cancelled: watch::Sender::new(false),
        }
    }

    /// Notes that a stage is over.
    ///
    /// # Errors
    /// [`BackendError::Cancelled`] if nobody wants the sandbox any more.
    pub fn reached(&self, stage: Stage) -> Result<(), BackendError> {
        let at_us = u64::try_from(self.asked_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).mark(stage, at_us);
        if self.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        Ok(())
    }

    /// Asks the maker to give up at the next stage.
    pub fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

    /// Whether the maker was asked to give up.
    pub fn is_cancelled(&self) -> bool {
        *self.is_cancelled.borrow()
    }

    /// Waits until the maker is asked to give up.
    pub(crate) async fn cancelled(&self) {
        let mut is_cancelled = self.is_cancelled.subscribe();
        // The sender is borrowed meanwhile.
        drop(is_cancelled.wait_for(|&is_cancelled| is_cancelled).await);
    }

    /// The stages that are over.
    pub fn timeline(&self) -> Timeline {
        *self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
