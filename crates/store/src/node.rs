//! What is known about one file, taken once and compared later.

use rustix::fs::Stat;
use std::path::PathBuf;

/// A point in time as file systems keep it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Time {
    /// Seconds since 1970; may be any value, a program can set them.
    pub sec: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
    Unknown,
}

impl FileKind {
    /// Reads the kind from the file type bits of a mode.
    pub(crate) fn of(mode: u32) -> Self {
        use rustix::fs::FileType as T;
        match T::from_raw_mode(mode) {
            T::RegularFile => Self::File,
            T::Directory => Self::Dir,
            T::Symlink => Self::Symlink,
            T::Fifo => Self::Fifo,
            T::Socket => Self::Socket,
            T::CharacterDevice => Self::CharDevice,
            T::BlockDevice => Self::BlockDevice,
            _ => Self::Unknown,
        }
    }

    /// Whether a file of this kind can be carried over: a plain file, a
    /// directory or a symbolic link.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::File | Self::Dir | Self::Symlink)
    }

    /// The word for it in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "directory",
            Self::Symlink => "symbolic link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
            Self::Unknown => "file of an unknown kind",
        }
    }
}

/// The inode of a file and what stat(2) says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) size: u64,
    /// What it takes on the disk, in blocks of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

impl Stamp {
    pub(crate) fn id(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    /// A character device 0/0 is how an overlay says "deleted".
    pub(crate) fn is_null_device(&self) -> bool {
        self.kind == FileKind::CharDevice && self.rdev == 0
    }

    /// [`Self::same_content_as`], where of a directory only its identity counts.
    pub(crate) fn same_content_as_or_dir(&self, other: &Self) -> bool {
        let same_dir =
            self.kind == FileKind::Dir && other.kind == FileKind::Dir && self.id() == other.id();
        same_dir || self.same_content_as(other)
    }

    /// The same inode with the same content as far as stat can tell, leaving
    /// out the change time, which our own rename or link moves.
    pub(crate) fn same_content_as(&self, other: &Self) -> bool {
        self.id() == other.id()
            && self.kind == other.kind
            && self.size == other.size
            && self.mtime == other.mtime
    }
}

impl From<Stat> for Stamp {
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        clippy::unnecessary_cast,
        reason = "the C types differ by architecture; sizes and nanoseconds are never negative"
    )]
    fn from(stat: Stat) -> Self {
        Self {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            kind: FileKind::of(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            nlink: stat.st_nlink as u64,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u64,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: Time { sec: stat.st_atime, nsec: stat.st_atime_nsec as u32 },
            mtime: Time { sec: stat.st_mtime, nsec: stat.st_mtime_nsec as u32 },
            ctime: Time { sec: stat.st_ctime, nsec: stat.st_ctime_nsec as u32 },
        }
    }
}

/// One side of a change, for people and programs to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: FileKind,
    /// Permission bits. On the session's side setuid and setgid are already
    /// taken away, unless the host has them there.
    pub mode: u32,
    /// Length in bytes.
    pub size: u64,
    /// Where a symbolic link points.
    pub target: Option<PathBuf>,
}
