//! The user's terminal: raw while the command is in front, and exactly as it was
//! at every other time.
//!
//! Reads and writes must not wait, or a stopped terminal would keep the launcher
//! from its signals and its clock. `O_NONBLOCK` belongs to the open file, which
//! the user's shell shares, so it is not set on the inherited descriptor: the
//! terminal is opened anew. Where that is refused (a terminal of another user
//! that is not our controlling one) `VMIN` 0 makes reads return at once, and
//! writes are small and follow poll(2).

use super::control::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, Winsize,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// What PID 1 needs to make the command's terminal like the user's.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Modes for the new terminal; `None` when the user's is gone already.
    pub termios: Option<Termios>,
    pub size: Winsize,
    /// Whether the command's group is to be the foreground group from the start.
    pub place: Place,
}

/// The user's terminal.
#[derive(Debug)]
pub struct Terminal {
    fd: OwnedFd,
    /// `fd` is an open file of our own, with `O_NONBLOCK`.
    own_file: bool,
    /// Nobody else of our pipeline uses it.
    alone: bool,
    /// It is our controlling terminal, so job control applies.
    controlling: bool,
    saved: Option<Termios>,
    raw: Option<Termios>,
    guard: Option<OwnedFd>,
    /// Where the command starts.
    place: Place,
}

/// What the launcher tells its guard about the terminal.
pub(super) const NOTE_RAW: u8 = b'R';
pub(super) const NOTE_RESTORED: u8 = b'C';

impl Terminal {
    pub(crate) fn open(fd: BorrowedFd<'_>, alone: bool) -> io::Result<Self> {
        let (fd, own_file) = reopen(fd)?;
        let controlling = atoll_sys::tty::is_controlling(fd.as_fd());
        let saved = rustix::termios::tcgetattr(&fd).ok();
        let (raw, guard, place) = (None, None, Place::Behind);
        let mut terminal = Self { fd, own_file, alone, controlling, saved, raw, guard, place };
        // Decided once: PID 1 has to agree, and cannot ask from its pid namespace.
        if alone && terminal.saved.is_some() && terminal.is_foreground() {
            terminal.place = Place::Front;
        }
        Ok(terminal)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How much to write at once so that the launcher does not have to wait.
    pub(super) fn write_limit(&self) -> usize {
        const WITHOUT_NONBLOCK: usize = 256;
        if self.own_file { usize::MAX } else { WITHOUT_NONBLOCK }
    }

    /// Says whether a piece of [`Terminal::write_limit`] can be written without waiting.
    pub(super) fn takes_output(&self) -> bool {
        self.own_file || takes_output(self.fd.as_fd())
    }

    pub(super) fn saved(&self) -> Option<&Termios> {
        self.saved.as_ref()
    }

    pub(super) fn tell(&mut self, guard: OwnedFd) {
        self.guard = Some(guard);
    }

    /// What PID 1 needs to make the command's terminal.
    #[must_use]
    pub fn setup(&self) -> Setup {
        Setup { termios: self.saved.clone(), size: self.size(), place: self.place }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(super) fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    pub(crate) fn size(&self) -> Winsize {
        const UNKNOWN: Winsize = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcgetwinsize(&self.fd).unwrap_or(UNKNOWN)
    }

    /// Says whether our process group may read the terminal and change it.
    ///
    /// One that is not our controlling terminal does not know job control.
    pub(super) fn is_foreground(&self) -> bool {
        !self.controlling || atoll_sys::tty::is_foreground(self.fd.as_fd())
    }

    /// Hands every key through as it is. Call it only in the foreground.
    pub(crate) fn enter_raw(&mut self) -> io::Result<()> {
        let now = rustix::termios::tcgetattr(&self.fd)?;
        // A shell that we were stopped under may have left our own modes behind.
        if !self.raw.as_ref().is_some_and(|raw| same_input(raw, &now)) {
            self.saved = Some(now);
        }
        let Some(saved) = &self.saved else { return Ok(()) };
        let raw = self.raw_form(saved);
        self.note(NOTE_RAW);
        rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, &raw)?;
        self.raw = Some(raw);
        Ok(())
    }

    /// The raw modes that go with the saved ones.
    pub(super) fn raw_form(&self, saved: &Termios) -> Termios {
        let mut raw = saved.clone();
        raw.make_raw();
        raw.special_codes[SpecialCodeIndex::VMIN] = u8::from(self.own_file);
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        if !self.alone {
            // The others in the pipeline go on writing lines.
            raw.output_modes = saved.output_modes;
        }
        raw
    }

    /// Puts the modes back that were found by [`Terminal::enter_raw`].
    ///
    /// In the background nothing is changed: whoever is in front has set its own.
    pub(crate) fn leave_raw(&mut self) {
        if self.raw.take().is_none() {
            return;
        }
        if self.is_foreground()
            && let Some(saved) = &self.saved
        {
            // A terminal that is gone needs no modes.
            rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, saved).ok();
        }
        self.note(NOTE_RESTORED);
    }

    /// Says whether the line ends that the command's terminal wrote as CR LF will
    /// be written as CR LF again by ours, and makes ours follow the command's
    /// output modes when it is in front of a shared terminal.
    pub(super) fn line_ends_are_doubled(&mut self, theirs: BorrowedFd<'_>) -> bool {
        const ENDS: OutputModes = OutputModes::OPOST.union(OutputModes::ONLCR);
        if self.alone && self.raw.is_some() {
            return false;
        }
        let Ok(inner) = rustix::termios::tcgetattr(theirs) else { return false };
        if let Some(raw) = &mut self.raw
            && raw.output_modes != inner.output_modes
        {
            raw.output_modes = inner.output_modes;
            rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, raw).ok();
        }
        inner.output_modes.contains(ENDS)
            && rustix::termios::tcgetattr(&self.fd)
                .is_ok_and(|outer| outer.output_modes.contains(ENDS))
    }

    fn note(&self, note: u8) {
        if let Some(guard) = &self.guard {
            // Without a guard left there is nobody to tell.
            rustix::io::write(guard, &[note]).ok();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave_raw();
    }
}

/// Says whether poll(2) gives leave to write.
pub(super) fn takes_output(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Says whether two sets of modes are the same but for the output.
pub(super) fn same_input(one: &Termios, other: &Termios) -> bool {
    let local = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    let input = InputModes::ICRNL | InputModes::IXON | InputModes::BRKINT | InputModes::ISTRIP;
    one.local_modes & local == other.local_modes & local
        && one.input_modes & input == other.input_modes & input
        && one.special_codes[SpecialCodeIndex::VMIN] == other.special_codes[SpecialCodeIndex::VMIN]
}

/// Says whether two sets of modes are the same.
pub(super) fn same(one: &Termios, other: &Termios) -> bool {
    // The control characters can be compared only by what is printed of them.
    format!("{one:?}") == format!("{other:?}")
}

/// Opens the terminal anew with `O_NONBLOCK`, or duplicates the descriptor where
/// that cannot be done; says whether the result is a file of our own.
pub(super) fn reopen(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, bool)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = if atoll_sys::tty::is_controlling(fd) {
        "/dev/tty".to_owned()
    } else {
        format!("/proc/self/fd/{}", fd.as_raw_fd())
    };
    // Opening a master anew makes another pair, so the result is compared; that
    // the name is the same does not say it either: it may have been hung up.
    if let Ok(wanted) = atoll_sys::tty::device(fd)
        && let Ok(own) = rustix::fs::open(path, flags, Mode::empty())
        && atoll_sys::tty::device(own.as_fd()).is_ok_and(|device| device == wanted)
    {
        return Ok((own, true));
    }
    Ok((rustix::io::fcntl_dupfd_cloexec(fd, 3)?, false))
}
