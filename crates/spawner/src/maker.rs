//! A process for one order: makes the guest, tells the server, and ends.

use crate::guest::{self, LIVE, Plan, READY};
use crate::order::{self, Answer, Failed, Image, Layers, Order, Overlay, Owners};
use crate::pool::Waiting;
use crate::view::{self, Handed};
use atoll_guest::workload::now_us;
use atoll_jail::confine::{Filters, Listening};
use atoll_jail::enter::{self, EnterError, Launched, Side};
use atoll_jail::{overlay, spec};
use atoll_sys::capture::{Capture, Listeners, Ports};
use atoll_sys::netns::{self, Network};
use atoll_sys::probe;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;

/// The filters for commands of the user and of the root inside.
static FILTERS: LazyLock<[Filters; 2]> = LazyLock::new(|| {
    let confinement = view::confinement(Vec::new(), true);
    [Filters::build(&confinement, &[], Listening::Nobody), Filters::for_root(&confinement)]
});

/// Has everything ready that is the same for all orders, in the process that makers are
/// copies of.
pub(crate) fn prepare() {
    LazyLock::force(&FILTERS);
}

/// Carries out `order`, which came at `begun_us`, and answers on `reply`. Calls `has_begun`
/// when there is time for it: while the network is being made.
pub(crate) fn make(
    order: &Order,
    reply: &OwnedFd,
    pool: &Waiting,
    begun_us: u64,
    has_begun: impl FnOnce(),
) {
    let clear = || {
        std::fs::remove_file(order.socket.as_path()).ok();
    };
    match start(order, pool, begun_us, has_begun) {
        Ok((answer, launched)) => {
            let bytes = serde_json::to_vec(&answer).unwrap_or_default();
            let pidfd = Some(launched.pidfd.as_fd());
            // A server that is gone does not know of it, and the next one has looked
            // already, perhaps: without our word it ends.
            match atoll_sys::scm::send(reply.as_fd(), &bytes, pidfd) {
                Ok(()) => drop(atoll_sys::scm::send(launched.control.as_fd(), LIVE, None)),
                Err(_) => clear(),
            }
        }
        Err(failed) => {
            // It is ours, or was not made.
            if failed.step != "bind" {
                clear();
            }
            let bytes = serde_json::to_vec(&Answer::Failed(failed)).unwrap_or_default();
            atoll_sys::scm::send(reply.as_fd(), &bytes, None).ok();
        }
    }
}

fn start(
    order: &Order,
    pool: &Waiting,
    begun_us: u64,
    has_begun: impl FnOnce(),
) -> Result<(Answer, Launched), Failed> {
    // It takes the kernel as long as everything else, so it begins first.
    let network = network(order, pool).map_err(|error| Failed::io("netns", &error))?;
    let is_pooled = matches!(network, Network::Ready(_));
    // Before anything of the host is looked at, which may take as long as it likes.
    has_begun();
    let is_root = rustix::process::geteuid().is_root();
    let view = view::build(order, is_root)?;
    let steps =
        atoll_jail::plan::plan(&view.spec).map_err(|error| Failed::new("plan", &error, 0))?;
    let plan = Plan {
        user: view.spec.user,
        others: order.root.iter().flat_map(|root| &root.ids).map(ids).collect(),
        steps,
        filters: FILTERS[0].clone(),
        root_filters: order.root.as_ref().map(|_| FILTERS[1].clone()),
        of_root: match order.image {
            Image::Writable(_) => Vec::new(),
            Image::Host | Image::Directory(_) => vec![view::ROOT_HOME],
        },
        confinement: view.confinement,
        base: guest::base(order),
        volumes: order.volumes.iter().map(|one| one.at.as_path().to_owned()).collect(),
    };
    let handed = trees(&view.handed)?;
    let socket = bind(order.socket.as_path())?;
    let group = order.group.as_ref().map(|path| open(path.as_path())).transpose()?;
    let group = group.as_ref().map(OwnedFd::as_fd);
    let launched = match enter::enter(network, group).map_err(|error| refused(&error))? {
        Side::Inside(newborn) => {
            guest::become_guest(newborn, plan, handed, socket, order.capture.is_some())
        }
        Side::Outside(launched) => launched,
    };
    let cloned_us = now_us() - begun_us;
    let userns = launched.map(plan.user, &plan.others).map_err(|error| refused(&error))?;
    launched.go().map_err(|error| refused(&error))?;
    drop((handed, socket));
    if is_root {
        let root = match &order.image {
            Image::Writable(layers) => Some(layers),
            Image::Host | Image::Directory(_) => None,
        };
        // The root is bound first, and then one after the other by their places.
        let mut overlays: Vec<&Overlay> = order.overlays.iter().collect();
        overlays.sort_by_key(|one| one.at.as_path());
        for layers in root.into_iter().chain(overlays.into_iter().map(|one| &one.layers)) {
            let mounted = stack(layers, &userns)?;
            launched.hand(mounted.as_fd()).map_err(|error| refused(&error))?;
        }
    }
    let network = launched.listeners.as_ref().map(|one| hand(one, &launched)).transpose()?;
    await_ready(&launched)?;
    let (pid, ready_us) = (launched.pid, now_us() - begun_us);
    Ok((Answer::Started { pid, cloned_us, ready_us, network, is_pooled }, launched))
}

/// One that is ready, or one that is being made.
fn network(order: &Order, pool: &Waiting) -> io::Result<Network> {
    let Some(ports) = &order.capture else { return Ok(netns::prepare(Capture::None)?.into()) };
    match pool.take() {
        // Without nf_tables it has no listeners for other ports.
        Some(ready) if ready.is_complete() || ports.is_empty() => Ok(ready.into()),
        _ => Ok(netns::prepare(Capture::All(Ports::new(ports)))?.into()),
    }
}

/// Hands the guest what its network leads to; gives that network's cookie.
fn hand(listeners: &Listeners, launched: &Launched) -> Result<u64, Failed> {
    let failed = |error: io::Error| Failed::io("listen", &error);
    listeners.send(launched.control.as_fd()).map_err(failed)?;
    let first = listeners.tcp.first().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    atoll_sys::socket::network(first.as_fd()).map_err(failed)
}

/// Layers that may be written, with the owners of those below as the sandbox's.
fn stack(layers: &Layers, userns: &OwnedFd) -> Result<OwnedFd, Failed> {
    let moved = Moved::of(layers.lowers.iter().map(|lower| lower.owners))?;
    let owners = |owners| match owners {
        Owners::Inside => Some(userns.as_fd()),
        Owners::Own | Owners::Moved(_) | Owners::Account { .. } => moved.find(owners),
    };
    let lowers = layers.lowers.iter().map(|lower| {
        let (path, owners) = (lower.path.as_path(), owners(lower.owners));
        overlay::Layer { path, expect: None, owners }
    });
    let lowers: Vec<overlay::Layer<'_>> = lowers.collect();
    let above = [layers.upper.as_path(), layers.work.as_path()];
    overlay::mount_by_root(&lowers, above).map_err(|error| {
        let (step, errno) = error.step();
        Failed::new(step, &error, errno.unwrap_or(0))
    })
}

/// User namespaces by which files of others are shown as a sandbox's.
struct Moved(Vec<(Owners, OwnedFd)>);

impl Moved {
    /// One for each of these that is moved.
    fn of(owners: impl Iterator<Item = Owners>) -> Result<Self, Failed> {
        let mut moved: Vec<(Owners, OwnedFd)> = Vec::new();
        for one in owners {
            if moved.iter().any(|(known, _)| *known == one) {
                continue;
            }
            let made = match one {
                Owners::Own | Owners::Inside => continue,
                Owners::Moved(ids) => probe::user_namespace_of(ids.inside, ids.outside, ids.count),
                Owners::Account { uid, gid, outside_uid, outside_gid } => {
                    probe::user_namespace_of_account([uid, outside_uid], [gid, outside_gid])
                }
            };
            moved.push((one, made.map_err(|error| Failed::io("clone", &error))?));
        }
        Ok(Self(moved))
    }

    fn find(&self, owners: Owners) -> Option<BorrowedFd<'_>> {
        self.0.iter().find(|(known, _)| *known == owners).map(|(_, made)| made.as_fd())
    }
}

/// The trees that are handed in, opened before there is anybody inside.
fn trees(handed: &[Handed]) -> Result<Vec<OwnedFd>, Failed> {
    let moved = Moved::of(handed.iter().map(|one| one.owners))?;
    let tree = |one: &Handed| {
        // What is an image's is mounted when the sandbox's own ids are there.
        let owners = moved.find(one.owners);
        atoll_jail::tree::clone(&one.path, one.expect, owners).map_err(|error| {
            let (step, errno) = error.step();
            Failed::new(step, &error, errno.unwrap_or(0))
        })
    };
    handed.iter().map(tree).collect()
}

fn ids(ids: &order::Ids) -> spec::Ids {
    spec::Ids { inside: ids.inside, outside: ids.outside, count: ids.count }
}

fn open(group: &Path) -> Result<OwnedFd, Failed> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(group, flags, Mode::empty())
        .map_err(|error| Failed::io("cgroup", &error.into()))
}

/// The guest's socket, on which it will listen itself: until then nobody finds it.
/// Only the server's own user may ask it for anything.
fn bind(path: &Path) -> Result<OwnedFd, Failed> {
    let failed =
        |step: &'static str| move |error: rustix::io::Errno| Failed::io(step, &error.into());
    let address = SocketAddrUnix::new(path).map_err(failed("bind"))?;
    let kind = SocketType::STREAM;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed("socket"))?;
    let umask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &address);
    rustix::process::umask(umask);
    bound.map_err(failed("bind"))?;
    Ok(socket)
}

fn await_ready(launched: &Launched) -> Result<(), Failed> {
    let mut buffer = [0; 8192];
    let (length, _) = atoll_sys::scm::receive(launched.control.as_fd(), &mut buffer)
        .map_err(|error| Failed::io("ready", &error))?;
    match &buffer[..length] {
        said if said == READY => Ok(()),
        said => Err(serde_json::from_slice(said).unwrap_or_else(|_| Failed {
            step: "ready".to_owned(),
            text: "the guest ended before it was ready".to_owned(),
            errno: 0,
        })),
    }
}

fn refused(error: &EnterError) -> Failed {
    let (step, errno) = error.step();
    Failed::new(step, error, errno.unwrap_or(0))
}
