//! What the launcher and the jail's PID 1 say to each other.

use super::dialog::{Answer, Question};
use atoll_sys::signals::{die_by, is_ignored};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

const INTERRUPT: i32 = rustix::process::Signal::INT.as_raw();

/// Exit status after a timeout.
const EXIT_TIMED_OUT: u8 = 124;

/// Where the command's process group stands on its own terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is the foreground group: it may read, and keys that mean a signal
    /// reach it.
    Front,
    /// PID 1's own group is in the foreground, so that the kernel stops the
    /// command (`SIGTTIN`, `SIGTTOU`) when it wants the terminal.
    Behind,
}

/// Somebody else whom the launcher listens to while the command runs.
pub trait Companion {
    /// Readable when there is something to be heard; none when there never will be again.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// Hears one thing, and does what is to be done about it. Must not wait.
    fn serve(&mut self);

    /// What the user is to be asked now, the same until it is answered or needs no answer.
    fn question(&self) -> Option<&Question>;

    /// Takes the answer to the question of that number.
    fn answer(&mut self, number: u64, answer: Answer);
}

/// The launcher's side of the control socket.
///
/// PID 1's duties behind it:
///
/// - With a terminal, PID 1 *itself* leads the session and has the slave as its
///   controlling terminal; the command gets a process group of its own there.
///   (A command that led the session would be an orphaned process group: the
///   kernel throws `SIGTSTP`, `SIGTTIN` and `SIGTTOU` away for those, so it
///   could never be stopped from the keyboard.) Without one, PID 1 also leads
///   the session and the command has its own group in it, for the same reason.
/// - It keeps the slave open until it ends, so that the end of the relay is the
///   end of the jail and not a command that closes its descriptors for a while.
/// - It waits for the command with `WUNTRACED` and tells when it has stopped.
/// - It reads the socket all the time, also while the command is stopped.
/// - When the socket is closed, the launcher is dead: it ends at once.
/// - The order is: [`Message::Terminal`] if there is one, [`Message::Started`]
///   after a successful exec, any number of [`Message::Stopped`], one of
///   [`Message::Exited`] and [`Message::Failed`]; then it exits.
pub trait Control {
    /// Readable when [`Control::next_message`] has something.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Readable when PID 1 has ended. Nothing here reaps it.
    fn pidfd(&self) -> BorrowedFd<'_>;

    /// Takes one message without waiting for it.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` is passed over, since messages may follow it; any other error
    /// is as good as a closed socket.
    fn next_message(&mut self) -> io::Result<Received>;

    /// Sends a signal to the command's process group. Called also before
    /// [`Message::Started`]: then PID 1 reads it after the exec.
    ///
    /// # Errors
    ///
    /// PID 1 is gone; that is found out by other means too.
    fn forward(&mut self, signal: i32) -> io::Result<()>;

    /// Gives the command's group its place on the terminal (`tcsetpgrp`; nothing
    /// without a terminal), then sends it `SIGCONT`. Called also for a command
    /// that runs: a plain command would get that `SIGCONT` too.
    ///
    /// `Behind` takes the foreground for PID 1's own group, remembering which
    /// group had it; `Front` gives it back to that one, or to the command's.
    ///
    /// # Errors
    ///
    /// As for [`Control::forward`].
    fn resume(&mut self, place: Place) -> io::Result<()>;

    /// Ends PID 1, and with it everything in the jail, now.
    ///
    /// # Errors
    ///
    /// When it is gone already.
    fn kill_all(&mut self) -> io::Result<()>;
}

/// What [`Control::next_message`] found.
#[derive(Debug)]
pub enum Received {
    Message(Message),
    /// Nothing is there now.
    Nothing,
    /// Nothing will ever come again.
    Closed,
}

/// What PID 1 has to say about the command.
#[derive(Debug)]
pub enum Message {
    /// The master side of the jail's terminal.
    Terminal(OwnedFd),
    /// The command's program runs.
    Started,
    /// The command has been stopped by this signal.
    Stopped(i32),
    Exited(u8),
    /// The command was ended by this signal.
    Signaled(i32),
    /// There was no command to run; whoever implements [`Control`] knows why.
    Failed,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    /// The time limit came first and ended it.
    pub timed_out: bool,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(u8),
    Signaled(i32),
    Failed,
    /// Nobody knows: PID 1 ended without saying.
    Lost(Lost),
}

/// What is known about a PID 1 that ended without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// It exited with this status.
    Exited(u8),
    /// This signal ended it; `SIGKILL` when memory ran out or somebody killed it.
    Killed(i32),
    /// It could not be asked, or would not end.
    Unknown,
}

impl Outcome {
    /// The exit status for it, where `ours` stands for a failure of our own.
    #[must_use]
    pub fn exit_status(self, ours: u8) -> u8 {
        match self.end {
            _ if self.timed_out => EXIT_TIMED_OUT,
            End::Exited(status) => status,
            End::Signaled(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
            End::Failed | End::Lost(_) => ours,
        }
    }

    /// Ends the launcher by `SIGINT` if that is what ended the command.
    ///
    /// A shell leaves its loop when a command dies of Ctrl-C, not when one exits
    /// with status 130; on a raw terminal it learns of the key by nothing else.
    /// Call it last, when everything is cleaned up and reported.
    pub fn pass_interrupt_on(self) {
        if self.end == End::Signaled(INTERRUPT) && !self.timed_out && !is_ignored(INTERRUPT) {
            die_by(INTERRUPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses() {
        let status = |end, timed_out| Outcome { end, timed_out }.exit_status(125);
        assert_eq!(status(End::Exited(7), false), 7);
        assert_eq!(status(End::Signaled(15), false), 143);
        assert_eq!(status(End::Signaled(9), true), 124);
        assert_eq!(status(End::Lost(Lost::Killed(9)), false), 125);
        assert_eq!(status(End::Failed, false), 125);
    }
}
