//! The loop of the supervisor process.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use atoll_sys::notify::{Listener, Notification, Reply};
use rustix::io::Errno;

use super::call::{Call, PathArgument, decode};
use super::caller::{Caller, errno};
use super::denial::{Report, Sink};
use super::footing::{Footing, FootingError};
use super::ledger::{Ledger, Why, bytes};
use super::moves::{Mover, Next, Place};
use super::pending::{MAX_WAITING, Pending, RETRY, retry};
use super::refuser::{refuse, tell_connection};
use super::reply::reply;
use super::rules::{Config, Root, Rules};
use super::stand_in::Home;
use super::state::{Answer, Case, State, Umask};
use super::told::Told;
use super::wait::{ANSWERED_AT_ONCE, Wake, wait};
use crate::seccomp;
use crate::tell::Connections;

/// How soon written pointers are put in place when no call comes.
const SETTLE: Duration = Duration::from_millis(1);

#[cfg(target_arch = "x86_64")]
pub(super) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCH: u32 = 0xc000_00b7;

#[derive(Debug, thiserror::Error)]
pub enum NewError {
    #[error("the workspace {} is not an absolute path", path.display())]
    Relative { path: PathBuf },
    #[error("could not look at the workspace {}", path.display())]
    Look { path: PathBuf, source: Errno },
    #[error("the workspace {} is not the directory that was planned", path.display())]
    Other { path: PathBuf },
    #[error("the judge has no ground to stand on")]
    Footing(#[from] FootingError),
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the listener does not work")]
    Listener { source: std::io::Error },
    #[error("the supervisor could not take its place")]
    Footing(#[from] FootingError),
    #[error("could not wait for calls")]
    Wait { source: Errno },
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every filtered task is gone.
    HungUp,
    /// The control descriptor became readable or was closed. Calls fail from now on.
    Control,
}

/// Judges and performs the calls of one workload.
pub struct Judge {
    footing: Footing,
    state: State,
    connections: Connections,
    /// Where directories are moved too.
    place: Option<Place>,
}

impl Judge {
    /// Reads the repositories that are there now, so it must be made before the
    /// workload runs, in the namespaces that the loop will run in.
    ///
    /// # Errors
    ///
    /// If the workspace is not the planned one, or there is no procfs.
    pub fn new(config: Config) -> Result<Self, NewError> {
        let Config { root, free, mut grants, .. } = config;
        let Config { tool_names, told_names, allow, deny, umask, hidden, is_strict, .. } = config;
        if let Some(Root { path, device, inode }) = root {
            let found = look(&path)?;
            if (found.st_dev, found.st_ino) != (device, inode) {
                return Err(NewError::Other { path });
            }
            grants.insert(0, path);
        }
        let rules = Rules::new(tool_names, allow, deny);
        let mut ledger = Ledger::new(&grants);
        if let Some(path) = free {
            let device = look(&path)?.st_dev;
            ledger.leave_free(&path, device);
        }
        for (rule, link) in grants.iter().flat_map(|place| rules.links_at(place)) {
            ledger.link(link.to, Why { rule, link: Some(link.from) });
        }
        let told = Told::new(told_names, &grants);
        let masked = config.masked.into_iter().map(|(path, is_dir)| (bytes(&path), is_dir));
        let masked = masked.collect();
        let umask = Umask { start: umask, is_changed: false, own: None };
        let footing = Footing::new()?;
        let home = config.has_nested_users.then(|| Home::of_judge(&footing)).transpose();
        let home = home.map_err(|source| FootingError::Open { path: "/proc/self/ns", source })?;
        let pointers = Vec::new();
        let state = State { rules, ledger, told, hidden, is_strict, masked, umask, pointers, home };
        Ok(Self { footing, state, connections: Connections::default(), place: None })
    }

    /// Moves directories of the overlay at `root` too, as [`super::Moves`] does:
    /// no rule is asked for a rename that stays within it.
    ///
    /// # Errors
    ///
    /// If the workspace cannot be opened.
    pub fn moving(mut self, root: &Path, stage: &str) -> Result<Self, NewError> {
        self.place = Some(Place::new(root, stage)?);
        Ok(self)
    }

    /// Takes the judge's place: the working directory and file mode mask of this
    /// process, which must have one thread, become the judge's.
    ///
    /// It must live in the workload's namespaces and in a Landlock domain with
    /// the workload's rights, with the workload's ids, be non-dumpable, and have
    /// no capability but `CAP_SYS_PTRACE`, which is only raised while a caller is
    /// looked at.
    ///
    /// # Errors
    ///
    /// If the descriptor is no listener or the place cannot be taken.
    pub fn begin(mut self, listener: OwnedFd) -> Result<Serving, ServeError> {
        let listener = Listener::new(listener).map_err(|source| ServeError::Listener { source })?;
        let _too_old = listener.wake_in_place();
        self.footing.enter()?;
        self.footing.lower();
        let mover = self.place.take().map(|place| place.begin(&listener)).transpose()?;
        Ok(Serving { judge: self, listener, pending: Vec::new(), mover })
    }

    /// Answers calls until every filtered task is gone or `control` says so.
    ///
    /// # Errors
    ///
    /// Those of [`Judge::begin`]; if the listener or the wait fails, the
    /// workload's calls then fail too.
    pub fn serve(
        self,
        listener: OwnedFd,
        control: Option<BorrowedFd<'_>>,
        sink: &mut dyn Sink,
    ) -> Result<(Ended, Report), ServeError> {
        let mut serving = self.begin(listener)?;
        let ended = loop {
            match wait(&serving.listener, control, serving.timeout())? {
                Wake::Call => serving.call(sink)?,
                Wake::HungUp => break Ended::HungUp,
                Wake::Control => break Ended::Control,
                Wake::Time => serving.judge.state.settle_pointers(sink, false),
            }
            serving.retry();
        };
        Ok((ended, serving.finish(sink)))
    }
}

/// A judge at work, for a process that waits for other things too.
pub struct Serving {
    judge: Judge,
    listener: Listener,
    pending: Vec<Pending>,
    mover: Option<Mover>,
}

impl Serving {
    /// When [`Serving::attend`] wants to be called even if nothing is readable.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        if !self.judge.state.pointers.is_empty() {
            return Some(SETTLE);
        }
        (!self.pending.is_empty()).then_some(RETRY)
    }

    /// Answers what is waiting, without blocking. Says whether anybody is left
    /// to ask. `is_readable` says that a wait has just found a call.
    ///
    /// # Errors
    ///
    /// If the listener or the wait fails; the workload's calls then fail too.
    pub fn attend(&mut self, is_readable: bool, sink: &mut dyn Sink) -> Result<bool, ServeError> {
        self.settle(sink);
        // With a mover it may have been a helper's word.
        if is_readable && self.mover.is_none() {
            self.call(sink)?;
        }
        for _ in 0..ANSWERED_AT_ONCE {
            match wait(&self.listener, None, Some(Duration::ZERO))? {
                Wake::Call => self.call(sink)?,
                Wake::HungUp | Wake::Control => return Ok(false),
                Wake::Time => {
                    self.judge.state.settle_pointers(sink, false);
                    break;
                }
            }
        }
        self.retry();
        Ok(true)
    }

    /// Ends the work and says what was let through.
    pub fn finish(mut self, sink: &mut dyn Sink) -> Report {
        if let Some(mover) = self.mover.take() {
            mover.finish();
        }
        self.judge.state.settle_pointers(sink, true);
        self.judge.state.report()
    }

    /// Receives one call and answers it, or keeps what is to be tried later.
    fn call(&mut self, sink: &mut dyn Sink) -> Result<(), ServeError> {
        self.judge.state.settle_pointers(sink, false);
        match self.listener.receive() {
            Ok(notification) => self.answer(&notification, sink),
            Err(error) => match errno(error) {
                Errno::NOENT | Errno::INTR => {}
                source => return Err(ServeError::Listener { source: source.into() }),
            },
        }
        Ok(())
    }

    fn answer(&mut self, notification: &Notification, sink: &mut dyn Sink) {
        let Self { judge, listener, pending, mover } = self;
        let Some(more) = judge.one(listener, notification, mover.as_mut(), sink) else { return };
        if pending.len() < MAX_WAITING {
            pending.push(more);
        } else {
            let _gone = listener.reply(more.id, Reply::Error(libc::EAGAIN));
        }
    }

    /// Answers the caller whose directory has been moved, and those who waited.
    fn settle(&mut self, sink: &mut dyn Sink) {
        let settled = self.mover.as_mut().and_then(|mover| mover.settle(sink));
        let Some(settled) = settled else { return };
        let answer = settled.answer.map(|()| Answer::Done);
        reply(&mut self.listener, settled.notification.id, answer);
        for notification in settled.held {
            self.answer(&notification, sink);
        }
    }

    fn retry(&mut self) {
        retry(&mut self.pending, &self.judge.footing, &mut self.listener);
    }
}

impl AsFd for Serving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mover.as_ref().map_or(self.listener.as_fd(), Mover::as_fd)
    }
}

impl Judge {
    /// Answers one call, or gives what is to be tried later.
    fn one(
        &mut self,
        listener: &mut Listener,
        notification: &Notification,
        mover: Option<&mut Mover>,
        sink: &mut dyn Sink,
    ) -> Option<Pending> {
        let Some(thread) = NonZeroU32::new(notification.pid) else {
            // Not in our pid namespace: nothing of it can be looked at.
            let _gone = listener.reply(notification.id, Reply::Error(libc::EPERM));
            return None;
        };
        let caller = Caller { footing: &self.footing, listener, id: notification.id, thread };
        if Connections::concerns(notification) {
            tell_connection(&mut self.connections, caller, notification, sink);
            let _gone = listener.reply(notification.id, Reply::Continue);
            return None;
        }
        // Where the judge answers a call, the table's rule for it is not in the filter.
        let by_table = u32::try_from(notification.number)
            .ok()
            .and_then(|number| seccomp::refusal_of(number, &notification.args));
        let call = if notification.arch == ARCH && by_table.is_none() {
            decode(notification.number, &notification.args)
        } else {
            None
        };
        let Some(call) = call else {
            return send(listener, notification, thread, Err(refuse(notification, sink)));
        };
        let mut case = Case { caller, operation: operation(call), sink, leftover: None };
        let answer = match (call, mover) {
            (Call::Rename { from, to, flags }, Some(mover)) => {
                match rename(&mut self.state, &mut case, notification, mover, (from, to, flags)) {
                    Ok(None) => return None,
                    Ok(Some(answer)) => Ok(answer),
                    Err(error) => Err(error),
                }
            }
            _ => self.state.answer(&mut case, call),
        };
        let leftover = case.leftover.take();
        let later = send(listener, notification, thread, answer);
        drop(leftover);
        later
    }
}

/// Performs a rename within the workspace that is moved in, and judges every
/// other. `None` if the answer comes later.
fn rename(
    state: &mut State,
    case: &mut Case<'_>,
    notification: &Notification,
    mover: &mut Mover,
    (from, to, flags): (PathArgument, PathArgument, u32),
) -> Result<Option<Answer>, Errno> {
    let from = case.spot(&mut case.walk(), from)?;
    let to = case.spot(&mut case.walk(), to)?;
    if !mover.concerns(&from, &to) {
        return state.rename_at(case, &from, &to, flags).map(Some);
    }
    match mover.rename(case, notification, (&from, &to), flags) {
        Next::Answer(answer) => answer.map(|()| Some(Answer::Done)),
        Next::Later => Ok(None),
    }
}

/// Looks at a root.
fn look(path: &Path) -> Result<rustix::fs::Stat, NewError> {
    if !path.is_absolute() {
        return Err(NewError::Relative { path: path.to_owned() });
    }
    rustix::fs::lstat(path).map_err(|source| NewError::Look { path: path.to_owned(), source })
}

fn send(
    listener: &mut Listener,
    notification: &Notification,
    thread: NonZeroU32,
    answer: Result<Answer, Errno>,
) -> Option<Pending> {
    if let Ok(Answer::Later { waiting, cloexec }) = answer {
        return Some(Pending::new(notification, thread, waiting, cloexec));
    }
    reply(listener, notification.id, answer);
    None
}

fn operation(call: Call) -> &'static str {
    match call {
        Call::Open { .. } => "open",
        Call::MakeDirectory { .. } => "mkdir",
        Call::MakeNode { .. } => "mknod",
        Call::MakeLink { .. } => "symlink",
        Call::HardLink { .. } => "link",
        Call::Rename { .. } => "rename",
        Call::Unlink { .. } => "unlink",
        Call::Truncate { .. } => "truncate",
        Call::Change { change, .. } => match change {
            super::call::Change::Mode(_) => "chmod",
            super::call::Change::Owner { .. } => "chown",
            super::call::Change::SetAttribute { .. } => "setxattr",
            super::call::Change::RemoveAttribute { .. } => "removexattr",
        },
        Call::Bind { .. } => "bind",
        Call::Umask { .. } => "umask",
        Call::TooNew => "setxattrat",
    }
}
