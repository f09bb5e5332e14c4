//! Following an exec over more than one connection.

use super::Guest;
use super::error::{Cut, GuestError, Known};
use super::exec::{Followed, Output, OutputStream};
use atoll_protocol::exec::{Follow, Stream};

/// Connections that may end in a row without having brought anything.
const VAIN_MAX: u32 = 3;

/// Output of an exec that goes on where it was if a connection ends, as long as the
/// guest is there.
#[derive(Debug)]
pub struct FollowOn {
    guest: Guest,
    id: String,
    pid: i32,
    output: OutputStream,
    vain: u32,
}

impl Guest {
    /// Follows on what has begun with [`Guest::start`] or [`Guest::follow`].
    ///
    /// An exec that is killed when its connection ends is not there to be followed on.
    #[must_use]
    pub fn follow_on(&self, followed: Followed) -> FollowOn {
        let Followed { status, output, .. } = followed;
        FollowOn { guest: self.clone(), id: status.id, pid: status.pid, output, vain: 0 }
    }
}

impl FollowOn {
    /// Waits for what comes next, as [`OutputStream::next`].
    ///
    /// # Errors
    ///
    /// [`GuestError::Lost`] if the guest is gone, or knows nothing of the exec any
    /// more; else as [`OutputStream::next`].
    pub async fn next(&mut self) -> Result<Option<Output>, GuestError> {
        loop {
            match self.output.next().await {
                Err(GuestError::Lost { cut: Cut::Ended, .. }) if self.vain < VAIN_MAX => {
                    self.vain += 1;
                    self.connect().await?;
                }
                Ok(next) => {
                    self.vain = 0;
                    return Ok(next);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&mut self) -> Result<(), GuestError> {
        let follow = Follow {
            id: self.id.clone(),
            stdout: self.output.offset(Stream::Stdout),
            stderr: self.output.offset(Stream::Stderr),
            is_snapshot: false,
        };
        match self.guest.follow(follow).await {
            Ok(followed) if followed.status.pid == self.pid => {
                self.output = followed.output;
                Ok(())
            }
            Ok(_) => Err(GuestError::malformed("another exec has the same id now")),
            Err(
                GuestError::NotThere { .. }
                | GuestError::Connect { .. }
                | GuestError::Busy { .. }
                | GuestError::Refused(_),
            ) => Err(GuestError::Lost { known: Known::Answered, cut: Cut::Ended }),
            // That nothing was asked on this connection says nothing of the exec, which
            // had begun.
            Err(GuestError::Lost { cut, .. }) => {
                Err(GuestError::Lost { known: Known::Answered, cut })
            }
            Err(GuestError::TimedOut { after, .. }) => {
                Err(GuestError::TimedOut { known: Known::Answered, after })
            }
            Err(error) => Err(error),
        }
    }
}
