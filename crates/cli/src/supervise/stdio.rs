//! Which descriptors the command gets as its stdin, stdout and stderr.
//!
//! The command never holds a descriptor of a terminal of the user's: with one it
//! could push keystrokes into the user's shell (`TIOCSTI`, and `TIOCLINUX` on a
//! console), whatever direction the descriptor was opened for. Everything that is
//! not a terminal it gets as it is, so that bytes, end of file, `SIGPIPE` and
//! back-pressure are the kernel's.
//!
//! *The* terminal is that of the first of stdin, stdout and stderr that is one.
//! If there is one, the command has a terminal of its own, made inside the jail,
//! as its controlling terminal (so `/dev/tty` works), and the launcher relays.
//!
//! | each of the three is        | the command gets                             |
//! |-----------------------------|----------------------------------------------|
//! | not a terminal              | the very same open file                      |
//! | the terminal                | its own terminal                             |
//! | another terminal, for output| a pipe that the launcher copies there        |
//! | another terminal, as stdin  | cannot be: stdin is looked at first          |
//!
//! | stdin | stdout | example                       | the user's terminal                 |
//! |-------|--------|-------------------------------|-------------------------------------|
//! | tty   | tty    | `atoll run -- vim`            | *alone*: raw from the start         |
//! | tty   | other  | `atoll run -- ls \| less`      | *shared*: raw only when asked for   |
//! | other | tty    | `ls \| atoll run -- less`      | *shared*                            |
//! | other | other, stderr a tty | `… 2>/dev/tty`   | *shared*                            |
//! | other | other, none is one  | an agent's tool  | no terminal for the command at all  |
//!
//! *Shared* means that other members of a pipeline may use the terminal at the
//! same time, so reading keys ahead or changing modes would break those. The
//! command then starts behind, as a background job of its own terminal. When it
//! reads keys or changes modes the kernel stops it, PID 1 tells, and the launcher
//! (if it is in the foreground itself) takes the user's terminal and brings the
//! command to the front. The same is done when the launcher is started in the
//! background (`atoll run … &`): then the launcher stops like the plain command
//! would, and the shell says so.

use super::terminal::{Setup, Terminal};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What one standard descriptor of the command is.
#[derive(Debug)]
pub enum Stream {
    /// The launcher's own.
    Inherit,
    /// The slave side of the jail's terminal.
    Terminal,
    /// This end of a pipe. Close it in the launcher once PID 1 has it.
    Pipe(OwnedFd),
}

/// An output of the command on a terminal that is not *the* terminal.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
}

/// The command's standard descriptors, and what the launcher needs to serve them.
#[derive(Debug)]
pub struct Stdio {
    /// For stdin, stdout and stderr.
    pub streams: [Stream; 3],
    pub(super) terminal: Option<Terminal>,
    pub(super) foreign: Vec<Foreign>,
}

/// What a descriptor is on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Other,
    Terminal { device: u64 },
}

/// What the command gets for a descriptor; [`Stream`] before anything is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Inherit,
    Terminal,
    Pipe,
}

impl Stdio {
    /// Looks at the launcher's own standard descriptors.
    ///
    /// # Errors
    ///
    /// When descriptors run out, or a terminal cannot be asked for its modes.
    pub fn of_this_process() -> io::Result<Self> {
        Self::of([rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()])
    }

    /// Looks at what would be stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// As for [`Stdio::of_this_process`].
    pub fn of(fds: [BorrowedFd<'_>; 3]) -> io::Result<Self> {
        let kinds = [kind(fds[0])?, kind(fds[1])?, kind(fds[2])?];
        let (choices, main, alone) = choose(kinds);
        let terminal = main.map(|index| Terminal::open(fds[index], alone)).transpose()?;
        let mut foreign = Vec::new();
        let mut streams = [Stream::Inherit, Stream::Inherit, Stream::Inherit];
        for (index, choice) in choices.into_iter().enumerate() {
            streams[index] = match choice {
                Choice::Inherit => Stream::Inherit,
                Choice::Terminal => Stream::Terminal,
                Choice::Pipe => {
                    let (from, end) = pipe_with(PipeFlags::CLOEXEC)?;
                    rustix::io::ioctl_fionbio(&from, true)?;
                    foreign.push(Foreign { from, to: super::terminal::reopen(fds[index])?.0 });
                    Stream::Pipe(end)
                }
            };
        }
        Ok(Self { streams, terminal, foreign })
    }

    /// What PID 1 needs to make the terminal; `None` when there is to be none.
    #[must_use]
    pub fn setup(&self) -> Option<Setup> {
        self.terminal.as_ref().map(Terminal::setup)
    }

    /// The user's terminal, for [`super::Guard::start`].
    #[must_use]
    pub fn terminal_mut(&mut self) -> Option<&mut Terminal> {
        self.terminal.as_mut()
    }

    /// Whether somebody can be asked on *the* terminal: what is said is seen there, and what is
    /// typed there was meant for this.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        let [stdin, _, stderr] = &self.streams;
        matches!((stdin, stderr), (Stream::Terminal, Stream::Terminal))
    }

    /// Closes the ends of pipes that PID 1 has by now. Without this their readers
    /// would never see the end.
    pub fn close_given(&mut self) {
        for stream in &mut self.streams {
            if matches!(stream, Stream::Pipe(_)) {
                *stream = Stream::Inherit;
            }
        }
    }
}

/// The choices, the index of the descriptor that is *the* terminal, and whether
/// that is ours alone.
fn choose(kinds: [Kind; 3]) -> ([Choice; 3], Option<usize>, bool) {
    let main = kinds.iter().position(|kind| *kind != Kind::Other);
    let Some(index) = main else { return ([Choice::Inherit; 3], None, false) };
    let choices = kinds.map(|kind| match kind {
        Kind::Other => Choice::Inherit,
        _ if kind == kinds[index] => Choice::Terminal,
        Kind::Terminal { .. } => Choice::Pipe,
    });
    let alone = choices[0] == Choice::Terminal && choices[1] == Choice::Terminal;
    (choices, main, alone)
}

/// A terminal is what answers like one. One that has been hung up (`EIO`) is
/// still one: opened again by `/proc/self/fd`, it could be somebody's new login.
///
/// Source: isatty(3), vhangup(2).
fn kind(fd: impl AsFd) -> io::Result<Kind> {
    match rustix::termios::tcgetattr(&fd) {
        Ok(_) | Err(Errno::IO) => match atoll_sys::tty::device(fd.as_fd()) {
            Ok(device) => Ok(Kind::Terminal { device: device.into() }),
            Err(_) => Ok(Kind::Terminal { device: rustix::fs::fstat(&fd)?.st_rdev }),
        },
        Err(_) => Ok(Kind::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Kind = Kind::Terminal { device: 1 };
    const B: Kind = Kind::Terminal { device: 2 };
    const O: Kind = Kind::Other;

    #[test]
    fn every_mixture_has_its_choice() {
        use Choice::{Inherit, Pipe, Terminal};
        let cases = [
            ([O, O, O], [Inherit, Inherit, Inherit], None, false),
            ([A, A, A], [Terminal, Terminal, Terminal], Some(0), true),
            ([A, A, O], [Terminal, Terminal, Inherit], Some(0), true),
            ([A, O, A], [Terminal, Inherit, Terminal], Some(0), false),
            ([A, O, O], [Terminal, Inherit, Inherit], Some(0), false),
            ([O, A, A], [Inherit, Terminal, Terminal], Some(1), false),
            ([O, A, O], [Inherit, Terminal, Inherit], Some(1), false),
            ([O, O, A], [Inherit, Inherit, Terminal], Some(2), false),
            ([A, B, A], [Terminal, Pipe, Terminal], Some(0), false),
            ([A, A, B], [Terminal, Terminal, Pipe], Some(0), true),
            ([O, A, B], [Inherit, Terminal, Pipe], Some(1), false),
        ];
        for (kinds, choices, main, alone) in cases {
            assert_eq!(choose(kinds), (choices, main, alone), "{kinds:?}");
        }
    }

    #[test]
    fn a_master_and_a_slave_are_terminals_and_a_file_is_none() {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
        assert!(matches!(kind(&master).unwrap(), Kind::Terminal { .. }));
        assert!(matches!(kind(&slave).unwrap(), Kind::Terminal { .. }));
        drop(master);
        // Hung up: every call but fstat fails on it now.
        assert!(matches!(kind(&slave).unwrap(), Kind::Terminal { .. }));
        assert_eq!(kind(std::fs::File::open("/dev/null").unwrap()).unwrap(), Kind::Other);
    }
}
