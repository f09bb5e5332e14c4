//! What a jail is made of, before anybody asks how.

use std::path::PathBuf;

/// A jail: one process tree's view, identity and rights.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Who the workload is.
    pub user: User,
    /// Its root file system, which it may write: [`Source::Late`] or [`Source::Overlay`]. Else
    /// the root is empty but for the view, and sealed.
    pub root: Option<Source>,
    /// What it sees. Parents may be left out; they are made.
    pub view: Vec<Entry>,
    /// Host name inside, at most 64 bytes.
    pub hostname: String,
    /// Room for everything private (HOME, `/tmp`, `/dev/shm`) together, in bytes.
    pub private_bytes: u64,
}

/// One user and one group, inside and outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub inside_uid: u32,
    pub inside_gid: u32,
    pub outside_uid: u32,
    pub outside_gid: u32,
}

/// Users and groups with consecutive numbers, inside and outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// One place in the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Absolute path inside, without `.` and `..`.
    pub at: PathBuf,
    pub what: What,
}

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory of the view itself: readable, not writable.
    Directory { mode: u32 },
    /// A writable directory of the private space.
    Private { mode: u32 },
    /// A file of the view itself with this content.
    File { content: Vec<u8>, mode: u32 },
    /// A symbolic link.
    Link { to: PathBuf },
    /// A directory or file of the host.
    Bind { source: Source, kind: Kind, access: Access },
    /// A new procfs. Where the workload is root inside, the parts that root may
    /// write without capabilities are covered: the machine's, if it is root
    /// outside too, and the settings of its own namespaces in any case. `nested_userns` is said
    /// here because the limit of user namespaces is set through it.
    /// So is what can be watched inside; `None` on a kernel without inotify.
    Proc { cover_root_writable: bool, nested_userns: bool, watches: Option<Watches> },
    /// The minimal `/dev`.
    Devices,
    /// Hides what a bound tree has here behind something empty that nobody may
    /// open.
    Mask { kind: Kind },
    /// The file that the view has at another place, read-only, over one that a bound tree has
    /// here.
    Twin { of: PathBuf },
}

/// How many inotify(7) instances and watches there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watches {
    pub instances: u32,
    pub watches: u32,
}

/// Where a bound tree comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A real path of the host (no symbolic link in it), opened inside with the
    /// workload's own rights. `expect` is the (device, inode) seen when the
    /// jail was planned.
    Path { path: PathBuf, expect: Option<(u64, u64)> },
    /// The n-th tree that the launcher opened before the clone.
    Handed(usize),
    /// The next tree that the launcher hands in after it, in the order of the
    /// plan.
    Late,
    /// Real directories of the host under an overlay, mounted inside with marks
    /// in `user.overlay.*`. All are real paths; `upper` and `work` belong
    /// to the workload's user.
    Overlay {
        /// The lowest first.
        lowers: Vec<Lower>,
        upper: PathBuf,
        work: PathBuf,
    },
}

/// A directory of the host that an overlay shows and never writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lower {
    pub path: PathBuf,
    /// The (device, inode) seen when the jail was planned, if that matters: the path is one
    /// that others than the planner can exchange.
    pub expect: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Entry {
    pub fn new(at: impl Into<PathBuf>, what: What) -> Self {
        Self { at: at.into(), what }
    }

    /// A read-only directory of the host at its own path.
    pub fn system(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let source = Source::Path { path: path.clone(), expect: None };
        Self::new(path, What::Bind { source, kind: Kind::Directory, access: Access::ReadOnly })
    }

    pub fn link(at: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self::new(at, What::Link { to: to.into() })
    }

    pub fn file(at: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        Self::new(at, What::File { content: content.into(), mode: 0o444 })
    }

    pub fn private(at: impl Into<PathBuf>, mode: u32) -> Self {
        Self::new(at, What::Private { mode })
    }
}
