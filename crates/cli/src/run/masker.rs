//! Keeps hidden files of a live workspace hidden while the host works on them.
//!
//! A mask is a mount on the hidden file. When a program on the host saves the
//! file by renaming a new one over it, the kernel takes the mount away. So it does
//! when the host removes the file's directory, and makes another one. This process
//! watches the directories from the project down to each hidden file, and puts the
//! mask back; in the moment between, the new file can be read. Strict mode has no
//! such moment, since there the judge looks at every open.
//!
//! It is a child of PID 1 outside the workload's Landlock domain, cannot be
//! traced, and keeps two capabilities in the sandbox's own user namespace: one to
//! mount, one to look into directories that the workload closes.

use super::inside::failure;
use atoll_guest::message::Failure;
use atoll_jail::apply;
use atoll_jail::confine;
use atoll_jail::spec::Kind;
use atoll_sys::helper::{Helper, fork_helper};
use atoll_sys::{mount, process};
use rustix::fs::{CWD, Mode, OFlags, inotify, openat};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A hidden place, as seen inside.
pub(super) type Mask = (PathBuf, Kind);

/// `CAP_DAC_READ_SEARCH` and `CAP_SYS_ADMIN` of capabilities(7).
const KEPT: u64 = 1 << 2 | 1 << 21;

/// Starts to watch below `root`, if there is anything to.
pub(super) fn start(root: &Path, masks: &[Mask]) -> Result<(), Failure> {
    if masks.is_empty() {
        return Ok(());
    }
    // Before the workload runs: from here on no change is missed.
    let failed = |error: Errno| failure("inotify", &error, error.raw_os_error());
    let mut watched = Watched::new(root, masks).map_err(failed)?;
    // Mount namespaces that the workload makes have masks of their own, which go too
    // when a file is replaced: those that are put back must come there as well.
    open_directory(CWD, root.as_os_str())
        .map_err(std::io::Error::from)
        .and_then(|root| mount::share(root.as_fd()))
        .map_err(|error| {
            failure("mount_setattr", &error, error.raw_os_error().unwrap_or_default())
        })?;
    match fork_helper().map_err(|error| failure("fork", &error, 0))? {
        Helper::Parent(_) => Ok(()),
        Helper::Child => {
            atoll_guest::init::leave_standard_descriptors();
            if confine::drop_capabilities(KEPT).is_err() {
                process::exit_now(1);
            }
            watched.keep()
        }
    }
}

/// A directory by its path: what is hidden in it, and where it goes on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    masks: Vec<(OsString, Kind)>,
    below: BTreeMap<OsString, usize>,
    /// The directories that came to be here, by their number in the queue.
    held: VecDeque<i32>,
}

/// Directories that one place remembers: the first, since that one may be moved
/// and saved into where it is then, and the last that took its place. The workload
/// can move directories as often as it likes.
const HELD_MAX: usize = 16;

/// The places on the way from `root` to every mask; the root is the first.
fn places(root: &Path, masks: &[Mask]) -> Vec<Place> {
    let mut places = vec![Place::default()];
    for (path, kind) in masks {
        let Ok(path) = path.strip_prefix(root) else { continue };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let mut at = 0;
        for step in parent.iter() {
            let next = places.len();
            at = *places[at].below.entry(step.to_owned()).or_insert(next);
            if at == next {
                places.push(Place::default());
            }
        }
        places[at].masks.push((name.to_owned(), *kind));
    }
    places
}

struct Watched {
    events: OwnedFd,
    places: Vec<Place>,
    /// By their number in the queue.
    directories: BTreeMap<i32, Directory>,
}

/// Held open, since the workload may rename it.
struct Directory {
    fd: OwnedFd,
    /// Where it has been, more than one if it was moved from place to place.
    places: Vec<usize>,
}

impl Watched {
    fn new(root: &Path, masks: &[Mask]) -> Result<Self, Errno> {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        let places = places(root, masks);
        let mut watched = Self { events, places, directories: BTreeMap::new() };
        let root = open_directory(CWD, root.as_os_str())?;
        watched.enter(0, root)?;
        Ok(watched)
    }

    /// Puts masks back for ever; the end of PID 1 is the end of this.
    fn keep(&mut self) -> ! {
        let mut space = [MaybeUninit::uninit(); 4096];
        let Ok(events) = rustix::io::fcntl_dupfd_cloexec(&self.events, 0) else {
            process::exit_now(1)
        };
        let mut reader = inotify::Reader::new(&events, &mut space);
        loop {
            let Ok(event) = reader.next() else { process::exit_now(1) };
            let number = event.wd();
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                let all: Vec<i32> = self.directories.keys().copied().collect();
                all.into_iter().for_each(|number| self.changed(number, None));
            } else if event.events().contains(inotify::ReadFlags::IGNORED) {
                self.forget(number);
            } else if let Some(name) = event.file_name() {
                self.changed(number, Some(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }

    /// Looks at what has this name now in a directory, or at everything.
    fn changed(&mut self, number: i32, name: Option<&OsStr>) {
        let Some(directory) = self.directories.get(&number) else { return };
        let (fd, places) = (directory.fd.as_fd(), &directory.places);
        let found: Vec<_> = places.iter().flat_map(|place| self.mask(*place, fd, name)).collect();
        for (place, fd) in found {
            // Whatever cannot be watched has its masks for now.
            let _unwatched = self.enter(place, fd);
        }
    }

    /// Watches a directory that is at `place` now, masks what is hidden in it, and
    /// does the same below.
    fn enter(&mut self, place: usize, fd: OwnedFd) -> Result<(), Errno> {
        let flags = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::ONLYDIR;
        // The directory itself, whatever has its name by now.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let added = inotify::add_watch(&self.events, path, flags);
        // Only now: what comes later is an event.
        let below = self.mask(place, fd.as_fd(), None);
        if let Ok(number) = added {
            self.hold(place, number, fd);
        }
        let below = below.into_iter().map(|(place, fd)| self.enter(place, fd));
        below.fold(added.map(drop), Result::and)
    }

    /// Masks what has this name in the directory `fd` at `place`, or everything;
    /// gives the directories on the way to more.
    fn mask(
        &self,
        place: usize,
        fd: BorrowedFd<'_>,
        name: Option<&OsStr>,
    ) -> Vec<(usize, OwnedFd)> {
        let Place { masks, below, .. } = &self.places[place];
        let is_concerned = |other: &OsStr| name.is_none_or(|name| name == other);
        for (name, kind) in masks.iter().filter(|(name, _)| is_concerned(name)) {
            // A file that is gone again, or of another kind, has nothing to hide
            // behind this mask.
            apply::mask(fd, Path::new(name), *kind).ok();
        }
        let below = below.iter().filter(|(name, _)| is_concerned(name));
        below.filter_map(|(name, place)| Some((*place, open_directory(fd, name).ok()?))).collect()
    }

    fn hold(&mut self, place: usize, number: i32, fd: OwnedFd) {
        let new = || Directory { fd, places: Vec::new() };
        let directory = self.directories.entry(number).or_insert_with(new);
        if directory.places.contains(&place) {
            return;
        }
        directory.places.push(place);
        let held = &mut self.places[place].held;
        held.push_back(number);
        if held.len() > HELD_MAX
            && let Some(old) = held.remove(1)
            && let Some(directory) = self.directories.get_mut(&old)
        {
            directory.places.retain(|other| *other != place);
            if directory.places.is_empty() {
                // Its end is an event, which finds nothing left to do.
                let _gone = inotify::remove_watch(&self.events, old);
                self.directories.remove(&old);
            }
        }
    }

    fn forget(&mut self, number: i32) {
        let Some(directory) = self.directories.remove(&number) else { return };
        for place in directory.places {
            self.places[place].held.retain(|held| *held != number);
        }
    }
}

fn open_directory(base: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(base, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_on_the_way() {
        let mask = |path: &str, kind| (PathBuf::from(path), kind);
        let masks = [
            mask("/w/.env", Kind::File),
            mask("/w/a/b/key", Kind::File),
            mask("/w/a/keys", Kind::Directory),
            mask("/elsewhere/key", Kind::File),
        ];
        let found = places(Path::new("/w"), &masks);
        let names = |place: &Place| -> Vec<(String, Kind)> {
            let name = |name: &OsString| name.to_str().unwrap().to_owned();
            place.masks.iter().map(|(mask, kind)| (name(mask), *kind)).collect()
        };
        assert_eq!(found.len(), 3);
        assert_eq!(names(&found[0]), [(".env".to_owned(), Kind::File)]);
        let a = &found[found[0].below[OsStr::new("a")]];
        assert_eq!(names(a), [("keys".to_owned(), Kind::Directory)]);
        let b = &found[a.below[OsStr::new("b")]];
        assert_eq!(names(b), [("key".to_owned(), Kind::File)]);
    }
}
