//! How much there is in a tree.

use super::up;
use crate::beneath;
use crate::node::FileKind;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What is in a tree; a file with several names counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Everything but directories.
    pub files: u64,
    /// The top one included.
    pub directories: u64,
    /// Length of the regular files.
    pub bytes: u64,
    /// What everything takes on the disk, as stat(2) has it: blocks that files share are
    /// counted for each of them.
    pub disk_bytes: u64,
}

/// Why a tree could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("the measurement was canceled")]
    Canceled,
    #[error("there are over {most} files")]
    TooMany { most: u64 },
    #[error("could not read {:?}", path.display())]
    Failed { path: PathBuf, source: io::Error },
}

/// Counts what is in a tree, of up to `most` files and directories. What vanishes
/// meanwhile is not counted, nor is what is in a directory that may not be read.
///
/// # Errors
///
/// [`MeasureError`].
pub fn measure(
    tree: BorrowedFd<'_>,
    most: u64,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Measured, MeasureError> {
    let mut measure = Measure {
        measured: Measured::default(),
        most,
        is_canceled,
        counted: HashSet::new(),
        path: PathBuf::new(),
        levels: Vec::new(),
    };
    let outcome = beneath::dir(tree, Path::new("")).and_then(|top| measure.walk(top));
    match outcome {
        Ok(()) => Ok(measure.measured),
        Err(Errno::CANCELED) => Err(MeasureError::Canceled),
        Err(Errno::OVERFLOW) => Err(MeasureError::TooMany { most }),
        Err(errno) => Err(MeasureError::Failed { path: measure.path, source: errno.into() }),
    }
}

/// A directory, and those in it that are still to be counted.
struct Level {
    id: (u64, u64),
    todo: Vec<OsString>,
}

struct Measure<'m> {
    measured: Measured,
    most: u64,
    is_canceled: &'m dyn Fn() -> bool,
    /// Files with several names that were counted.
    counted: HashSet<(u64, u64)>,
    path: PathBuf,
    levels: Vec<Level>,
}

impl Measure<'_> {
    fn walk(&mut self, mut at: OwnedFd) -> rustix::io::Result<()> {
        self.enter(&at)?;
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.todo.pop() {
                self.path.push(&name);
                match beneath::dir(at.as_fd(), Path::new(&name)) {
                    Ok(inside) => {
                        self.enter(&inside)?;
                        at = inside;
                    }
                    Err(errno) if is_passed_over(errno) => {
                        self.path.pop();
                    }
                    Err(errno) => return Err(errno),
                }
                continue;
            }
            self.levels.pop();
            self.path.pop();
            if let Some(above) = self.levels.last() {
                // Who moves directories meanwhile has it counted as far as it went.
                let Some(found) = up(at.as_fd(), above.id)? else { return Ok(()) };
                at = found;
            }
        }
        Ok(())
    }

    fn enter(&mut self, dir: &OwnedFd) -> rustix::io::Result<()> {
        let stamp = beneath::stamp(dir)?;
        self.measured.directories += 1;
        self.measured.disk_bytes += stamp.blocks.saturating_mul(512);
        let mut todo = Vec::new();
        let names = match beneath::names(dir.as_fd(), Path::new("")) {
            Err(errno) if is_passed_over(errno) => Vec::new(),
            names => names?,
        };
        for name in names {
            self.entry(dir, &name, &mut todo)?;
        }
        self.levels.push(Level { id: stamp.id(), todo });
        Ok(())
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &OsStr,
        todo: &mut Vec<OsString>,
    ) -> rustix::io::Result<()> {
        if (self.is_canceled)() {
            return Err(Errno::CANCELED);
        }
        if self.measured.files + self.measured.directories >= self.most {
            return Err(Errno::OVERFLOW);
        }
        let stamp = match beneath::look(dir, name) {
            Err(errno) if is_passed_over(errno) => return Ok(()),
            found => found?,
        };
        let Some(stamp) = stamp else { return Ok(()) };
        if stamp.kind == FileKind::Dir {
            todo.push(name.to_owned());
        } else if stamp.nlink == 1 || self.counted.insert(stamp.id()) {
            self.measured.files += 1;
            self.measured.disk_bytes += stamp.blocks.saturating_mul(512);
            if stamp.kind == FileKind::File {
                self.measured.bytes = self.measured.bytes.saturating_add(stamp.size);
            }
        }
        Ok(())
    }
}

/// What is gone, not ours to read, or mounted.
fn is_passed_over(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::XDEV | Errno::STALE
    )
}
