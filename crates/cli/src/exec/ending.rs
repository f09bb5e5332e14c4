//! With what a command that ran elsewhere ends this program.

use crate::error::{CliError, EXIT_OURS};
use crate::remote::Remote;
use crate::status::Status;
use crate::supervise::{End, Outcome};
use atoll_api::exec::{EndCause, Ended, Exec};
use atoll_client::ClientError;

/// Exit status of a command that was ended by a signal, less the signal.
const EXIT_SIGNAL: u8 = 128;
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// How it is over.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The command has ended.
    Ended(Box<Exec>),
    /// The command goes on without us.
    Left,
    /// A signal ended us first.
    Signalled(u8),
}

impl Ending {
    /// What a command that ended so would give here.
    pub(crate) fn code(ended: Option<&Ended>) -> u8 {
        outcome(ended).exit_status(EXIT_OURS)
    }

    /// The exit status. Where Ctrl-C ended the command it ends us too, and this does not
    /// return.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Left => Status::SUCCESS,
            Self::Signalled(signal) => Status::from(EXIT_SIGNAL.saturating_add(*signal)),
            Self::Ended(exec) => {
                let outcome = outcome(exec.ended.as_ref());
                outcome.pass_interrupt_on();
                Status::from(outcome.exit_status(EXIT_OURS))
            }
        }
    }
}

fn outcome(ended: Option<&Ended>) -> Outcome {
    let timed_out = ended.is_some_and(|ended| ended.cause == Some(EndCause::TimedOut));
    let end = match ended {
        Some(Ended { exit_code: Some(code), .. }) => End::Exited(*code),
        Some(Ended { signal: Some(signal), .. }) => End::Signaled(*signal),
        Some(_) | None => End::Failed,
    };
    Outcome { end, timed_out }
}

/// A command that could not be run, as a shell has it; else a failure of ours.
pub(crate) fn refused(remote: &Remote, error: ClientError) -> CliError {
    let reason = match &error {
        ClientError::Api(error) => error.details.reason.as_deref(),
        _ => None,
    };
    let exit = match reason {
        Some("program_not_found") => EXIT_NOT_FOUND,
        Some("program_not_executable") => EXIT_NOT_EXECUTABLE,
        _ => EXIT_OURS,
    };
    remote.failed(error).exit_with(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_as_those_of_a_command_here() {
        let ended = |exit_code, signal, cause| {
            let ended =
                Ended { exit_code, signal, cause, duration_us: 0, cpu_us: 0, max_rss_kib: 0 };
            outcome(Some(&ended)).exit_status(EXIT_OURS)
        };
        assert_eq!(ended(Some(7), None, None), 7);
        assert_eq!(ended(None, Some(9), None), 137);
        assert_eq!(ended(None, Some(15), Some(EndCause::TimedOut)), 124);
        assert_eq!(ended(Some(0), None, Some(EndCause::TimedOut)), 124);
        assert_eq!(ended(None, Some(15), Some(EndCause::Cancelled)), 143);
        assert_eq!(outcome(None).exit_status(EXIT_OURS), 125);
    }
}
