//! Reads policy files: bounded, regular files only, and only from those who may
//! speak for the user.

use crate::error::CliError;
use atoll_api::policy::{Document, Level, MAX_DOCUMENT_BYTES, POLICY_FILE, ParseErrors, parse};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot read the policy {}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the policy {} is not a regular file", .path.display())]
    NotRegular { path: PathBuf },
    #[error("the policy {} is a symbolic link, which could lead anywhere", .path.display())]
    Link { path: PathBuf },
    #[error("the policy {} belongs to user {uid}, who may not speak for you", .path.display())]
    Owner { path: PathBuf, uid: u32 },
    #[error("the policy {} can be written by every user", .path.display())]
    Writable { path: PathBuf },
    #[error("the policy {} cannot be understood", .path.display())]
    Parse { path: PathBuf, source: ParseErrors },
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> Self {
        let message = error.to_string();
        match error {
            // One line for each problem, with the file in front, so that editors can jump to it.
            ReadError::Parse { path, source } => {
                let lines: Vec<String> = source
                    .0
                    .iter()
                    .map(|error| format!("{}:{}: {}", path.display(), error.line, error.kind))
                    .collect();
                Self::new(lines.join("\nerror: "))
            }
            ReadError::Owner { path, .. } => {
                let hint = format!("chown it, or read it and make your own: {}", path.display());
                Self::new(message).hint(hint)
            }
            ReadError::Writable { path } => {
                let hint = format!("chmod o-w {}", path.display());
                Self::new(message).hint(hint)
            }
            ReadError::Io { source, .. } => Self::new(message).because(source),
            ReadError::NotRegular { .. } | ReadError::Link { .. } => Self::new(message),
        }
    }
}

/// Reads a file that speaks for the user. Nothing when it does not exist.
pub(super) fn user_file(path: &Path, level: Level) -> Result<Option<Document>, ReadError> {
    debug_assert!(level != Level::Project);
    // Without blocking: a FIFO is refused below, not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => {
            check_owner(&fd, path)?;
            document(fd, path).map(Some)
        }
        // ENOTDIR: `~/.config` is a file. There is no policy then either.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(ReadError::Io { path: path.to_owned(), source: errno.into() }),
    }
}

/// Reads the project's own file, in the directory that is open, never through a link.
pub(super) fn project_file(project: impl AsFd, root: &Path) -> Result<Option<Document>, ReadError> {
    let path = root.join(POLICY_FILE);
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::openat(&project, POLICY_FILE, flags, Mode::empty()) {
        Ok(fd) => document(fd, &path).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(ReadError::Link { path }),
        // A socket gives ENXIO.
        Err(errno) => match rustix::fs::statat(&project, POLICY_FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                Err(ReadError::NotRegular { path })
            }
            Ok(_) | Err(_) => Err(ReadError::Io { path, source: errno.into() }),
        },
    }
}

/// Who can write the file can widen the policy, so it must be the caller or root.
/// Group write is left alone: with a group for each user it is the usual mode.
fn check_owner(fd: &OwnedFd, path: &Path) -> Result<(), ReadError> {
    let stat = rustix::fs::fstat(fd)
        .map_err(|errno| ReadError::Io { path: path.to_owned(), source: errno.into() })?;
    let caller = rustix::process::geteuid().as_raw();
    if stat.st_uid != caller && stat.st_uid != 0 {
        return Err(ReadError::Owner { path: path.to_owned(), uid: stat.st_uid });
    }
    if Mode::from_raw_mode(stat.st_mode).contains(Mode::WOTH) {
        return Err(ReadError::Writable { path: path.to_owned() });
    }
    Ok(())
}

fn document(fd: OwnedFd, path: &Path) -> Result<Document, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let stat = rustix::fs::fstat(&fd).map_err(|errno| io(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadError::NotRegular { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that the parser sees that it is too long.
    let most = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX) + 1;
    File::from(fd).take(most).read_to_end(&mut bytes).map_err(io)?;
    parse(&bytes).map_err(|source| ReadError::Parse { path: path.to_owned(), source })
}
