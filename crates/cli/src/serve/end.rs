//! What ends a server: a signal, and at once a second one.

use crate::error::CliError;
use atoll_sys::process::{SignalSet, read_signal, set_signal_mask, signal_descriptor};
use atoll_sys::signals::is_ignored;
use rustix::process::Signal;
use std::os::fd::{AsFd as _, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What ends a server. One that was ignored at the start, as by nohup(1), stays so.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// The signals, which from now on do nothing but wait to be read.
pub(super) struct Signals(OwnedFd);

impl Signals {
    /// Must be called before the process has a second thread.
    pub(super) fn take() -> Result<Self, CliError> {
        let failed = |error| CliError::new("cannot wait for signals").because(error);
        let wanted = ENDING.into_iter().map(Signal::as_raw);
        let wanted: Vec<i32> = wanted.filter(|signal| !is_ignored(*signal)).collect();
        let set = SignalSet::of(&wanted);
        set_signal_mask(set).map_err(failed)?;
        Ok(Self(signal_descriptor(set).map_err(failed)?))
    }

    /// Inside of a runtime.
    pub(super) fn watch(self) -> Result<Watch, CliError> {
        #[expect(deprecated, reason = "an OwnedFd is open and the same as long as it is owned")]
        let watched = AsyncFd::with_interest(self.0, Interest::READABLE);
        watched.map(Watch).map_err(|error| CliError::new("cannot wait for signals").because(error))
    }
}

/// The signals, inside of a runtime.
pub(super) struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Waits for the next one, and gives its number. Dropping it loses none.
    pub(super) async fn next(&self) -> u8 {
        loop {
            let Ok(mut ready) = self.0.readable().await else {
                // The runtime ends.
                return std::future::pending().await;
            };
            match read_signal(ready.get_inner().as_fd()) {
                Ok(Some(received)) => return u8::try_from(received.signal).unwrap_or_default(),
                Ok(None) | Err(_) => ready.clear_ready(),
            }
        }
    }
}
