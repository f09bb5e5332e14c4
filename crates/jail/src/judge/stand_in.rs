//! Opening files of procfs as a caller of a nested user namespace would.
//!
//! Such files remember who opened them: a write to `uid_map` or `setgroups` is
//! allowed by the user namespace and the capabilities of the opener, not of the
//! writer, and which files `/proc/sys/user` and `/proc/sys/net` hold depends on who
//! looks (user_namespaces(7), namespaces(7)). So a child of the judge joins the
//! caller's namespaces, keeps no capability that the caller lacks, opens the file
//! there and hands the descriptor back.
//!
//! The judge may join because its user owns every namespace right below its own,
//! and who has all capabilities in one has them in those below it. The ids need no
//! change: a sandbox has one uid and one gid, whatever namespaces number them anew.
//! The child cannot be traced, since it is no more dumpable than the judge and its
//! memory still belongs to the sandbox's user namespace (ptrace(2)); what can be
//! done to it by its own uid, stopping and killing, fails the one call.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use atoll_sys::helper::{Helper, fork_helper, wait_for_helper};
use atoll_sys::{process, scm};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{
    CapabilitySet, CapabilitySets, ThreadNameSpaceType, move_into_thread_name_spaces,
    set_capabilities,
};

use super::caller::{Caller, errno};
use super::footing::{Footing, number};

/// Namespaces that procfs asks its opener about, the user namespace first.
const KINDS: [(&str, ThreadNameSpaceType); 4] = [
    ("user", ThreadNameSpaceType::USER),
    ("net", ThreadNameSpaceType::NETWORK),
    ("ipc", ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION),
    ("uts", ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME),
];

/// Nothing that the child does waits for anybody; longer means that it was stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// The judge's own namespaces, in the order of [`KINDS`]: device and inode.
pub(super) struct Home([(u64, u64); KINDS.len()]);

impl Home {
    pub(super) fn of_judge(footing: &Footing) -> Result<Self, Errno> {
        let mut own = [(0, 0); KINDS.len()];
        for (identity, (kind, _)) in own.iter_mut().zip(KINDS) {
            let found = statat(&footing.proc, format!("self/ns/{kind}"), AtFlags::empty())?;
            *identity = (found.st_dev, found.st_ino);
        }
        Ok(Self(own))
    }

    /// Gives what it takes to stand in for the caller, if its user namespace is
    /// another one.
    pub(super) fn stand_in(&self, caller: Caller<'_>) -> Result<Option<StandIn>, Errno> {
        let mut foreign = ThreadNameSpaceType::empty();
        for ((kind, flag), own) in KINDS.into_iter().zip(self.0) {
            if caller.namespace(kind)? != own {
                foreign |= flag;
            } else if foreign.is_empty() {
                return Ok(None);
            }
        }
        let (thread, capabilities) = (caller.pidfd()?, caller.capabilities()?);
        if !caller.is_waiting() {
            return Err(Errno::SRCH);
        }
        Ok(Some(StandIn { thread, foreign, capabilities }))
    }
}

/// A file of procfs that is to be opened.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// A name in a directory, which lies at `path`.
    Name { parent: BorrowedFd<'a>, name: &'a CStr, path: &'a [u8] },
    /// What a descriptor refers to.
    Object(BorrowedFd<'a>),
}

/// What makes the child like the caller.
pub(super) struct StandIn {
    thread: OwnedFd,
    /// Its user namespace, and others that are not the judge's.
    foreign: ThreadNameSpaceType,
    capabilities: u64,
}

impl StandIn {
    pub(super) fn open(
        &self,
        footing: &Footing,
        wanted: Wanted<'_>,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        match fork_helper().map_err(errno)? {
            Helper::Child => {
                drop(ours);
                let opened = self.become_caller(footing).and_then(|()| wanted.open(footing, flags));
                let word = opened.as_ref().map_or_else(|error| error.raw_os_error(), |_| 0);
                let file = opened.as_ref().ok().map(AsFd::as_fd);
                // Nobody else is there to be told.
                let _gone = scm::send(theirs.as_fd(), &word.to_ne_bytes(), file);
                process::exit_now(0)
            }
            Helper::Parent(child) => {
                drop(theirs);
                let answer = answer(ours.as_fd());
                // It has said what it had to say, or it never will.
                if let Some(pid) = Pid::from_raw(child) {
                    let _ended = kill_process(pid, Signal::KILL);
                }
                let _gone = wait_for_helper(child);
                answer
            }
        }
    }

    fn become_caller(&self, footing: &Footing) -> Result<(), Errno> {
        footing.raise();
        // All in one: who is in the innermost user namespace may not join what belongs
        // to one above it.
        move_into_thread_name_spaces(self.thread.as_fd(), self.foreign)?;
        let own = CapabilitySet::from_bits_retain(self.capabilities);
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: own, permitted: own, inheritable })
    }
}

impl Wanted<'_> {
    fn open(self, footing: &Footing, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Self::Name { parent, name, path } => match path.strip_prefix(b"/proc/") {
                // The directory that the judge found holds the judge's files.
                Some(below) if below.starts_with(b"sys/") => {
                    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                    openat2(&footing.proc, below, flags, Mode::empty(), resolve)
                }
                _ => openat(parent, name, flags, Mode::empty()),
            },
            Self::Object(object) => {
                let own = [b"self/fd/", number(object).as_c_str().to_bytes()].concat();
                openat(&footing.proc, own, flags, Mode::empty())
            }
        }
    }
}

fn answer(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    if poll(&mut polled, Some(&patience))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    let mut word = [0; size_of::<i32>()];
    match scm::receive(socket, &mut word).map_err(errno)? {
        (length, Some(file)) if length == word.len() => Ok(file),
        (length, None) if length == word.len() => {
            Err(Errno::from_raw_os_error(i32::from_ne_bytes(word)))
        }
        _ => Err(Errno::INTR),
    }
}
