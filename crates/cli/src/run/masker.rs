//! Keeps hidden files of a live workspace hidden while the host works on them.
//!
//! A mask is a mount on the hidden file. When a program on the host saves the
//! file by renaming a new one over it, the kernel takes the mount away. This
//! process watches the directories and puts the mask back; in the moment between,
//! the new file can be read. Strict mode has no such moment, since there the
//! judge looks at every open.
//!
//! It is a child of PID 1 outside the workload's Landlock domain, cannot be
//! traced, and keeps one capability in the sandbox's own user namespace.

use super::inside::failure;
use atoll_guest::message::Failure;
use atoll_jail::apply;
use atoll_jail::confine;
use atoll_jail::spec::Kind;
use atoll_sys::helper::{Helper, fork_helper};
use atoll_sys::process;
use rustix::fs::{Mode, OFlags, inotify};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A hidden place, as seen inside.
pub(super) type Mask = (PathBuf, Kind);

/// `CAP_SYS_ADMIN` of capabilities(7).
const SYS_ADMIN: u32 = 21;

/// Starts to watch, if there is anything to.
pub(super) fn start(masks: &[Mask]) -> Result<(), Failure> {
    if masks.is_empty() {
        return Ok(());
    }
    // Before the workload runs: from here on no change is missed.
    let watched = watch(masks).map_err(|error| failure("inotify", &error, error.raw_os_error()))?;
    match fork_helper().map_err(|error| failure("fork", &error, 0))? {
        Helper::Parent(_) => Ok(()),
        Helper::Child => {
            atoll_guest::init::leave_standard_descriptors();
            if confine::drop_capabilities(1 << SYS_ADMIN).is_err() {
                process::exit_now(1);
            }
            keep(&watched)
        }
    }
}

struct Watched {
    events: OwnedFd,
    /// By their number in the queue. Held open, since the workload may rename them.
    directories: BTreeMap<i32, Directory>,
}

struct Directory {
    fd: OwnedFd,
    masks: Vec<(OsString, Kind)>,
}

fn watch(masks: &[Mask]) -> rustix::io::Result<Watched> {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let flags = inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::ONLYDIR
        | inotify::WatchFlags::DONT_FOLLOW;
    let mut directories = BTreeMap::new();
    for (path, kind) in masks {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let number = inotify::add_watch(&events, parent, flags)?;
        let directory = match directories.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = rustix::fs::open(parent, flags, Mode::empty())?;
                new.insert(Directory { fd, masks: Vec::new() })
            }
        };
        directory.masks.push((name.to_owned(), *kind));
    }
    Ok(Watched { events, directories })
}

/// Puts masks back for ever; the end of PID 1 is the end of this.
fn keep(watched: &Watched) -> ! {
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watched.events, &mut space);
    loop {
        let Ok(event) = reader.next() else { process::exit_now(1) };
        match (watched.directories.get(&event.wd()), event.file_name()) {
            (Some(directory), Some(name)) => directory.mask(Some(name.to_bytes())),
            // The queue has run over, so everything is looked at.
            _ => watched.directories.values().for_each(|directory| directory.mask(None)),
        }
    }
}

impl Directory {
    /// Masks what has this name now, or everything.
    fn mask(&self, changed: Option<&[u8]>) {
        let is_concerned =
            |name: &OsString| changed.is_none_or(|changed| changed == name.as_bytes());
        for (name, kind) in self.masks.iter().filter(|(name, _)| is_concerned(name)) {
            // A file that is gone again, or of another kind, has nothing to hide
            // behind this mask.
            apply::mask(self.fd.as_fd(), Path::new(name), *kind).ok();
        }
    }
}
