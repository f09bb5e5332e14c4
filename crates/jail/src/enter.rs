//! Making the process that becomes PID 1 of the jail, and the talk between it
//! and the launcher before the view is made.
//!
//! The order matters. The launcher writes the id maps and takes a descriptor of
//! the user namespace while the child is still dumpable; only then does it say
//! "go", and the child's first act is to make itself unreadable. Nothing else
//! runs inside before that.

use crate::spec::{Ids, User};
use atoll_sys::capture::Listeners;
use atoll_sys::clone::{self, Fork};
use atoll_sys::netns::{NetError, Network};
use atoll_sys::processor::{self, Affinity};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Why no process could be put into a jail. `step` names are stable.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error("cannot make the control socket")]
    Socket(#[source] io::Error),
    #[error("cannot make the network namespace ({step})")]
    Network { step: &'static str, source: io::Error },
    #[error("cannot make the namespaces")]
    Namespaces(#[source] io::Error),
    #[error("cannot write {path:?}")]
    Map { path: PathBuf, source: io::Error },
    #[error("cannot become user {uid}")]
    Become { uid: u32, source: io::Error },
    #[error("the launcher went away")]
    Abandoned,
}

impl EnterError {
    /// The failed step, for whoever explains it, with the errno.
    #[must_use]
    pub fn step(&self) -> (&'static str, Option<i32>) {
        match self {
            Self::Socket(source) => ("socket", source.raw_os_error()),
            Self::Network { step, source } => (step, source.raw_os_error()),
            Self::Namespaces(source) => ("clone", source.raw_os_error()),
            Self::Map { source, .. } => ("uid_map", source.raw_os_error()),
            Self::Become { source, .. } => ("setuid", source.raw_os_error()),
            Self::Abandoned => ("go", None),
        }
    }
}

/// Which side of [`enter`] this is.
#[derive(Debug)]
pub enum Side {
    Inside(Newborn),
    Outside(Launched),
}

/// The child, before it may act.
#[derive(Debug)]
pub struct Newborn {
    control: OwnedFd,
    /// The launcher's own, which are to be its own too.
    processors: Affinity,
}

/// The launcher's hold on the child.
#[derive(Debug)]
pub struct Launched {
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub control: OwnedFd,
    /// Where all that would leave its network arrives, if that is captured.
    pub listeners: Option<Listeners>,
}

/// The length of "go"; a handed tree is a message of length 1.
const GO: &[u8] = b"go";
const TREE: &[u8] = b"t";

/// Clones the calling process, which must have one thread, into new user,
/// mount, pid, IPC, UTS and cgroup namespaces, and into the network namespace
/// that has been prepared.
///
/// The network namespace is entered first, so it belongs to a user namespace
/// above the sandbox's own: nothing inside can ever change its rules, links or
/// routes, whatever capabilities it might come to hold.
///
/// # Errors
///
/// [`EnterError::Socket`], [`EnterError::Namespaces`].
pub fn enter(
    network: impl Into<Network>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Side, EnterError> {
    let mut network = network.into();
    let failed = |error: NetError| EnterError::Network { step: error.step, source: error.source };
    network.enter().map_err(failed)?;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| EnterError::Socket(error.into()))?;
    let namespaces = clone::NEW_USER
        | clone::NEW_MOUNT
        | clone::NEW_PID
        | clone::NEW_IPC
        | clone::NEW_UTS
        | clone::NEW_CGROUP;
    let (processor, processors) = (processor::current(), Affinity::of_caller());
    match clone::fork_into(namespaces, cgroup).map_err(EnterError::Namespaces)? {
        Fork::Child => {
            drop(ours);
            Ok(Side::Inside(Newborn { control: theirs, processors }))
        }
        Fork::Parent { pid, pidfd } => {
            // It makes the view while we see to what it needs.
            processor::keep_off(processor, Pid::from_raw(pid));
            drop(theirs);
            // Else the child learns that nobody is there.
            let listeners = network.listeners().map_err(failed)?;
            Ok(Side::Outside(Launched { pid, pidfd, control: ours, listeners }))
        }
    }
}

impl Launched {
    /// Writes the id maps, with `others` beside the user's own, and gives the child's
    /// user namespace.
    ///
    /// A caller who is not root of its own user namespace may map only itself,
    /// and gives up setgroups(2) for it (user_namespaces(7)).
    ///
    /// # Errors
    ///
    /// [`EnterError::Map`] with the file that could not be written.
    pub fn map(&self, user: User, others: &[Ids]) -> Result<OwnedFd, EnterError> {
        let path = PathBuf::from(format!("/proc/{}", self.pid));
        let failed = |name: &str| {
            let path = path.join(name);
            move |error: rustix::io::Errno| EnterError::Map { path, source: error.into() }
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed(""))?;
        let write = |name: &str, text: &str| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
            rustix::io::write(&file, text.as_bytes()).map(|_| ())
        };
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            write("setgroups", "deny").map_err(failed("setgroups"))?;
        }
        let lines = |inside: u32, outside: u32| {
            let own = Ids { inside, outside, count: 1 };
            let all = std::iter::once(&own).chain(others);
            all.map(|ids| format!("{} {} {}\n", ids.inside, ids.outside, ids.count)).collect()
        };
        let (uids, gids): (String, String) =
            (lines(user.inside_uid, user.outside_uid), lines(user.inside_gid, user.outside_gid));
        write("uid_map", &uids).map_err(failed("uid_map"))?;
        write("gid_map", &gids).map_err(failed("gid_map"))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&directory, "ns/user", flags, Mode::empty()).map_err(failed("ns/user"))
    }

    /// Hands in a detached tree that could only be opened after the clone; the
    /// order is that of [`Source::Late`](crate::spec::Source::Late).
    ///
    /// # Errors
    ///
    /// The child is gone.
    pub fn hand(&self, tree: BorrowedFd<'_>) -> Result<(), EnterError> {
        atoll_sys::scm::send(self.control.as_fd(), TREE, Some(tree)).map_err(EnterError::Socket)
    }

    /// Lets the child act.
    ///
    /// # Errors
    ///
    /// The child is gone.
    pub fn go(&self) -> Result<(), EnterError> {
        atoll_sys::scm::send(self.control.as_fd(), GO, None).map_err(EnterError::Socket)
    }
}

/// The child, allowed to act.
#[derive(Debug)]
pub struct Admitted {
    pub control: OwnedFd,
}

impl Admitted {
    /// Waits for the next tree that the launcher hands in.
    ///
    /// # Errors
    ///
    /// The launcher went away.
    pub fn next_tree(&self) -> io::Result<OwnedFd> {
        let mut buffer = [0; 8];
        let (length, tree) = atoll_sys::scm::receive(self.control.as_fd(), &mut buffer)?;
        match (&buffer[..length], tree) {
            (message, Some(tree)) if message == TREE => Ok(tree),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Whether a sandbox ends with who launched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    /// It is killed with the thread that cloned it.
    Launcher,
    /// It goes on.
    None,
}

impl Newborn {
    /// Waits for the launcher's word, then becomes unreadable to all and the
    /// user that it is to be.
    ///
    /// # Errors
    ///
    /// [`EnterError::Abandoned`], [`EnterError::Become`].
    pub fn admitted(self, user: User, bond: Bond) -> Result<Admitted, EnterError> {
        let mut buffer = [0; 8];
        let (length, _) = atoll_sys::scm::receive(self.control.as_fd(), &mut buffer)
            .map_err(EnterError::Socket)?;
        if &buffer[..length] != GO {
            return Err(EnterError::Abandoned);
        }
        self.processors.restore();
        become_user(user, bond)
            .map_err(|source| EnterError::Become { uid: user.inside_uid, source })?;
        Ok(Admitted { control: self.control })
    }
}

fn become_user(user: User, bond: Bond) -> io::Result<()> {
    use rustix::process::{Gid, Uid};
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none)?;
    match rustix::thread::set_thread_groups(&[]) {
        // An ordinary caller gave setgroups up; its groups stay as they were.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let (uid, gid) = (Uid::from_raw(user.inside_uid), Gid::from_raw(user.inside_gid));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // Changing ids clears it, so it comes last. The launcher's control socket
    // covers the moment before.
    let signal = (bond == Bond::Launcher).then_some(Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal)?;
    Ok(())
}
