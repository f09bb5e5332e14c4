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
use rustix::fs::inotify;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
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
            keep(&watched, masks)
        }
    }
}

struct Watched {
    events: OwnedFd,
    directories: BTreeMap<i32, PathBuf>,
}

fn watch(masks: &[Mask]) -> rustix::io::Result<Watched> {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let flags = inotify::WatchFlags::CREATE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::ONLYDIR
        | inotify::WatchFlags::DONT_FOLLOW;
    let mut directories = BTreeMap::new();
    for parent in masks.iter().filter_map(|(path, _)| path.parent()) {
        let number = inotify::add_watch(&events, parent, flags)?;
        directories.insert(number, parent.to_owned());
    }
    Ok(Watched { events, directories })
}

/// Puts masks back for ever; the end of PID 1 is the end of this.
fn keep(watched: &Watched, masks: &[Mask]) -> ! {
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watched.events, &mut space);
    loop {
        let Ok(event) = reader.next() else { process::exit_now(1) };
        // Without a name: the queue has run over, so everything is looked at.
        let path = event.file_name().and_then(|name| {
            let name = std::ffi::OsStr::new(name.to_str().ok()?);
            Some(watched.directories.get(&event.wd())?.join(name))
        });
        for (mask, kind) in masks.iter().filter(|(mask, _)| concerns(path.as_deref(), mask)) {
            // A file that is gone again, or of another kind, has nothing to hide
            // behind this mask.
            apply::mask(mask, *kind).ok();
        }
    }
}

fn concerns(changed: Option<&Path>, mask: &Path) -> bool {
    changed.is_none_or(|changed| changed == mask)
}
