//! Starting an exec's first process.

use crate::command::{self, HasNul};
use crate::init;
use crate::message::{Failure, FailureKind};
use crate::pty;
use crate::workload::{self, Leads, Slave, Standard, Workload};
use atoll_protocol::exec::{Command, Input, Size, User};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_sys::process::{self, SignalSet};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit};
use rustix::termios::Winsize;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What every exec begins with.
#[derive(Debug)]
pub struct Base {
    /// Variables; a request names those that differ.
    pub environment: BTreeMap<OsString, OsString>,
    /// Of root's, those that differ from that.
    pub root_environment: BTreeMap<OsString, OsString>,
    /// Where a command starts that names no directory.
    pub directory: PathBuf,
    /// Where the state of sessions lies: a directory that every command may write, and
    /// that is made if need be.
    pub sessions: PathBuf,
    /// The same of root's, which nobody else may write.
    pub root_sessions: PathBuf,
    /// Resource limits: soft and hard become this.
    pub limits: Vec<(Resource, Rlimit)>,
    /// File mode creation mask.
    pub umask: u32,
}

impl Base {
    /// Has every command begin with these variables too; with none of them if one is wrong.
    pub(super) fn bind(&mut self, environment: Vec<(Octets, Octets)>) -> Result<(), Problem> {
        if let Some((name, _)) = environment.iter().find(|(name, _)| !is_name(name)) {
            return Err(no_name(name));
        }
        let words = environment
            .into_iter()
            .map(|(name, value)| (name.as_os_str().to_owned(), value.as_os_str().to_owned()));
        self.environment.extend(words);
        Ok(())
    }
}

fn is_name(name: &Octets) -> bool {
    !name.as_bytes().is_empty() && !name.as_bytes().contains(&b'=')
}

fn no_name(name: &Octets) -> Problem {
    Problem::new(Code::Invalid, format!("{:?} is no name of a variable", name.as_os_str()))
}

/// The walls around every exec.
pub trait Walls {
    /// Raises them around the calling process, which becomes this user. Called
    /// between fork and exec, while the caller's memory is shared.
    ///
    /// # Errors
    ///
    /// What could not be raised; then nothing is run.
    fn raise(&mut self, user: User) -> Result<(), Failure>;
    /// Raises those around a worker, which runs our own code: it may not reach
    /// further than a command of the sandbox's ordinary user. Called after a fork.
    ///
    /// # Errors
    ///
    /// What could not be raised; then nothing is done.
    fn raise_around_worker(&mut self) -> Result<(), Failure>;
    /// Says whether commands can run as this user here.
    fn has(&self, user: User) -> bool;
}

/// An exec that has just been started; our ends do not block.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: i32,
    /// Standard output, or a terminal's master side, and standard error.
    pub(super) outputs: [Option<OwnedFd>; 2],
    pub(super) input: Option<OwnedFd>,
}

/// Starts `command` with these standard descriptors.
pub(super) fn launch(
    command: &Command,
    input: Input,
    base: &Base,
    walls: &mut dyn Walls,
) -> Result<Launched, Problem> {
    if !walls.has(command.user) {
        let text = format!("this sandbox has no user {:?}", command.user).to_lowercase();
        return Err(Problem::new(Code::Unsupported, text));
    }
    let (standard, slave, ours) = descriptors(input).map_err(|error| {
        Problem::new(Code::Limit, format!("no descriptors for the command: {error}"))
            .with_errno(Some(error.raw_os_error()))
    })?;
    let workload = lay_out(command, base, standard)?;
    let user = command.user;
    let mut confine = || walls.raise(user).map(|()| None);
    let started = workload::start(&workload, slave.as_ref(), &mut confine);
    // They are in one table with the child's until it has its own: held here, a
    // pipe would have no end.
    init::leave_standard_descriptors();
    let started = started.map_err(problem)?;
    Ok(Launched { pid: started.pid, ..ours })
}

type Descriptors = ([Standard; 3], Option<Slave>, Launched);

/// The command's descriptors, and ours.
fn descriptors(input: Input) -> rustix::io::Result<Descriptors> {
    if let Input::Terminal(size) = input {
        let (master, slave) = pty::pair()?;
        rustix::termios::tcsetwinsize(&slave, window(size))?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let input = rustix::io::fcntl_dupfd_cloexec(&master, 3)?;
        let standard = [Standard::Terminal, Standard::Terminal, Standard::Terminal];
        let ours = Launched { pid: 0, outputs: [Some(master), None], input: Some(input) };
        return Ok((standard, Some(Slave { fd: slave, front: true }), ours));
    }
    let (theirs_in, ours_in) = if input == Input::Pipe {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        (read, Some(write))
    } else {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
    };
    let (ours_out, theirs_out) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (ours_err, theirs_err) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Fewer wake-ups where much is printed; an ordinary user's share may be used up.
    rustix::pipe::fcntl_setpipe_size(&ours_out, PIPE_BYTES).ok();
    for ours in [Some(&ours_out), Some(&ours_err), ours_in.as_ref()].into_iter().flatten() {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    let standard = [theirs_in, theirs_out, theirs_err].map(Standard::Descriptor);
    Ok((
        standard,
        None,
        Launched { pid: 0, outputs: [Some(ours_out), Some(ours_err)], input: ours_in },
    ))
}

/// One more than the number of the last signal; those that nobody can set stay as they are.
const SIGNALS: i32 = 65;

const PIPE_BYTES: usize = 256 << 10;

/// The size of a terminal as the kernel has it.
pub(super) fn window(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn lay_out(command: &Command, base: &Base, standard: [Standard; 3]) -> Result<Workload, Problem> {
    if command.arguments.is_empty() {
        return Err(Problem::new(Code::Invalid, "a command needs a program to run"));
    }
    let has_nul = |_: HasNul| Problem::new(Code::Invalid, "an argument has a NUL byte in it");
    let environment = environment(command, base)?;
    let strings: Vec<CString> = environment
        .iter()
        .map(|(name, value)| {
            let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
            CString::new(bytes).map_err(|_| has_nul(HasNul))
        })
        .collect::<Result<_, _>>()?;
    let words: Vec<OsString> =
        command.arguments.iter().map(|word| word.as_os_str().to_owned()).collect();
    let path = environment.get(&OsString::from("PATH")).cloned().unwrap_or_default();
    let laid_out = command::lay_out(&words, &path, &strings).map_err(has_nul)?;
    let directory = command.directory.as_ref().map_or(base.directory.as_path(), Octets::as_path);
    Ok(Workload {
        programs: laid_out.programs,
        arguments: laid_out.arguments,
        shell_arguments: laid_out.shell_arguments,
        directory: base.directory.join(directory),
        restore_signals: Box::new(|| {
            // PID 1 blocks every signal, and ignores those that the server was started with
            // as ignored, and SIGPIPE.
            (1..SIGNALS).for_each(process::default_signal_action);
            process::set_signal_mask(SignalSet::default()).map(|_| ())
        }),
        standard,
        limits: base.limits.clone(),
        umask: base.umask,
        leads: Leads::Session,
    })
}

fn environment(command: &Command, base: &Base) -> Result<BTreeMap<OsString, OsString>, Problem> {
    let mut environment = base.environment.clone();
    if command.user == User::Root {
        environment.extend(base.root_environment.clone());
    }
    for (name, value) in &command.environment {
        if !is_name(name) {
            return Err(no_name(name));
        }
        let name = name.as_os_str().to_owned();
        match value {
            Some(value) => environment.insert(name, value.as_os_str().to_owned()),
            None => environment.remove(&name),
        };
    }
    Ok(environment)
}

fn problem(failure: Failure) -> Problem {
    let code = match failure.kind {
        FailureKind::NotFound => Code::NotFound,
        FailureKind::NotExecutable => Code::NotExecutable,
        FailureKind::Directory => Code::Invalid,
        FailureKind::Jail if failure.errno == Errno::AGAIN.raw_os_error() => Code::Limit,
        FailureKind::Jail => Code::Failed,
    };
    Problem::new(code, failure.text).with_errno(Some(failure.errno).filter(|errno| *errno != 0))
}
