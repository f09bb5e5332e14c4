//! Our terminal, while it is that of a command elsewhere.

use crate::error::CliError;
use crate::supervise::signals::suspend;
use crate::supervise::{Guard, Terminal};
use atoll_api::exec::TerminalSize;
use rustix::process::Signal;
use std::os::fd::OwnedFd;

/// The size where nobody knows it.
const USUAL: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// Our terminal: raw from [`Screen::begin`] on, and as it was whenever this ends, by
/// whatever.
pub(crate) struct Screen {
    terminal: Terminal,
    guard: Option<Guard>,
}

impl Screen {
    /// Takes the terminal that standard input is. Must be called while the process has one
    /// thread.
    pub(crate) fn open() -> Result<Self, CliError> {
        let stdin = rustix::stdio::stdin();
        if !rustix::termios::isatty(stdin) {
            return Err(CliError::new("standard input is no terminal, and one is wanted")
                .hint("leave -t out; -i forwards standard input, whatever it is"));
        }
        let failed = |error| CliError::new("cannot use the terminal").because(error);
        let mut terminal = Terminal::open(stdin, true).map_err(failed)?;
        let guard = Guard::start(Some(&mut terminal), Vec::new())
            .map_err(|error| CliError::new("cannot guard the terminal").because(error))?;
        Ok(Self { terminal, guard })
    }

    pub(crate) fn size(&self) -> TerminalSize {
        let size = self.terminal.size();
        if size.ws_row == 0 || size.ws_col == 0 {
            return USUAL;
        }
        TerminalSize { rows: size.ws_row, columns: size.ws_col }
    }

    /// Hands every key through.
    pub(super) fn begin(&mut self) -> Result<(), CliError> {
        let entered = self.terminal.enter_raw();
        entered.map_err(|error| CliError::new("cannot use the terminal").because(error))
    }

    /// The terminal, to read keys from.
    pub(super) fn keys(&self) -> Result<OwnedFd, CliError> {
        let own = self.terminal.fd().try_clone_to_owned();
        own.map_err(|error| CliError::new("cannot use the terminal").because(error))
    }

    /// Stops this process until it is continued, with the terminal as it was meanwhile.
    pub(super) fn suspend(&mut self) -> Result<(), CliError> {
        self.terminal.leave_raw();
        suspend(Signal::STOP, false)
            .map_err(|error| CliError::new("cannot stop").because(error))?;
        self.begin()
    }

    /// Puts everything back.
    pub(super) fn end(mut self) {
        self.terminal.leave_raw();
        if let Some(guard) = self.guard {
            guard.finish();
        }
    }
}
