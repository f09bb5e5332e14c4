//! Calls that are held until somebody lets them go on.

use crate::backend::BackendError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Holds calls at one moment until it is opened.
#[derive(Debug)]
pub struct Gate {
    is_open: Mutex<Option<Opening>>,
    opened: Condvar,
    arrivals: watch::Sender<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Opening {
    GoOn,
    /// The server that called is gone: nothing that it was about to do happens.
    CallerIsGone,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self { is_open: Mutex::new(None), opened: Condvar::new(), arrivals: watch::Sender::new(0) }
    }

    /// Waits until `count` calls have come here.
    pub async fn reached(&self, count: usize) {
        let mut arrivals = self.arrivals.subscribe();
        arrivals.wait_for(|&arrived| arrived >= count).await.expect("the gate is borrowed");
    }

    /// Lets every call go on, those that are held and later ones.
    pub fn open(&self) {
        self.set(Opening::GoOn);
    }

    /// Ends the calls that are held as the death of their caller would.
    pub fn caller_is_gone(&self) {
        self.set(Opening::CallerIsGone);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opening>> {
        self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, opening: Opening) {
        *self.lock() = Some(opening);
        self.opened.notify_all();
    }

    pub(super) fn pass(&self) -> Result<(), BackendError> {
        self.arrivals.send_modify(|arrived| *arrived += 1);
        let is_open = self.opened.wait_while(self.lock(), |opening| opening.is_none());
        match *is_open.unwrap_or_else(PoisonError::into_inner) {
            Some(Opening::CallerIsGone) => Err(BackendError::Cancelled),
            Some(Opening::GoOn) | None => Ok(()),
        }
    }
}
