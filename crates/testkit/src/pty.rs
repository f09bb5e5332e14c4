//! A program on a terminal of its own, and somebody at the keyboard.

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Termios, Winsize};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long any one wait may take; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a program that leads its session.
#[derive(Debug)]
pub struct Pty {
    master: Option<OwnedFd>,
    slave: Option<OwnedFd>,
    child: Child,
    first_modes: Termios,
    screen: Vec<u8>,
    /// Up to here [`Pty::expect`] has looked.
    seen: usize,
}

impl Pty {
    /// Starts `command` as the leader of a session on a new terminal of 24 rows
    /// and 80 columns, which is its stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// When there is no pty to be had or the program cannot be started.
    pub fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        atoll_sys::tty::lead_session(command);
        Self::start(command, None)
    }

    /// As [`Pty::spawn`], with another stderr.
    ///
    /// # Errors
    ///
    /// As for [`Pty::spawn`].
    pub fn spawn_with_stderr(command: &mut Command, stderr: OwnedFd) -> anyhow::Result<Self> {
        atoll_sys::tty::lead_session(command);
        Self::start(command, Some(stderr))
    }

    /// As [`Pty::spawn`], but the program stays in our session, where the new
    /// terminal is not the controlling one.
    ///
    /// # Errors
    ///
    /// As for [`Pty::spawn`].
    pub fn spawn_without_session(command: &mut Command) -> anyhow::Result<Self> {
        Self::start(command, None)
    }

    fn start(command: &mut Command, stderr: Option<OwnedFd>) -> anyhow::Result<Self> {
        let (master, slave) = pair()?;
        rustix::termios::tcsetwinsize(&slave, size(24, 80))?;
        rustix::io::ioctl_fionbio(&master, true)?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?);
        command.stderr(stderr.map_or_else(|| slave.try_clone(), Ok)?);
        let first_modes = rustix::termios::tcgetattr(&slave)?;
        let child = command.spawn().context("cannot start the program")?;
        // The command holds duplicates of the slave until it gets others.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let (screen, seen) = (Vec::new(), 0);
        Ok(Self { master: Some(master), slave: Some(slave), child, first_modes, screen, seen })
    }

    /// The process id of the program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn master(&self) -> anyhow::Result<BorrowedFd<'_>> {
        Ok(self.master.as_ref().context("the terminal has been hung up")?.as_fd())
    }

    /// A descriptor of the terminal itself.
    ///
    /// # Errors
    ///
    /// After a hang-up.
    pub fn slave(&self) -> anyhow::Result<BorrowedFd<'_>> {
        Ok(self.slave.as_ref().context("the terminal has been hung up")?.as_fd())
    }

    /// Presses keys, reading the screen meanwhile.
    ///
    /// # Errors
    ///
    /// When the keys are not taken in time.
    pub fn send(&mut self, keys: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let mut keys = keys.as_ref();
        let until = Instant::now() + PATIENCE;
        while !keys.is_empty() {
            match rustix::io::write(self.master()?, keys) {
                Ok(count) => keys = &keys[count..],
                Err(Errno::AGAIN) => {
                    ensure!(Instant::now() < until, "the keys are not taken");
                    self.look(PollFlags::IN | PollFlags::OUT, until)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what is there after waiting for it or for `flags`.
    fn look(&mut self, flags: PollFlags, until: Instant) -> anyhow::Result<()> {
        let master = self.master()?;
        let rest = Timespec::try_from(until.saturating_duration_since(Instant::now()))?;
        poll(&mut [PollFd::from_borrowed_fd(master, flags)], Some(&rest))?;
        self.read_screen()?;
        Ok(())
    }

    /// Reads everything that is there; says how many bytes.
    fn read_screen(&mut self) -> anyhow::Result<usize> {
        let mut total = 0;
        loop {
            let mut bytes = [0; 4096];
            match rustix::io::read(self.master()?, &mut bytes) {
                Ok(0) | Err(Errno::AGAIN | Errno::IO) => return Ok(total),
                Ok(count) => {
                    total += count;
                    self.screen.extend_from_slice(&bytes[..count]);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until `text` is on the screen behind what was last expected.
    ///
    /// # Errors
    ///
    /// When it does not come in time: with all that came instead.
    pub fn expect(&mut self, text: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.read_screen()?;
            if let Some(at) = find(&self.screen[self.seen..], text.as_bytes()) {
                self.seen += at + text.len();
                return Ok(());
            }
            if Instant::now() >= until {
                bail!("no {text:?} on the screen, but {:?}", self.unseen());
            }
            self.look(PollFlags::IN, until)?;
        }
    }

    /// What has come since what was last expected.
    #[must_use]
    pub fn unseen(&self) -> String {
        String::from_utf8_lossy(&self.screen[self.seen..]).into_owned()
    }

    /// All that was ever written to the terminal.
    #[must_use]
    pub fn screen(&self) -> &[u8] {
        &self.screen
    }

    /// Waits until `holds` does, reading the screen meanwhile. For what gives no
    /// event to wait on.
    ///
    /// # Errors
    ///
    /// When it does not hold in time; `what` says what was waited for.
    pub fn wait_until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> bool,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            if Instant::now() >= until {
                bail!("waited in vain for {what}; on the screen: {:?}", self.unseen());
            }
            let soon = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            poll(&mut [], Some(&soon))?;
            if self.master.is_some() {
                self.read_screen()?;
            }
        }
        Ok(())
    }

    /// Reads on behind what was last expected, without keeping it, until `text`;
    /// says how many bytes that were.
    ///
    /// # Errors
    ///
    /// When that does not come: nothing more comes for some time.
    pub fn discard_until(&mut self, text: &str) -> anyhow::Result<usize> {
        self.screen.drain(..std::mem::take(&mut self.seen));
        let mut total = 0;
        loop {
            let count = self.screen.len();
            total += count;
            if find(&self.screen, text.as_bytes()).is_some() {
                self.screen.clear();
                return Ok(total);
            }
            let kept = self.screen.split_off(count.saturating_sub(text.len()));
            total -= kept.len();
            self.screen = kept;
            let before = self.screen.len();
            self.look(PollFlags::IN, Instant::now() + PATIENCE)?;
            ensure!(self.screen.len() > before, "only {total} bytes came");
        }
    }

    /// Lets a moment pass without reading the screen.
    ///
    /// # Errors
    ///
    /// None that a valid call can give.
    pub fn pause(&self) -> anyhow::Result<()> {
        poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }))?;
        Ok(())
    }

    /// Changes the size, as a window that is dragged.
    ///
    /// # Errors
    ///
    /// After a hang-up.
    pub fn resize(&self, rows: u16, columns: u16) -> anyhow::Result<()> {
        Ok(rustix::termios::tcsetwinsize(self.master()?, size(rows, columns))?)
    }

    /// The terminal's modes now.
    ///
    /// # Errors
    ///
    /// After a hang-up.
    pub fn modes(&self) -> anyhow::Result<Termios> {
        Ok(rustix::termios::tcgetattr(self.slave()?)?)
    }

    /// The modes before the program was started.
    #[must_use]
    pub fn first_modes(&self) -> &Termios {
        &self.first_modes
    }

    /// Says whether every key is handed through. A line editor leaves those alone
    /// that make signals, so this is not it.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.modes()
            .is_ok_and(|modes| !modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ISIG))
    }

    /// Takes the terminal away.
    pub fn hang_up(&mut self) {
        self.slave = None;
        self.master = None;
    }

    /// Waits for the end of the program, reading all that it still writes.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let pid = self.pid();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.wait_until("the program's end", |_| {
            waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
        })?;
        if self.master.is_some() {
            self.read_screen()?;
        }
        Ok(self.child.wait()?)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Ended already is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A master and its slave, neither of them anybody's controlling terminal.
///
/// # Errors
///
/// When there is no pty to be had.
pub fn pair() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    Ok((master, slave))
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len().max(1)).position(|window| window == needle)
}
