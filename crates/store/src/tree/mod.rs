//! Trees of files as a whole: copied, measured, kept in subvolumes of btrfs; and stacks of
//! them as layers of an overlay: compared, made one.
//!
//! What is in a tree belongs to a sandbox and is hostile: everything is reached by
//! descriptor, one name at a time, and a link or a mount on the way is an error.
//!
//! # The disk
//!
//! [`copy`] leaves everything in the page cache, since the sandbox stands still
//! meanwhile. When it goes on, [`sync`] brings it to the disk with one syncfs(2) before
//! the copy is published. The other way, an fsync(2) for every new file and directory,
//! costs a wait for the disk each, and for a file that was only linked there is none at
//! all that has to bring its new name to the disk. What else is waiting to be written to
//! the same file system is written too, which it would be anyway half a minute later.

mod attributes;
mod compare;
mod copy;
mod entry;
mod flatten;
mod index;
mod measure;
mod stack;
mod subvolume;

pub use compare::{Bounds, Changed, CompareError, Compared, Difference, Side, compare};
pub use copy::{Copied, CopyError, Previous, Step, copy, copy_ahead};
pub(crate) use entry::{may_open_up, open_quietly};
pub use flatten::{FlattenError, Flattened, flatten};
pub use index::Index;
pub use measure::{MeasureError, Measured, measure};
pub use stack::Layer;
pub(crate) use subvolume::is_subvolume_root;
pub use subvolume::{SubvolumeError, create_subvolume, is_subvolume, snapshot};

use crate::beneath;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Waits until everything that was written to the file system of `tree` is on the disk.
///
/// # Errors
///
/// When something could not be written, also of what others wrote. Source: syncfs(2),
/// Linux 5.8.
pub fn sync(tree: BorrowedFd<'_>) -> io::Result<()> {
    // A descriptor for names alone is refused.
    let tree = beneath::open(tree, "".as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(rustix::fs::syncfs(tree)?)
}

/// Opens the directory above one that was come from; nothing where that has become
/// another one, which it does when somebody moves directories.
pub(crate) fn up(dir: BorrowedFd<'_>, id: (u64, u64)) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let above = rustix::fs::openat(dir, "..", flags, Mode::empty())?;
    Ok((beneath::stamp(&above)?.id() == id).then_some(above))
}
