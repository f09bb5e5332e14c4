//! The two trees that a review session is made of, and how to read the upper
//! one, whose modes may shut even its owner out.

use crate::beneath;
use crate::changes::ChangesError;
use crate::changes::conflict::is_newer;
use crate::node::{FileKind, Stamp, Time};
use crate::overlay::Format;
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Permission bits that the owner needs to list and enter a directory.
const ENTER: u32 = 0o500;

/// Owner and group in the upper that stand for others on the host.
///
/// Root's own project is worked on by a user that owns nothing on the host; its
/// mount shows root's files as that user's, but the upper has the real ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIn {
    /// (user, group) as the upper has them.
    pub upper: (u32, u32),
    /// (user, group) that they mean.
    pub host: (u32, u32),
}

/// What to compare.
#[derive(Debug, Clone)]
pub struct ViewSpec {
    /// The upper directory of the overlay.
    pub upper: PathBuf,
    /// The project, which is the overlay's only lower directory.
    pub project: PathBuf,
    pub format: Format,
    /// Paths, relative to the project, at which a whiteout was put into the
    /// upper before the mount to hide a file.
    pub masked: BTreeSet<PathBuf>,
    /// When the session started. Files of the host that changed since then are
    /// conflicts; without it nothing is.
    pub started: Option<Time>,
    /// Whose files of the upper are meant to be somebody else's.
    pub stand_in: Option<StandIn>,
    /// What earlier applies of the same session knew about directories.
    pub baseline: Baseline,
    /// Whether the session still runs. Then nothing in its upper is touched,
    /// and what its modes shut out is reported as unreadable.
    pub is_running: bool,
}

/// The open trees of a review session.
///
/// Directories of the upper whose mode shuts out an ordinary owner are opened
/// up while the view lives and get their mode back when it is dropped.
pub struct View {
    pub(crate) upper: OwnedFd,
    pub(crate) project: OwnedFd,
    pub(crate) spec: ViewSpec,
    opened_up: RefCell<BTreeMap<PathBuf, (OwnedFd, u32)>>,
}

impl View {
    /// Opens both trees.
    ///
    /// # Errors
    ///
    /// When one of them is not a directory that can be opened.
    pub fn open(spec: ViewSpec) -> std::result::Result<Self, ChangesError> {
        let open = |path: &Path| {
            beneath::open_root(path)
                .map_err(|source| ChangesError::Open { path: path.to_owned(), source })
        };
        let (upper, project) = (open(&spec.upper)?, open(&spec.project)?);
        Ok(Self { upper, project, spec, opened_up: RefCell::default() })
    }

    pub(crate) fn upper(&self) -> BorrowedFd<'_> {
        self.upper.as_fd()
    }

    pub(crate) fn project(&self) -> BorrowedFd<'_> {
        self.project.as_fd()
    }

    pub(crate) fn is_masked(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.spec.masked.contains(path))
    }

    /// The first masked path at or beneath `path`, if there is one.
    pub(crate) fn masks_beneath<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.spec
            .masked
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .take_while(move |masked| masked.starts_with(path))
            .map(PathBuf::as_path)
    }

    /// Gives the owner access to a directory of the upper until the view is
    /// dropped. `stamp` still tells the mode it really has.
    pub(crate) fn open_up(&self, path: &Path, stamp: &Stamp) -> Result<()> {
        let is_open = stamp.mode & ENTER == ENTER;
        if is_open || self.spec.is_running || !owns(stamp) || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let fd = beneath::dir(self.upper(), path)?;
        beneath::chmod(&fd, stamp.mode | ENTER)?;
        self.opened_up.borrow_mut().insert(path.to_owned(), (fd, stamp.mode));
        Ok(())
    }

    /// The mode a directory of the upper has apart from what [`Self::open_up`]
    /// did to it.
    pub(crate) fn true_mode(&self, path: &Path, stamp: &Stamp) -> u32 {
        self.opened_up.borrow().get(path).map_or(stamp.mode, |(_, mode)| *mode)
    }

    /// A file of the upper with the owner that it is to have on the host.
    pub(crate) fn owned_as_meant(&self, mut stamp: Stamp) -> Stamp {
        if let Some(StandIn { upper, host }) = self.spec.stand_in {
            stamp.uid = if stamp.uid == upper.0 { host.0 } else { stamp.uid };
            stamp.gid = if stamp.gid == upper.1 { host.1 } else { stamp.gid };
        }
        stamp
    }

    /// Does something that needs read permission on a file of the upper, also
    /// when the file's mode denies that to its owner.
    pub(crate) fn read_upper<T>(
        &self,
        object: BorrowedFd<'_>,
        stamp: &Stamp,
        action: impl Fn() -> Result<T>,
    ) -> Result<T> {
        match action() {
            Err(Errno::ACCESS)
                if !self.spec.is_running && stamp.kind == FileKind::File && owns(stamp) =>
            {
                beneath::chmod(object, stamp.mode | 0o400)?;
                let outcome = action();
                beneath::chmod(object, stamp.mode)?;
                outcome
            }
            outcome => outcome,
        }
    }

    /// Whether something of the project changed since the session started.
    pub(crate) fn is_newer(&self, host: &Stamp) -> bool {
        self.spec.started.is_some_and(|started| is_newer(host.ctime, started))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        for (fd, mode) in self.opened_up.borrow().values() {
            // Nothing can be done about a failure here, and a mode that is too
            // wide stays within the session's private directory.
            beneath::chmod(fd, *mode).ok();
        }
    }
}

fn owns(stamp: &Stamp) -> bool {
    stamp.uid == rustix::process::geteuid().as_raw()
}

/// One directory of the project as the first check of a session found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    /// Nothing where the host may have changed it before the first check.
    pub(crate) mode: Option<u32>,
}

/// One file of the project with several names, as an apply left it that made or
/// removed another of them; or a directory as an apply left it, in which the host had
/// changed nothing before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) ctime: Time,
}

/// The directories of the project that a session touches, as they were before
/// the first of its changes was applied, and files as one of its applies left
/// them.
///
/// Applying changes the directories' own change times, so that a second apply
/// (of the rest, or after an interruption) could not tell its own traces from
/// the host's. It compares inode and mode with this instead. The change time of
/// a file moves when one of its other names comes or goes, so what an apply made
/// of it is noted at its end; so is what it made of a directory, whose entries would
/// else seem to be moved or deleted by the host. What was in conflict is not in here, so that it
/// stays so.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    known: BTreeMap<PathBuf, Known>,
    files: BTreeMap<PathBuf, KnownFile>,
}

impl Baseline {
    pub(crate) fn get(&self, path: &Path) -> Option<Known> {
        self.known.get(path).copied()
    }

    pub(crate) fn insert(&mut self, path: PathBuf, known: Known) {
        self.known.insert(path, known);
    }

    /// Whether a file is as an earlier apply left it.
    pub(crate) fn is_own_trace(&self, path: &Path, host: &Stamp) -> bool {
        let found = KnownFile { dev: host.dev, ino: host.ino, ctime: host.ctime };
        host.kind != FileKind::Dir && self.files.get(path) == Some(&found)
    }

    /// Whether a directory has the entries that an earlier apply left it with.
    pub(crate) fn is_left_alone(&self, path: &Path, host: &Stamp) -> bool {
        let found = KnownFile { dev: host.dev, ino: host.ino, ctime: host.ctime };
        host.kind == FileKind::Dir && self.files.get(path) == Some(&found)
    }

    /// Reads a baseline file; an unfinished last line is left out.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut baseline = Self::default();
        let complete =
            bytes.iter().rposition(|byte| *byte == 0).map_or(&[][..], |end| &bytes[..end]);
        for line in complete.split(|byte| *byte == 0) {
            match parse_line(line) {
                Some((path, Line::Directory(known))) => baseline.insert(path, known),
                Some((path, Line::File(known))) => {
                    baseline.files.insert(path, known);
                }
                None => {}
            }
        }
        baseline
    }

    /// One entry: device, inode and mode in decimal (a dash where it is not
    /// known), the path, and a NUL.
    pub(crate) fn line(path: &Path, known: Known) -> Vec<u8> {
        let mode = known.mode.map_or("-".into(), |mode| mode.to_string());
        line(path, known.dev, known.ino, &mode)
    }

    /// One entry of a file: in place of the mode an `@` and the change time, in
    /// seconds and nanoseconds.
    pub(crate) fn file_line(path: &Path, known: KnownFile) -> Vec<u8> {
        let time = format!("@{}.{}", known.ctime.sec, known.ctime.nsec);
        line(path, known.dev, known.ino, &time)
    }
}

fn line(path: &Path, dev: u64, ino: u64, state: &str) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut line = format!("{dev} {ino} {state} ").into_bytes();
    line.extend(path.as_os_str().as_bytes());
    line.push(0);
    line
}

/// What an entry of a baseline is about.
enum Line {
    Directory(Known),
    File(KnownFile),
}

fn parse_line(line: &[u8]) -> Option<(PathBuf, Line)> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(parts.next()?).ok();
    let (dev, ino) = (word()?.parse().ok()?, word()?.parse().ok()?);
    let state = word()?;
    let line = if let Some(time) = state.strip_prefix('@') {
        let (sec, nsec) = time.rsplit_once('.')?;
        let ctime = Time { sec: sec.parse().ok()?, nsec: nsec.parse().ok()? };
        Line::File(KnownFile { dev, ino, ctime })
    } else {
        let mode = if state == "-" { None } else { Some(state.parse().ok()?) };
        Line::Directory(Known { dev, ino, mode })
    };
    let path = std::ffi::OsString::from_vec(parts.next()?.to_vec());
    Some((path.into(), line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn a_baseline_survives_odd_names_and_a_torn_end() {
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"a b\n\xff"));
        let known = Known { dev: 1, ino: u64::MAX, mode: Some(0o755) };
        let unsure = Known { mode: None, ..known };
        let mut bytes = Baseline::line(odd, known);
        bytes.extend(Baseline::line(Path::new(""), unsure));
        let file = KnownFile { dev: 3, ino: 4, ctime: Time { sec: -5, nsec: 6 } };
        bytes.extend(Baseline::file_line(odd, file));
        bytes.extend(b"1 2 3 torn");
        let baseline = Baseline::parse(&bytes);
        assert_eq!(baseline.files, BTreeMap::from([(odd.to_owned(), file)]));
        assert_eq!(baseline.known.len(), 2);
        assert_eq!(baseline.get(odd), Some(known));
        assert_eq!(baseline.get(Path::new("")), Some(unsure));
        assert_eq!(Baseline::parse(b"\0\0 \0x y z\0").known.len(), 0);
    }
}
