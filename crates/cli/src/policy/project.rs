//! Which directory is the project.
//!
//! Decided once, from the command line or from where the user stands, and held by
//! descriptor from then on: what runs inside can neither choose it nor move it.

use atoll_api::policy::write_refusal;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The project.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its real path.
    pub(crate) root: PathBuf,
    /// Opened with O_PATH, without following a link.
    pub(crate) fd: OwnedFd,
    /// Device and inode of the root, to be compared when it is opened again.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

/// Why there is no project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    #[error("the current directory has been deleted")]
    Deleted,
    #[error("cannot find the current directory")]
    Cwd { source: std::io::Error },
    #[error("cannot open the project {}", .path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("the project {} is not a directory", .path.display())]
    NotDirectory { path: PathBuf },
    #[error("{} cannot be a project: {why}", .path.display())]
    TooWide { path: PathBuf, why: &'static str },
}

/// The current directory, links resolved.
pub(super) fn current_directory() -> Result<PathBuf, ProjectError> {
    // getcwd(2) gives the real path; for a deleted directory it is ENOENT.
    std::env::current_dir().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ProjectError::Deleted,
        _ => ProjectError::Cwd { source },
    })
}

/// The project: `chosen`, else the git work tree that holds `cwd`, else `cwd`.
pub(super) fn discover(
    chosen: Option<&Path>,
    cwd: &Path,
    home: Option<&Path>,
) -> Result<Project, ProjectError> {
    let root = match chosen {
        Some(path) => {
            let path = cwd.join(path);
            std::fs::canonicalize(&path).map_err(|source| ProjectError::Open { path, source })?
        }
        None => git_work_tree(cwd, home).unwrap_or(cwd).to_owned(),
    };
    if let Some(why) = write_refusal(&root, home) {
        return Err(ProjectError::TooWide { path: root, why });
    }
    open(root)
}

fn open(root: PathBuf) -> Result<Project, ProjectError> {
    let error = |errno: Errno| match errno {
        Errno::NOTDIR => ProjectError::NotDirectory { path: root.clone() },
        errno => ProjectError::Open { path: root.clone(), source: errno.into() },
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The path was resolved a moment ago; a link that has appeared in it since is an error.
    let fd = match rustix::fs::openat2(CWD, &root, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
    {
        Err(Errno::NOSYS) => rustix::fs::open(&root, flags, Mode::empty()),
        opened => opened,
    }
    .map_err(error)?;
    let stat = rustix::fs::fstat(&fd).map_err(error)?;
    Ok(Project { root, fd, dev: stat.st_dev, ino: stat.st_ino })
}

/// The nearest directory at or above `cwd` that holds a `.git`, unless it is too wide
/// for a project: a home directory under version control is no reason to open it
/// whole. Nor is a `.git` that somebody else has put above: git does not trust
/// those either.
fn git_work_tree<'a>(cwd: &'a Path, home: Option<&Path>) -> Option<&'a Path> {
    let owner = std::fs::metadata(cwd).ok()?.uid();
    let caller = rustix::process::geteuid().as_raw();
    for dir in cwd.ancestors() {
        if write_refusal(dir, home).is_some() {
            return None;
        }
        if is_git(&dir.join(".git")) {
            let dir_owner = std::fs::metadata(dir).ok()?.uid();
            return (dir_owner == owner || dir_owner == caller).then_some(dir);
        }
    }
    None
}

/// A repository, or the file that points to one (gitrepository-layout(5)). An empty
/// directory of that name is neither.
fn is_git(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            std::fs::symlink_metadata(path.join(OsStr::new("HEAD"))).is_ok()
        }
        Ok(metadata) => metadata.is_file(),
        Err(_) => false,
    }
}
