//! Between the user's terminal and the command's.

use super::asking::{Answered, Asking};
use super::control::Place;
use super::pump::{Pump, Read, Write};
use super::terminal::{Setup, Terminal, same};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The two terminals, and the bytes on their way.
pub(super) struct Relay {
    pub(super) terminal: Terminal,
    /// The master side of the command's terminal; gone when it has ended, or when
    /// the user's has: then the command's is hung up by closing it.
    pub(super) master: Option<OwnedFd>,
    connected: bool,
    /// From the user's terminal to the command's.
    pub(super) input: Pump,
    /// From the command's terminal to the user's.
    pub(super) output: Pump,
    /// The modes that the command's terminal was last given from ours.
    given: Option<Termios>,
    place: Place,
    /// The command has been in front: after a stop it goes there again.
    front_wanted: bool,
    hung_up: bool,
    input_denied: bool,
    /// Somebody is asked something on the user's terminal.
    pub(super) asking: Asking,
}

impl Relay {
    pub(super) fn new(terminal: Terminal) -> Self {
        let Setup { termios: given, place, .. } = terminal.setup();
        let front_wanted = terminal.is_alone();
        Self {
            terminal,
            master: None,
            connected: false,
            input: Pump::new(),
            output: Pump::new(),
            given,
            place,
            front_wanted,
            hung_up: false,
            input_denied: false,
            asking: Asking::No,
        }
    }

    /// Takes the command's terminal, which is made before the command starts.
    pub(super) fn connect(&mut self, master: OwnedFd) {
        // The master is ours alone, so this mode is seen by nobody else.
        rustix::io::ioctl_fionbio(&master, true).ok();
        self.connected = true;
        if self.hung_up {
            return;
        }
        self.master = Some(master);
        self.take_over_size();
        if self.place == Place::Front && self.terminal.is_foreground() {
            // Failing means a hang-up, which is told by other means.
            self.enter_raw().ok();
        }
    }

    /// Makes our terminal raw, and hands the modes that it had on to the command's
    /// if the command has not set its own. They may have changed: at the start of
    /// a background job they are those of the shell's line editor.
    fn enter_raw(&mut self) -> io::Result<()> {
        self.terminal.enter_raw()?;
        let (Some(master), Some(given), Some(saved)) =
            (&self.master, &self.given, self.terminal.saved())
        else {
            return Ok(());
        };
        if !same(given, saved) && same(given, &rustix::termios::tcgetattr(master)?) {
            rustix::termios::tcsetattr(master, OptionalActions::Now, saved)?;
            self.given = Some(saved.clone());
        }
        Ok(())
    }

    /// Somebody may sit at the user's terminal, and we may read what is typed there.
    pub(super) fn can_ask(&self) -> bool {
        self.connected && !self.hung_up && !self.input_denied && self.terminal.is_foreground()
    }

    pub(super) fn is_in_front(&self) -> bool {
        self.place == Place::Front
    }

    /// The command thinks that it is in front and the launcher is not.
    pub(super) fn has_lost_the_front(&self) -> bool {
        self.is_in_front() && !self.hung_up && !self.input_denied && !self.terminal.is_foreground()
    }

    /// All that will ever come has been written.
    pub(super) fn is_done(&self) -> bool {
        self.hung_up || !self.connected || self.output.is_done()
    }

    /// Nothing waits to be written to the user's terminal.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// What to wait for on the user's terminal; a hang-up is always told.
    pub(super) fn terminal_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        if self.hung_up {
            return None;
        }
        let mut flags = PollFlags::empty();
        if matches!(self.asking, Asking::Stands(_)) || self.reads_keys() {
            flags |= PollFlags::IN;
        }
        if !self.output.is_empty() {
            flags |= PollFlags::OUT;
        }
        Some((self.terminal.fd(), flags))
    }

    pub(super) fn master_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let master = self.master.as_ref()?;
        let mut flags = PollFlags::empty();
        if self.output.wants_read() && !self.is_asking() {
            flags |= PollFlags::IN;
        }
        if !self.input.is_empty() {
            flags |= PollFlags::OUT;
        }
        // Once its end has been seen it would only wake us.
        (!flags.is_empty()).then(|| (master.as_fd(), flags))
    }

    /// Keys are read only in raw modes: before, they are for the shell or for
    /// others in the pipeline, or make signals.
    pub(super) fn reads_keys(&self) -> bool {
        self.is_in_front()
            && !matches!(self.asking, Asking::Stands(_))
            && self.terminal.is_raw()
            && self.master.is_some()
            && !self.input_denied
            && self.input.wants_read()
    }

    /// Gives the answer to a question, if this is one.
    pub(super) fn serve_terminal(&mut self, flags: PollFlags) -> Option<Answered> {
        if flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            self.hang_up();
            return None;
        }
        let mut answer = None;
        if flags.contains(PollFlags::IN) {
            answer = self.read_answer();
        }
        if flags.contains(PollFlags::IN) && self.reads_keys() {
            match self.input.read(self.terminal.fd()) {
                Read::Some => self.write_input(),
                // Somebody else took the keys, or made a line end of them.
                Read::Nothing | Read::Zero => {}
                // In the background, reads fail too; the caller finds that out.
                Read::Failed(Errno::IO) if !self.terminal.is_foreground() => {}
                Read::Failed(_) => self.hang_up(),
            }
        }
        if flags.contains(PollFlags::OUT) {
            self.write_output();
        }
        answer
    }

    /// Says whether the command has written something.
    pub(super) fn serve_master(&mut self, flags: PollFlags) -> bool {
        if flags.contains(PollFlags::OUT) {
            self.write_input();
        }
        if flags.contains(PollFlags::HUP) {
            // Nobody is left to read; there may still be something to be read.
            self.input.abandon();
        }
        let got = self.read_output();
        self.write_output();
        got
    }

    fn read_output(&mut self) -> bool {
        let Some(master) =
            self.master.as_ref().filter(|_| !matches!(self.asking, Asking::Stands(_)))
        else {
            return false;
        };
        match self.output.read(master) {
            Read::Some => {
                if self.terminal.line_ends_are_doubled(master.as_fd()) {
                    self.output.undo_line_ends();
                }
                true
            }
            Read::Nothing => false,
            // EIO: nobody has the other side open any more (pty(7)).
            Read::Zero | Read::Failed(_) => {
                self.output.finish();
                self.input.abandon();
                false
            }
        }
    }

    pub(super) fn write_output(&mut self) {
        if self.output.is_empty() || !self.terminal.takes_output() {
            return;
        }
        if let Write::Failed(_) = self.output.write(self.terminal.fd(), self.terminal.write_limit())
        {
            self.hang_up();
        }
    }

    pub(super) fn write_input(&mut self) {
        let Some(master) = &self.master else { return };
        if let Write::Failed(_) = self.input.write(master, usize::MAX) {
            self.input.abandon();
        }
    }

    /// The user's terminal is gone, and so the command's is.
    pub(super) fn hang_up(&mut self) {
        self.hung_up = true;
        self.asking = Asking::No;
        self.master = None;
        self.input.abandon();
        self.output.abandon();
    }

    /// Gives the command's terminal the size of the user's; says whether the
    /// command's group is in front, where the kernel tells it.
    pub(super) fn take_over_size(&mut self) -> bool {
        if let Some(master) = &self.master {
            let size = self.terminal.size();
            rustix::termios::tcsetwinsize(master, size).ok();
        }
        self.is_in_front()
    }

    /// Writes out what the command wrote before it stopped.
    pub(super) fn flush(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let until = Instant::now() + PATIENCE;
        while !self.hung_up && Instant::now() < until {
            if self.output.is_empty() && !self.read_output() {
                break;
            }
            self.write_output();
            if !self.output.is_empty() {
                let mut fds = [PollFd::from_borrowed_fd(self.terminal.fd(), PollFlags::OUT)];
                let rest = until.saturating_duration_since(Instant::now());
                let rest = Timespec::try_from(rest).unwrap_or_default();
                poll(&mut fds, Some(&rest)).ok();
            }
        }
    }

    /// Takes the user's terminal for a command behind, if it can be had.
    pub(super) fn take_front(&mut self) -> bool {
        if self.is_in_front() || self.hung_up || !self.terminal.is_foreground() {
            return false;
        }
        if self.enter_raw().is_err() {
            return false;
        }
        self.front_wanted = true;
        self.place = Place::Front;
        self.take_over_size();
        true
    }

    /// Leaves the user's terminal as it was.
    pub(super) fn step_back(&mut self) {
        self.stop_asking();
        self.terminal.leave_raw();
    }

    /// Where the command belongs after a stop.
    pub(super) fn find_place(&mut self) -> Place {
        self.stop_asking();
        let front = self.front_wanted && !self.hung_up && self.terminal.is_foreground();
        if front && self.connected {
            self.enter_raw().ok();
        } else if !front {
            self.terminal.leave_raw();
        }
        self.input_denied = false;
        self.place = if front { Place::Front } else { Place::Behind };
        self.take_over_size();
        self.place
    }

    /// Has the command read an end of file, since keys will never come.
    pub(super) fn deny_input(&mut self) {
        self.input_denied = true;
        self.place = Place::Front;
        let Some(master) = &self.master else { return };
        if let Ok(modes) = rustix::termios::tcgetattr(master) {
            self.input.push(&[modes.special_codes[SpecialCodeIndex::VEOF]]);
        }
        self.write_input();
    }

    /// The end: the user's terminal gets its modes back.
    pub(super) fn close(&mut self) {
        self.step_back();
        self.master = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_testkit::pty::pair;

    fn raw(terminal: &OwnedFd) {
        let mut modes = rustix::termios::tcgetattr(terminal).unwrap();
        modes.make_raw();
        rustix::termios::tcsetattr(terminal, OptionalActions::Now, &modes).unwrap();
    }

    #[test]
    fn a_terminal_that_takes_no_more_is_not_waited_for() {
        // Nobody can open a master anew, so it stays a file that makes its writer wait.
        let (user, screen) = pair().unwrap();
        raw(&screen);
        rustix::io::ioctl_fionbio(&user, true).unwrap();
        // The kernel moves what was written on, so there is room again for a while.
        let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        while poll(&mut [PollFd::new(&user, PollFlags::OUT)], Some(&moment)).unwrap() > 0 {
            while rustix::io::write(&user, &[0; 100]).is_ok() {}
        }
        rustix::io::ioctl_fionbio(&user, false).unwrap();
        let mut relay = Relay::new(Terminal::open(user.as_fd(), false).unwrap());
        let (master, command) = pair().unwrap();
        raw(&command);
        rustix::io::write(&command, b"word").unwrap();
        poll(&mut [PollFd::new(&master, PollFlags::IN)], None).unwrap();
        relay.connect(master);
        let (say, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let got = relay.serve_master(PollFlags::IN);
            say.send((got, relay.is_flushed()))
        });
        // What is read is kept until there is room for it.
        assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok((true, false)));
    }
}
