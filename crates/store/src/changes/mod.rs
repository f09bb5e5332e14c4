//! What a review session changed, read from the upper directory of its overlay
//! and compared with the project as it is now.
//!
//! The result is a list of plain changes: whiteouts are deletions, hidden
//! (opaque) directories and moved (redirected) ones are resolved into what
//! became of each file. Files that the overlay copied up and that are equal in
//! content, mode and attributes are not changes, whatever their times, and nor
//! are those that only got a setuid or setgid bit, which is never applied.
//!
//! The upper is written by the program in the sandbox and the project may be
//! changed by anyone meanwhile, so everything is reached by descriptor beneath
//! the two roots (`beneath.rs`), and nothing in the upper is trusted:
//! forged marks, special files and unreadable entries come back as
//! [`Rejected`].
//!
//! # Conflicts
//!
//! The host's file must still be the one that the sandbox saw. An overlay does
//! not copy its lower directory, so nothing of the old file is kept to compare
//! with; instead every file that a change replaces or deletes must have a
//! *change time* (ctime) before the session's start. A program cannot set that
//! time back, as it can the modification time, and rename, chmod and link move
//! it too. For directories, whose times move whenever an entry does, the
//! identity counts: the inode that the overlay noted when it copied the
//! directory up (mounts by root), otherwise that the directory's last change
//! was one of its entries; after the first apply, the inodes in the
//! [`Baseline`](crate::view::Baseline).
//!
//! What this cannot see, in falling likelihood: changes made while the host's
//! clock was behind the session's start (a clock that was set back, a file
//! server with another clock); writes through a memory mapping whose page was
//! already dirty at the start, until it is written back; a whole directory
//! exchanged for another by rename and changed again afterwards, where the
//! overlay noted no inode (mounts in a user namespace).
//!
//! What it may report needlessly: a hard link to the same file was made or
//! removed elsewhere, by others or by an apply that was killed; the mode of a directory whose entries changed; a file
//! renamed in the session while the host worked in the same directory.
//! `force` exists for these, and keeps the host's version beside.

pub(crate) mod compare;
pub(crate) mod conflict;
mod differ;
mod digest;
mod walk;

pub use digest::digest;

use crate::node::{Node, Stamp};
use crate::view::{Known, View};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How a path differs from the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    Added,
    /// Other content, or another target of a symbolic link.
    Modified,
    /// Other permission bits only.
    Mode,
    /// Other extended attributes or owner, content equal.
    Attributes,
    /// Something of another kind, such as a directory in place of a file.
    TypeChanged,
    Deleted,
}

/// Why a change cannot be applied as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The host's file changed, or appeared, since the session started.
    Changed,
    /// The host's file or directory is gone since the session started.
    Gone,
    /// A directory above is another one than the sandbox saw.
    Replaced,
    /// The sandbox made a file where a hidden file of the host is.
    Masked,
    /// Something beneath the deleted directory is in conflict.
    Contains,
}

impl Conflict {
    /// The reason as the end of a sentence about the path.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Changed => "changed on the host since the session started",
            Self::Gone => "was deleted or moved on the host since the session started",
            Self::Replaced => "lies in a directory that was exchanged or moved on the host",
            Self::Masked => "would overwrite a file that was hidden from the session",
            Self::Contains => "holds something that is in conflict",
        }
    }
}

/// One difference between what the sandbox left and the project.
#[derive(Debug, Clone)]
pub struct Change {
    /// Relative to the project.
    pub path: PathBuf,
    pub kind: ChangeKind,
    /// What the project has there now.
    pub before: Option<Node>,
    /// What the session left there.
    pub after: Option<Node>,
    /// The directory of the project that was moved here, at the change for the
    /// moved directory itself.
    pub renamed_from: Option<PathBuf>,
    pub conflict: Option<Conflict>,
    /// Setuid and setgid bits of the session's version, which are not applied.
    pub withheld: u32,
    pub(crate) host: Option<Stamp>,
    pub(crate) wanted: Option<Wanted>,
}

/// Where the new version of a path is to be had from.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) source: Source,
    /// As stat tells it, with the mode already cleared of what is not carried
    /// over.
    pub(crate) stamp: Stamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The same path in the upper.
    Upper,
    /// Another path of the project, whose directory was moved.
    Project(PathBuf),
}

/// Something in the upper that is never applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    pub path: PathBuf,
    pub why: RejectReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// A socket, fifo or device.
    Special(crate::node::FileKind),
    /// A mark that no overlay of ours makes: a redirect in a `userxattr` mount,
    /// or one that is not a plain path.
    ForgedMark,
    /// Attributes without content, as a mount with `metacopy` leaves them.
    NoContent,
    /// Its mode or owner does not let us read it.
    Unreadable,
    /// The path is longer than the kernel takes.
    TooLong,
    /// It lies on another file system that is mounted within the project.
    OtherFileSystem,
}

impl RejectReason {
    /// The reason as the end of a sentence about the path.
    pub fn reason(self) -> String {
        match self {
            Self::Special(kind) => format!("is a {}", kind.word()),
            Self::ForgedMark => "carries a mark that the overlay does not make".into(),
            Self::NoContent => "has attributes only; the overlay was mounted with metacopy".into(),
            Self::Unreadable => "cannot be read".into(),
            Self::TooLong => "has too long a path".into(),
            Self::OtherFileSystem => "lies on another file system".into(),
        }
    }
}

/// The outcome of [`read`].
#[derive(Debug, Default)]
pub struct Changes {
    /// Ordered by path, a directory before what is in it.
    pub list: Vec<Change>,
    /// Ordered by path.
    pub rejected: Vec<Rejected>,
    /// The directories of the project that were looked at.
    pub(crate) dirs: Vec<(PathBuf, Known)>,
    /// Those of them in which the host made, moved or removed nothing.
    pub(crate) quiet: Vec<PathBuf>,
    /// Hard links: the first path, in order, of each file of the upper that has
    /// several names.
    pub(crate) links: HashMap<(u64, u64), Vec<PathBuf>>,
    /// Everything that comes from another place in the project, a directory
    /// before what is in it.
    pub(crate) moved_in: Vec<(PathBuf, Wanted)>,
    /// The directories of the upper that hold a redirect to a directory that is
    /// still there.
    pub(crate) redirected: Vec<PathBuf>,
}

/// Why a session's changes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    #[error("could not open the directory {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("could not read {} of the session", path.display())]
    Upper { path: PathBuf, source: io::Error },
    #[error("could not read {} of the project", path.display())]
    Project { path: PathBuf, source: io::Error },
    #[error("the session has over {most} entries to compare")]
    TooMany { most: usize },
}

/// Reads the changes of a session.
///
/// # Errors
///
/// When a tree cannot be read at all; single entries that cannot are in
/// [`Changes::rejected`].
pub fn read(view: &View) -> Result<Changes, ChangesError> {
    let mut changes = walk::Walk::new(view).run()?;
    changes.list.sort_by(|a, b| a.path.cmp(&b.path));
    changes.rejected.sort_by(|a, b| a.path.cmp(&b.path));
    changes.rejected.dedup();
    changes.moved_in.sort_by(|a, b| a.0.cmp(&b.0));
    changes.redirected.sort();
    conflict::spread(&mut changes.list, &changes.rejected);
    Ok(changes)
}

impl Change {
    /// Opens the session's version of a regular file.
    ///
    /// # Errors
    ///
    /// When it is not a regular file (any more) or cannot be read.
    pub fn open_after(&self, view: &View) -> io::Result<Option<File>> {
        let Some(wanted) = self.wanted.as_ref().filter(|_| self.kind != ChangeKind::Deleted) else {
            return Ok(None);
        };
        let fd = compare::open_wanted(view, &self.path, wanted)?;
        Ok(Some(File::from(fd)))
    }

    /// Opens the host's version of a regular file.
    ///
    /// # Errors
    ///
    /// When it is not a regular file (any more) or cannot be read.
    pub fn open_before(&self, view: &View) -> io::Result<Option<File>> {
        if self.host.is_none() {
            return Ok(None);
        }
        Ok(Some(File::from(crate::beneath::file(view.project(), &self.path)?)))
    }

    /// Whether the path is, or is beneath, one of `paths`.
    pub fn is_at_or_beneath(&self, paths: &[PathBuf]) -> bool {
        paths.iter().any(|path| self.path.starts_with(path))
    }
}

/// Whether `path` can be named in one call. Source: path_resolution(7), `PATH_MAX`.
pub(crate) fn is_nameable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().len() < 4096
}
