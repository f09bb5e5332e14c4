//! The judge of a review workspace that an ordinary user mounted: no name has a
//! rule there, but renames of directories need help.
//!
//! Such an overlay answers `EXDEV` where a directory of the project is renamed,
//! which programs like git take for the end. So the calls in [`RENAMES`] come
//! here and are performed; a directory that the kernel will not move is moved by
//! a helper process ([`super::transfer`]), one at a time, while other calls go
//! on. Renames of what such a move touches wait for its end.

use std::ffi::CString;
use std::io::{PipeReader, Read as _, Write as _};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use atoll_sys::helper::{Helper, fork_helper, wait_for_helper};
use atoll_sys::notify::{Listener, Notification, Reply};
use atoll_sys::process;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, StatxFlags, open, renameat_with, statx};
use rustix::io::Errno;

use super::call::{Call, decode};
use super::caller::{Caller, errno};
use super::decide::Kind;
use super::denial::{Class, Denial, Rule, Sink};
use super::footing::Footing;
use super::ledger::within;
use super::refuser::{refuse, tell_connection};
use super::reply::reply;
use super::serve::{ARCH, NewError, ServeError};
use super::state::{Answer, Case, kind_at, to_path};
use super::transfer::{Bounds, Stop, Transfer};
use super::traps::{Condition, Trap};
use super::wait::{ANSWERED_AT_ONCE, Wake, wait};
use super::walk::Spot;
use crate::tell::Connections;

/// The calls that [`Moves`] answers.
pub const RENAMES: &[Trap] = &[
    #[cfg(target_arch = "x86_64")]
    Trap { number: libc::SYS_rename, condition: Condition::Always },
    Trap { number: libc::SYS_renameat, condition: Condition::Always },
    Trap { number: libc::SYS_renameat2, condition: Condition::Always },
];

/// Performs the renames of one workload.
pub struct Moves {
    footing: Footing,
    place: Place,
}

/// A workspace in which directories are moved.
pub(super) struct Place {
    root: OwnedFd,
    /// The number of its mount.
    mount: u64,
    stage: String,
    made: u64,
}

impl Place {
    /// The conditions are those of [`Moves::new`].
    pub(super) fn new(root: &Path, stage: &str) -> Result<Self, NewError> {
        let failed = |source| NewError::Look { path: root.to_owned(), source };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(root, flags, Mode::empty()).map_err(failed)?;
        let mount = mount_of(opened.as_fd()).map_err(failed)?;
        Ok(Self { root: opened, mount, stage: stage.to_owned(), made: 0 })
    }

    /// Starts to wait for calls of `listener` and for helpers, together.
    pub(super) fn begin(self, listener: &Listener) -> Result<Mover, ServeError> {
        let failed = |source: Errno| ServeError::Wait { source };
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        epoll::add(&ready, listener, data, flags).map_err(failed)?;
        Ok(Mover { place: self, ready, job: None, held: Vec::new() })
    }
}

impl Moves {
    /// Takes the workspace at `root`, an overlay. Staging directories are made
    /// at its top; their names begin with `stage`.
    ///
    /// # Errors
    ///
    /// If the workspace cannot be opened, or there is no procfs.
    pub fn new(root: &Path, stage: &str) -> Result<Self, NewError> {
        let place = Place::new(root, stage)?;
        Ok(Self { footing: Footing::new()?, place })
    }

    /// Takes its place, under the conditions of [`super::Judge::begin`].
    ///
    /// # Errors
    ///
    /// If the descriptor is no listener or the place cannot be taken.
    pub fn begin(self, listener: OwnedFd) -> Result<Moving, ServeError> {
        let listener = Listener::new(listener).map_err(|source| ServeError::Listener { source })?;
        let _too_old = listener.wake_in_place();
        self.footing.enter()?;
        self.footing.lower();
        let mover = self.place.begin(&listener)?;
        Ok(Moving { footing: self.footing, listener, mover, connections: Connections::default() })
    }
}

/// The number of the mount that a directory is seen through; no two paths that
/// one rename can serve differ in it.
fn mount_of(directory: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

/// [`Moves`] at work, for a process that waits for other things too.
pub struct Moving {
    footing: Footing,
    listener: Listener,
    mover: Mover,
    connections: Connections,
}

/// Performs renames, for whoever has the listener.
pub(super) struct Mover {
    place: Place,
    /// Readable when a call or the helper's word has come.
    ready: OwnedFd,
    job: Option<Job>,
    /// Calls that wait for the end of the job.
    held: Vec<Notification>,
}

/// A directory on its way.
struct Job {
    notification: Notification,
    helper: i32,
    words: PipeReader,
    heard: Vec<u8>,
    paths: [Vec<u8>; 2],
}

/// The helper's word before a move can no longer be taken back.
const PLACING: u8 = b'P';

impl Job {
    fn touches(&self, path: &[u8]) -> bool {
        self.paths
            .iter()
            .any(|own| own == path || within(path, own).is_some() || within(own, path).is_some())
    }

    /// Whether the helper has ended.
    fn listen(&mut self) -> bool {
        loop {
            let mut words = [PollFd::new(&self.words, PollFlags::IN)];
            if !poll(&mut words, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
                return false;
            }
            let mut buffer = [0; 16];
            match rustix::io::read(&self.words, &mut buffer) {
                Ok(0) | Err(_) => return true,
                Ok(length) => self.heard.extend(&buffer[..length]),
            }
        }
    }
}

/// What is to become of a call.
pub(super) enum Next {
    Answer(Result<(), Errno>),
    /// The answer comes later: with a job's end, or the call is then looked at
    /// anew.
    Later,
}

/// A job that has ended.
pub(super) struct Settled {
    /// Whose it was.
    pub(super) notification: Notification,
    pub(super) answer: Result<(), Errno>,
    /// Calls that waited for it, to be looked at anew.
    pub(super) held: Vec<Notification>,
}

impl Moving {
    /// Answers what is waiting, without blocking. Says whether anybody is left
    /// to ask.
    ///
    /// # Errors
    ///
    /// If the listener or the wait fails; the workload's calls then fail too.
    pub fn attend(&mut self, sink: &mut dyn Sink) -> Result<bool, ServeError> {
        self.settle(sink);
        for _ in 0..ANSWERED_AT_ONCE {
            match wait(&self.listener, None, Some(Duration::ZERO))? {
                Wake::Call => {}
                Wake::HungUp | Wake::Control => return Ok(false),
                Wake::Time => break,
            }
            match self.listener.receive() {
                Ok(notification) => self.call(notification, sink),
                Err(error) => match errno(error) {
                    Errno::NOENT | Errno::INTR => {}
                    source => return Err(ServeError::Listener { source: source.into() }),
                },
            }
        }
        Ok(true)
    }

    /// Ends the work. A move whose new name may be there already is finished;
    /// of another nothing will be seen.
    pub fn finish(self) {
        self.mover.finish();
    }

    fn call(&mut self, notification: Notification, sink: &mut dyn Sink) {
        let Some(thread) = NonZeroU32::new(notification.pid) else {
            // Not in our pid namespace: nothing of it can be looked at.
            return answer(&mut self.listener, &notification, Err(Errno::PERM));
        };
        let Self { footing, listener, mover, connections } = self;
        let caller = Caller { footing, listener, id: notification.id, thread };
        if Connections::concerns(&notification) {
            tell_connection(connections, caller, &notification, sink);
            let _gone = listener.reply(notification.id, Reply::Continue);
            return;
        }
        let call = if notification.arch == ARCH {
            decode(notification.number, &notification.args)
        } else {
            None
        };
        let Some(Call::Rename { from, to, flags }) = call else {
            return answer(listener, &notification, Err(refuse(&notification, sink)));
        };
        let mut case = Case { caller, operation: "rename", sink, leftover: None };
        let next = case
            .spot(&mut case.walk(), from)
            .and_then(|from| Ok((from, case.spot(&mut case.walk(), to)?)))
            .map(|(from, to)| mover.rename(&mut case, &notification, (&from, &to), flags));
        match next {
            Ok(Next::Answer(done)) => answer(listener, &notification, done),
            Ok(Next::Later) => {}
            Err(error) => answer(listener, &notification, Err(error)),
        }
    }

    /// Answers the job's caller once the job is done, and those who waited.
    fn settle(&mut self, sink: &mut dyn Sink) {
        let Some(settled) = self.mover.settle(sink) else { return };
        answer(&mut self.listener, &settled.notification, settled.answer);
        for notification in settled.held {
            self.call(notification, sink);
        }
    }
}

fn answer(listener: &mut Listener, notification: &Notification, answer: Result<(), Errno>) {
    reply(listener, notification.id, answer.map(|()| Answer::Done));
}

impl Mover {
    /// Whether a rename is within the workspace.
    pub(super) fn concerns(&self, from: &Spot<'_>, to: &Spot<'_>) -> bool {
        [from, to].iter().all(|spot| mount_of(spot.parent.as_fd()) == Ok(self.place.mount))
    }

    /// Performs a rename, or begins to.
    pub(super) fn rename(
        &mut self,
        case: &mut Case<'_>,
        notification: &Notification,
        (from, to): (&Spot<'_>, &Spot<'_>),
        flags: u32,
    ) -> Next {
        if let Some(job) = &self.job {
            let is_touched = |spot| case.path_at(spot).map_or(true, |path| job.touches(&path));
            if is_touched(from) || is_touched(to) {
                self.held.push(*notification);
                return Next::Later;
            }
        }
        let flags = RenameFlags::from_bits_retain(flags);
        let (old, new) = (from.with_slash(), to.with_slash());
        let (parent, new_parent) = (from.parent.as_fd(), to.parent.as_fd());
        let done = renameat_with(parent, old.as_c_str(), new_parent, new.as_c_str(), flags);
        let is_helped =
            done == Err(Errno::XDEV) && has_directory(from, to) && self.concerns(from, to);
        if !is_helped {
            return Next::Answer(done);
        }
        if self.job.is_some() {
            self.held.push(*notification);
            return Next::Later;
        }
        self.place.made += 1;
        let stage = format!("{}{}", self.place.stage, self.place.made);
        let start = Start { root: self.place.root.as_fd(), stage, flags };
        match start.job(case, notification, (from, to), self.ready.as_fd()) {
            Ok(started) => {
                self.job = Some(started);
                Next::Later
            }
            Err(stop) => {
                let path = case.path_at(from).unwrap_or_default();
                Next::Answer(Err(told(stop, &path, notification.pid, case.sink)))
            }
        }
    }

    /// Gives what there is to answer once the job is done.
    pub(super) fn settle(&mut self, sink: &mut dyn Sink) -> Option<Settled> {
        if !self.job.as_mut().is_some_and(Job::listen) {
            return None;
        }
        let job = self.job.take()?;
        // It has closed its pipe, so this is short; then its number is free again.
        let _gone = wait_for_helper(job.helper);
        let word = job.heard.strip_prefix(&[PLACING]).unwrap_or(&job.heard);
        let answer = Stop::decode(word)
            .map_err(|stop| told(stop, &job.paths[0], job.notification.pid, sink));
        let held = std::mem::take(&mut self.held);
        Some(Settled { notification: job.notification, answer, held })
    }

    /// As [`Moving::finish`].
    pub(super) fn finish(mut self) {
        let Some(job) = &mut self.job else { return };
        if !job.listen() && job.heard.contains(&PLACING) {
            let _gone = job.words.read_to_end(&mut job.heard);
        }
    }
}

impl AsFd for Mover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl AsFd for Moving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mover.as_fd()
    }
}

/// Whether a directory is moved, or replaced.
fn has_directory(from: &Spot<'_>, to: &Spot<'_>) -> bool {
    let is_directory =
        |spot: &&Spot<'_>| kind_at(spot.parent.as_fd(), &spot.name) == Some(Kind::Directory);
    [from, to].iter().any(is_directory)
}

/// A job that is to begin.
struct Start<'a> {
    root: BorrowedFd<'a>,
    stage: String,
    flags: RenameFlags,
}

impl Start<'_> {
    fn job(
        &self,
        case: &Case<'_>,
        notification: &Notification,
        (from, to): (&Spot<'_>, &Spot<'_>),
        ready: BorrowedFd<'_>,
    ) -> Result<Job, Stop> {
        // Two trees that change places, or a mark of the overlay's own.
        if !self.flags.difference(RenameFlags::NOREPLACE).is_empty() {
            return Err(Stop::Failed(Errno::XDEV));
        }
        let paths = [case.path_at(from)?, case.path_at(to)?];
        let stage = CString::new(self.stage.as_str()).map_err(|_| Errno::INVAL)?;
        let (words, mut mouth) = std::io::pipe().map_err(errno)?;
        let (data, flags) = (epoll::EventData::new_u64(1), epoll::EventFlags::IN);
        // The pipe's end is its end there too.
        epoll::add(ready, &words, data, flags)?;
        match fork_helper().map_err(errno)? {
            Helper::Parent(helper) => {
                let (notification, heard) = (*notification, Vec::new());
                Ok(Job { notification, helper, words, heard, paths })
            }
            Helper::Child => {
                drop(words);
                rustix::process::umask(Mode::empty());
                let transfer = Transfer {
                    from: (from.parent.as_fd(), &from.name),
                    to: (to.parent.as_fd(), &to.name),
                    stage: (self.root, &stage),
                    flags: self.flags,
                    bounds: Bounds::USUAL,
                };
                // A reader that is gone takes this process with it.
                let mut say = |word: &[u8]| mouth.write_all(word).ok();
                let outcome = transfer.run(&mut || {
                    say(&[PLACING]);
                });
                say(&Stop::encode(outcome));
                process::exit_now(0)
            }
        }
    }
}

/// The error for a move that was not made; told where the sandbox is the reason.
fn told(stop: Stop, path: &[u8], pid: u32, sink: &mut dyn Sink) -> Errno {
    let bounds = Bounds::USUAL;
    let detail = match stop {
        Stop::Kernel(errno) => return errno,
        Stop::TooManyEntries => format!("it has more than {} entries", bounds.entries),
        Stop::TooManyBytes => format!("it has more than {} GiB", bounds.bytes >> 30),
        Stop::TooDeep => format!("it is more than {} directories deep", bounds.depth),
        Stop::Failed(Errno::XDEV) => "a directory of the project".to_owned(),
        Stop::Failed(errno) => format!("a directory of the project: {errno}"),
    };
    sink.denied(Denial {
        rule: Rule::ReviewRename.code(),
        class: Class::Review,
        operation: "rename",
        path: to_path(path),
        pid,
        detail: Some(detail),
        suggestion: None,
    });
    Errno::XDEV
}
