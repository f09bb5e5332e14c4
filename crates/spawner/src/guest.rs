//! The half of a start that is the guest.

use crate::order::{Failed, Order, VOLUME_STEP};
use crate::view::RUN;
use atoll_guest::message::{Failure, FailureKind};
use atoll_guest::serve::{Base, Limits, Server};
use atoll_jail::apply::ApplyError;
use atoll_jail::confine::{self, ConfineError, Confinement, Filters, Walls};
use atoll_jail::enter::{Bond, Newborn};
use atoll_jail::plan::{Step, WRITABLE_ROOT};
use atoll_jail::{apply, root, spec};
use atoll_protocol::exec::User;
use atoll_protocol::octets::Octets;
use atoll_sys::capture::Listeners;
use atoll_sys::process::{self, SignalSet};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What the guest says when it listens; else a [`Failed`] in JSON.
pub(crate) const READY: &[u8] = b"ready";

/// What the maker says when the server knows of the guest.
pub(crate) const LIVE: &[u8] = b"live";

/// Everything that a guest needs, planned before it exists.
pub(crate) struct Plan {
    pub(crate) user: spec::User,
    pub(crate) others: Vec<spec::Ids>,
    pub(crate) steps: Vec<Step>,
    pub(crate) confinement: Confinement,
    pub(crate) filters: Filters,
    /// For commands of the root inside, if there is one.
    pub(crate) root_filters: Option<Filters>,
    /// Directories that are to be root's.
    pub(crate) of_root: Vec<&'static str>,
    pub(crate) base: Base,
    /// Places of volumes.
    pub(crate) volumes: Vec<PathBuf>,
}

/// What every command of the sandbox begins with.
pub(crate) fn base(order: &Order) -> Base {
    let variable = |(name, value): &(Octets, Octets)| {
        (name.as_os_str().to_owned(), value.as_os_str().to_owned())
    };
    let nofile = getrlimit(Resource::Nofile);
    let files = order.open_files.map_or(nofile, |limit| lowered(Resource::Nofile, limit));
    let processes = order.processes.map(|limit| (Resource::Nproc, lowered(Resource::Nproc, limit)));
    Base {
        environment: order.environment.iter().map(variable).collect(),
        root_environment: order
            .root
            .iter()
            .flat_map(|root| &root.environment)
            .map(variable)
            .collect(),
        directory: order.directory.as_path().to_owned(),
        // Private, and gone with the processes that they are about.
        sessions: SESSIONS.into(),
        root_sessions: ROOT_SESSIONS.into(),
        limits: [(Resource::Nofile, files)].into_iter().chain(processes).collect(),
        umask: 0o022,
    }
}

const SESSIONS: &str = "/run/atoll/sessions";
const ROOT_SESSIONS: &str = "/run/atoll/root-sessions";

/// Gives the root inside what is its own: nobody else may change what it takes up.
fn give_to_root(more: &[&str]) -> Result<(), Failed> {
    use std::os::unix::fs::{DirBuilderExt as _, chown};
    let failed = |error: io::Error| Failed::io("chown", &error);
    let make = |path: &str, mode| std::fs::DirBuilder::new().mode(mode).create(path);
    make("/run/atoll", 0o755).map_err(failed)?;
    make(SESSIONS, 0o700).map_err(failed)?;
    make(ROOT_SESSIONS, 0o700).map_err(failed)?;
    for path in [ROOT_SESSIONS, "/run/atoll", RUN].iter().chain(more) {
        chown(path, Some(0), Some(0)).map_err(failed)?;
    }
    Ok(())
}

/// Nobody inside may raise what we have.
fn lowered(resource: Resource, limit: u64) -> Rlimit {
    let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Some(limit.min(own)).filter(|limit| *limit != u64::MAX);
    Rlimit { current: limit, maximum: limit }
}

/// Becomes the guest, and serves on `socket` to the end.
pub(crate) fn become_guest(
    newborn: Newborn,
    plan: Plan,
    handed: Vec<OwnedFd>,
    socket: OwnedFd,
    is_captured: bool,
) -> ! {
    process::set_signal_mask(SignalSet::ALL).ok();
    process::scrub_arguments(c"atoll-guest");
    rustix::thread::set_name(c"atoll-guest").ok();
    rustix::process::umask(rustix::fs::Mode::empty());
    let Ok(admitted) = newborn.admitted(plan.user, Bond::None) else {
        // There is nobody to tell.
        process::exit_now(1)
    };
    // What the spawner has is not the guest's: it would keep its server waiting.
    let trees = handed.iter().map(OwnedFd::as_fd);
    let own: Vec<BorrowedFd<'_>> =
        trees.chain([admitted.control.as_fd(), socket.as_fd()]).collect();
    if atoll_sys::fd::close_all_but(&own).is_err() {
        process::exit_now(1)
    }
    let server = prepare(plan, handed, socket, &mut || admitted.next_tree()).and_then(|server| {
        if is_captured { captured(server, &admitted.control) } else { Ok(server) }
    });
    let said = match &server {
        Ok(_) => READY.to_vec(),
        Err(failed) => serde_json::to_vec(failed).unwrap_or_default(),
    };
    atoll_sys::scm::send(admitted.control.as_fd(), &said, None).ok();
    match server {
        Ok(mut server) if is_wanted(&admitted.control) => {
            drop(admitted);
            server.run();
            process::exit_now(0)
        }
        Ok(_) | Err(_) => process::exit_now(1),
    }
}

/// Has the guest keep what its network leads to, which the maker hands in last.
fn captured(mut server: Server, control: &OwnedFd) -> Result<Server, Failed> {
    Listeners::receive(control.as_fd())
        .and_then(|listeners| server.keep_listeners(listeners))
        .map_err(|error| Failed::io("listen", &error))?;
    Ok(server)
}

/// Waits for the maker's last word; without it the server is gone, or the maker.
fn is_wanted(control: &OwnedFd) -> bool {
    let mut buffer = [0; 16];
    let heard = atoll_sys::scm::receive(control.as_fd(), &mut buffer);
    heard.is_ok_and(|(length, _)| &buffer[..length] == LIVE)
}

fn prepare(
    plan: Plan,
    handed: Vec<OwnedFd>,
    socket: OwnedFd,
    next_tree: &mut dyn FnMut() -> io::Result<OwnedFd>,
) -> Result<Server, Failed> {
    apply::apply(&plan.steps, &handed, next_tree).map_err(|error| {
        let errno = error.source.raw_os_error().unwrap_or(0);
        let volume = plan.steps.get(error.index).and_then(|step| volume(step, &plan.volumes));
        match volume {
            Some(at) => Failed { step: VOLUME_STEP.to_owned(), text: place(at, &error), errno },
            None => Failed::new(error.call, &error, errno),
        }
    })?;
    drop(handed);
    let mut walls = Walls::prepare(&plan.confinement, plan.filters).map_err(unconfined)?;
    // Connections and commands need more than a shell gives; theirs is in the base.
    let nofile = getrlimit(Resource::Nofile);
    let nofile = Rlimit { current: nofile.maximum, ..nofile };
    setrlimit(Resource::Nofile, nofile).map_err(|error| Failed::io("setrlimit", &error.into()))?;
    // What was the caller's is nobody's here.
    rustix::process::setsid().map_err(|error| Failed::io("setsid", &error.into()))?;
    atoll_guest::init::leave_standard_descriptors();
    // The socket tells the process that listens to whoever connects.
    rustix::net::listen(&socket, BACKLOG).map_err(|error| Failed::io("listen", &error.into()))?;
    // All that it starts may signal each other then.
    walls.enter_domain().map_err(unconfined)?;
    let root = match plan.root_filters {
        Some(filters) => {
            give_to_root(&plan.of_root)?;
            root::keep_in_reserve().map_err(unconfined)?;
            let walls = walls.with_filters(filters);
            Some(walls.map_err(|error| Failed::io("landlock", &error))?)
        }
        None => {
            confine::drop_capabilities(0).map_err(unconfined)?;
            None
        }
    };
    let walls = Box::new(Raised { walls, root });
    Server::new(socket, plan.base, walls, Limits::default())
        .map_err(|error| Failed::io("signalfd", &error))
}

/// The volume whose place a step makes, or a directory above it.
fn volume<'a>(step: &Step, volumes: &'a [PathBuf]) -> Option<&'a Path> {
    let Step::MakeDirectory { path, .. } = step else { return None };
    // While it is made, a root file system that can be written is a directory of another one.
    let inside = path.strip_prefix(WRITABLE_ROOT).unwrap_or(path);
    let inside = Path::new("/").join(inside);
    volumes.iter().map(PathBuf::as_path).find(|at| at.starts_with(&inside))
}

fn place(at: &Path, error: &ApplyError) -> String {
    let source = &error.source;
    format!("{} cannot be made, or is no directory, or is behind a link: {source}", at.display())
}

fn unconfined(error: ConfineError) -> Failed {
    let (step, errno) = error.step();
    Failed::new(step, &error, errno)
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The walls of the jail around every command. All are in one Landlock domain.
struct Raised {
    walls: Walls,
    /// Those around commands of the root inside.
    root: Option<Walls>,
}

impl atoll_guest::serve::Walls for Raised {
    fn raise(&mut self, user: User) -> Result<(), Failure> {
        match (user, &self.root) {
            (User::Workload, _) => self.user()?.raise().map(drop).map_err(|error| refused(&error)),
            (User::Root, Some(walls)) => {
                again(walls)?.raise_as_root().map_err(|error| refused(&error))
            }
            (User::Root, None) => Err(Failure {
                kind: FailureKind::Jail,
                step: "user".to_owned(),
                text: "this sandbox has no root".to_owned(),
                errno: 0,
            }),
        }
    }

    fn raise_around_worker(&mut self) -> Result<(), Failure> {
        self.user()?.raise_without_filter().map_err(|error| refused(&error))
    }

    fn has(&self, user: User) -> bool {
        user == User::Workload || self.root.is_some()
    }
}

impl Raised {
    /// Those of the ordinary user, for a process that has nothing of root's any more.
    fn user(&self) -> Result<Walls, Failure> {
        if self.root.is_some() {
            root::renounce().map_err(|error| refused(&error))?;
        }
        again(&self.walls)
    }
}

fn again(walls: &Walls) -> Result<Walls, Failure> {
    walls.try_clone().map_err(|error| Failure {
        kind: FailureKind::Jail,
        step: "landlock".to_owned(),
        text: format!("no descriptor for the walls: {error}"),
        errno: error.raw_os_error().unwrap_or(0),
    })
}

fn refused(error: &ConfineError) -> Failure {
    let (step, errno) = error.step();
    let Failed { step, text, errno } = Failed::new(step, error, errno);
    Failure { kind: FailureKind::Jail, step, text, errno }
}
