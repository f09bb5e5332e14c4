//! Runs a command the way `atoll run` does, but without a jail: a small PID 1 in a
//! pid namespace of its own stands in for the real one. For tests.
//!
//! `supervise [--deadline-ms N] [--remove-dir DIR] [--cgroup DIR] [--outcome FILE] [--lose] -- COMMAND…`

use anyhow::{Context as _, bail};
use atoll_cli::supervise::{
    self, Cleanup, Control, Guard, Inputs, Message, Place, Received, Restore, Setup, Signals,
    Stdio, Stream,
};
use atoll_sys::clone::{Fork, NEW_PID, NEW_USER, fork_into, spawn_shared};
use atoll_sys::process::{self, End, SignalSet, exit_now};
use atoll_sys::scm;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Options {
    deadline: Option<Duration>,
    remove_dir: Option<PathBuf>,
    cgroup: Option<PathBuf>,
    outcome: Option<PathBuf>,
    lose: bool,
    command: Vec<OsString>,
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a value is missing");
        match argument.to_str() {
            Some("--deadline-ms") => {
                let text = value()?.into_string().ok().context("no number")?;
                options.deadline = Some(Duration::from_millis(text.parse()?));
            }
            Some("--remove-dir") => options.remove_dir = Some(value()?.into()),
            Some("--cgroup") => options.cgroup = Some(value()?.into()),
            Some("--outcome") => options.outcome = Some(value()?.into()),
            Some("--lose") => options.lose = true,
            Some("--") => options.command = arguments.by_ref().collect(),
            _ => bail!("unknown argument {}", argument.display()),
        }
    }
    Ok(options)
}

fn main() -> anyhow::Result<ExitCode> {
    let options = options()?;
    let signals = Signals::take()?;
    let mut stdio = Stdio::of_this_process()?;
    let mut cleanups: Vec<Cleanup> =
        options.remove_dir.iter().cloned().map(Cleanup::RemoveDir).collect();
    cleanups.extend(
        options.cgroup.iter().map(|dir| Cleanup::KillAndRemoveCgroup { dirs: vec![dir.clone()] }),
    );
    let guard = Guard::start(stdio.terminal_mut(), cleanups.clone())?;
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let (pid, pidfd) = match fork_into(NEW_USER | NEW_PID, None)? {
        Fork::Child => {
            drop((ours, guard));
            let init = Init {
                socket: theirs,
                streams: std::mem::replace(
                    &mut stdio.streams,
                    [Stream::Inherit, Stream::Inherit, Stream::Inherit],
                ),
                setup: stdio.setup(),
                restore: signals.restore(),
                lose: options.lose,
            };
            // The rest of the launcher's descriptors are not for PID 1.
            std::mem::forget(stdio);
            let status = match init.live(&options.command) {
                Ok(status) => status,
                Err(error) => {
                    io::Write::write_all(
                        &mut io::stderr(),
                        format!("init: {error:#}\n").as_bytes(),
                    )
                    .ok();
                    99
                }
            };
            exit_now(status)
        }
        Fork::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop(theirs);
    if let Some(dir) = &options.cgroup {
        std::fs::create_dir_all(dir.join("below"))?;
        std::fs::write(dir.join("below/cgroup.procs"), pid.to_string())?;
    }
    let mut control = Socket { socket: ours, pidfd };
    let deadline = options.deadline.map(|after| Instant::now() + after);
    let outcome = supervise::run(Inputs {
        control: &mut control,
        companion: None,
        signals: &signals,
        stdio,
        deadline,
    })?;
    for cleanup in cleanups {
        cleanup.perform()?;
    }
    if let Some(guard) = guard {
        guard.finish();
    }
    if let Some(path) = options.outcome {
        std::fs::write(path, format!("{outcome:?}\n"))?;
    }
    outcome.pass_interrupt_on();
    Ok(ExitCode::from(outcome.exit_status(125)))
}

/// The launcher's side of the control socket.
struct Socket {
    socket: OwnedFd,
    pidfd: OwnedFd,
}

impl Control for Socket {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn next_message(&mut self) -> io::Result<Received> {
        let mut bytes = [0; 8];
        let (length, fd) = match scm::receive(self.socket.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            result => result?,
        };
        if length < 2 {
            return Ok(Received::Closed);
        }
        Ok(Received::Message(match (bytes[0], fd) {
            (b't', Some(master)) => Message::Terminal(master),
            (b'r', _) => Message::Started,
            (b's', _) => Message::Stopped(bytes[1].into()),
            (b'e', _) => Message::Exited(bytes[1]),
            (b'k', _) => Message::Signaled(bytes[1].into()),
            _ => Message::Failed,
        }))
    }

    fn forward(&mut self, signal: i32) -> io::Result<()> {
        scm::send(self.socket.as_fd(), &[b'f', u8::try_from(signal).unwrap_or(0)], None)
    }

    fn resume(&mut self, place: Place) -> io::Result<()> {
        scm::send(self.socket.as_fd(), &[b'c', u8::from(place == Place::Front)], None)
    }

    fn kill_all(&mut self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL)?)
    }
}

/// The stand-in for PID 1.
struct Init {
    socket: OwnedFd,
    streams: [Stream; 3],
    setup: Option<Setup>,
    restore: Restore,
    lose: bool,
}

impl Init {
    fn live(mut self, command: &[OsString]) -> anyhow::Result<i32> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::process::setsid()?;
        if self.lose {
            return Ok(3);
        }
        let child_ended = SignalSet::of(&[Signal::CHILD.as_raw()]);
        let signals = process::signal_descriptor(child_ended)?;
        let mask = process::set_signal_mask(SignalSet::ALL)?;
        process::set_signal_mask(SignalSet(mask.0 | child_ended.0 | TTY_STOPS))?;
        let slave = self.make_terminal()?;
        let Some(group) = self.start(command, slave.as_ref())? else {
            self.say(b'x', 0, None);
            return Ok(0);
        };
        self.streams = [Stream::Inherit, Stream::Inherit, Stream::Inherit];
        self.say(b'r', 0, None);
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            ];
            poll(&mut fds, None)?;
            while process::read_signal(signals.as_fd())?.is_some() {}
            while let Some(ended) = process::collect(-1)? {
                let ours = ended.pid == group.as_raw_nonzero().get();
                match ended.end {
                    End::Stopped(signal) if ours => self.say(b's', signal, None),
                    End::Exited(NO_PROGRAM) if ours => {
                        self.say(b'x', 0, None);
                        return Ok(0);
                    }
                    End::Exited(status) if ours => {
                        self.say(b'e', status.into(), None);
                        return Ok(0);
                    }
                    End::Signalled(signal) if ours => {
                        self.say(b'k', signal, None);
                        return Ok(0);
                    }
                    _ => {}
                }
            }
            self.obey(group, slave.as_ref())?;
        }
    }

    fn say(&self, what: u8, value: i32, fd: Option<BorrowedFd<'_>>) {
        scm::send(self.socket.as_fd(), &[what, u8::try_from(value).unwrap_or(0)], fd).ok();
    }

    fn obey(&self, group: Pid, slave: Option<&OwnedFd>) -> anyhow::Result<()> {
        let mut order = [0; 8];
        match scm::receive(self.socket.as_fd(), &mut order) {
            Ok((0, _)) => exit_now(1),
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
        if order[0] == b'f' {
            let signal = Signal::from_named_raw(order[1].into()).context("no signal")?;
            rustix::process::kill_process_group(group, signal).ok();
            return Ok(());
        }
        if let Some(slave) = slave {
            let front = if order[1] == 1 { group } else { rustix::process::getpid() };
            rustix::termios::tcsetpgrp(slave, front).ok();
        }
        rustix::process::kill_process_group(group, Signal::CONT).ok();
        Ok(())
    }

    fn make_terminal(&self) -> anyhow::Result<Option<OwnedFd>> {
        let Some(setup) = &self.setup else { return Ok(None) };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::unlockpt(&master)?;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        if let Some(modes) = &setup.termios {
            rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, modes)?;
        }
        rustix::termios::tcsetwinsize(&slave, setup.size)?;
        rustix::process::ioctl_tiocsctty(&slave)?;
        self.say(b't', 0, Some(master.as_fd()));
        Ok(Some(slave))
    }

    /// Starts the command; `None` if there is no such program.
    fn start(&self, command: &[OsString], slave: Option<&OwnedFd>) -> anyhow::Result<Option<Pid>> {
        let [program, arguments @ ..] = command else { bail!("no command") };
        let front = self.setup.as_ref().is_some_and(|setup| setup.place == Place::Front);
        let child = spawn_shared(|| {
            let made = || -> io::Result<()> {
                rustix::process::setpgid(None, None)?;
                if let (Some(slave), true) = (slave, front) {
                    rustix::termios::tcsetpgrp(slave, rustix::process::getpid())?;
                }
                for (index, stream) in self.streams.iter().enumerate() {
                    let fd = match stream {
                        Stream::Inherit => continue,
                        Stream::Terminal => slave.ok_or(io::ErrorKind::InvalidInput)?,
                        Stream::Pipe(end) => end,
                    };
                    match index {
                        0 => rustix::stdio::dup2_stdin(fd)?,
                        1 => rustix::stdio::dup2_stdout(fd)?,
                        _ => rustix::stdio::dup2_stderr(fd)?,
                    }
                }
                self.restore.apply()
            };
            if made().is_err() {
                return 98;
            }
            let _error = Command::new(program).args(arguments).exec();
            NO_PROGRAM.into()
        })?;
        let child = Pid::from_raw(child).context("no process id")?;
        let gone = process::collect(child.as_raw_nonzero().get());
        match gone? {
            Some(ended) if ended.end == End::Exited(NO_PROGRAM) => Ok(None),
            // A command that has ended already is collected here: tell it now.
            Some(ended) => {
                self.say(b'r', 0, None);
                match ended.end {
                    End::Exited(status) => self.say(b'e', status.into(), None),
                    End::Signalled(signal) => self.say(b'k', signal, None),
                    End::Stopped(signal) => {
                        self.say(b's', signal, None);
                        return Ok(Some(child));
                    }
                }
                exit_now(0)
            }
            None => Ok(Some(child)),
        }
    }
}

/// The child's exit status when the command could not be run; no test's command
/// has it.
const NO_PROGRAM: u8 = 97;

/// `SIGTSTP`, `SIGTTIN` and `SIGTTOU`: PID 1 moves groups about from behind.
const TTY_STOPS: u64 = 1 << (20 - 1) | 1 << (21 - 1) | 1 << (22 - 1);
