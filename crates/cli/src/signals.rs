//! Signals that a command waits for, beside other things.

use atoll_sys::process::{SignalSet, read_signal, set_signal_mask, signal_descriptor};
use atoll_sys::signals::is_ignored;
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Signals that from now on do nothing but wait to be read.
pub(crate) struct Taken(OwnedFd);

impl Taken {
    /// Takes these. One that was ignored at the start, as by nohup(1), stays so. Must be
    /// called before the process has a second thread.
    pub(crate) fn take(wanted: &[Signal]) -> io::Result<Self> {
        let wanted = wanted.iter().map(|signal| signal.as_raw());
        let wanted: Vec<i32> = wanted.filter(|signal| !is_ignored(*signal)).collect();
        let set = SignalSet::of(&wanted);
        set_signal_mask(set)?;
        Ok(Self(signal_descriptor(set)?))
    }

    /// Inside of a runtime.
    pub(crate) fn watch(self) -> io::Result<Watch> {
        #[expect(deprecated, reason = "an OwnedFd is open and the same as long as it is owned")]
        let watched = AsyncFd::with_interest(self.0, Interest::READABLE);
        watched.map(Watch)
    }
}

/// The signals, inside of a runtime.
pub(crate) struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Waits for the next one, and gives its number. Dropping it loses none.
    pub(crate) async fn next(&self) -> u8 {
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
