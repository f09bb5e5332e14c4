//! What ends a server: a signal, and at once a second one.

use crate::error::CliError;
use crate::signals::{Taken, Watch};
use rustix::process::Signal;

/// What ends a server.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// The signals, which from now on do nothing but wait to be read.
pub(super) struct Signals(Taken);

impl Signals {
    /// Must be called before the process has a second thread.
    pub(super) fn take() -> Result<Self, CliError> {
        Taken::take(&ENDING).map(Self).map_err(failed)
    }

    /// Inside of a runtime.
    pub(super) fn watch(self) -> Result<Watch, CliError> {
        self.0.watch().map_err(failed)
    }
}

fn failed(error: std::io::Error) -> CliError {
    CliError::new("cannot wait for signals").because(error)
}
