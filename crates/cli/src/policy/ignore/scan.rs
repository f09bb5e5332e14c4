//! Walks the project once, reads its ignore files and lists what they hide.

use super::{Chain, ChainSource, IgnoreSet, Rule, is_git};
use atoll_api::ignore::{Pattern, PatternLine, parse_file};
use atoll_api::policy::Files;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far a scan goes before it gives up. The command waits for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanLimits {
    /// Most directory entries looked at.
    pub(crate) entries: u64,
    /// Most directories below each other; each holds two descriptors.
    pub(crate) depth: usize,
    /// Longest ignore file, in bytes.
    pub(crate) file_bytes: u64,
}

impl Default for ScanLimits {
    /// A million entries take about a second from the cache.
    fn default() -> Self {
        Self { entries: 2_000_000, depth: 256, file_bytes: 1 << 20 }
    }
}

/// A path that is hidden; of a hidden directory only itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Relative to the project.
    pub(crate) path: PathBuf,
    pub(crate) is_dir: bool,
    pub(crate) rule: Rule,
    /// Other names of the same file: through one that is not hidden it can be read.
    pub(crate) has_other_names: bool,
}

/// Why the hidden paths are not known; nothing may start then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("the project has more than {limit} entries, too many to look for hidden files")]
    TooMany { limit: u64 },
    #[error("{} is more than {limit} directories deep, too deep to look for hidden files", .path.display())]
    TooDeep { path: PathBuf, limit: usize },
    #[error("cannot read the directory {}", .path.display())]
    ReadDir { path: PathBuf, source: std::io::Error },
    #[error("cannot read the ignore file {}", .path.display())]
    ReadFile { path: PathBuf, source: std::io::Error },
    #[error("the ignore file {} is not a regular file in the project", .path.display())]
    NotRegular { path: PathBuf },
    #[error("the ignore file {} has more than {limit} bytes", .path.display())]
    TooLong { path: PathBuf, limit: u64 },
}

/// Reads what hides in the project that is open as `root`, and lists what is hidden.
///
/// Nested ignore files count only when there is one at the root or the policy hides
/// something: otherwise the tree is not walked at all.
pub(crate) fn scan(
    root: BorrowedFd<'_>,
    files: &Files,
    limits: ScanLimits,
) -> Result<(IgnoreSet, Vec<Hidden>), ScanError> {
    let mut chains: Vec<Chain> = files
        .ignore_files
        .iter()
        .map(|name| Chain { source: ChainSource::File(name.value.clone()), lists: HashMap::new() })
        .collect();
    chains.extend(policy_chain(files));
    let mut scan = Scan { root, limits, seen: 0, set: IgnoreSet { chains }, hidden: Vec::new() };
    scan.read_ignore_files(b"")?;
    if !scan.set.is_empty() {
        scan.walk()?;
        scan.hidden.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok((scan.set, scan.hidden))
}

/// The policy's patterns as one list whose "lines" count them.
fn policy_chain(files: &Files) -> Option<Chain> {
    let patterns: Vec<PatternLine> = (1u32..)
        .zip(&files.hide)
        .filter_map(|(line, item)| {
            let pattern = Pattern::parse(item.value.as_bytes())?;
            Some(PatternLine { line, pattern })
        })
        .collect();
    if patterns.is_empty() {
        return None;
    }
    let origins = files.hide.iter().map(|item| item.origin.clone()).collect();
    let lists = HashMap::from([(Vec::new(), Arc::new(patterns))]);
    Some(Chain { source: ChainSource::Policy(origins), lists })
}

struct Scan<'a> {
    root: BorrowedFd<'a>,
    limits: ScanLimits,
    seen: u64,
    set: IgnoreSet,
    hidden: Vec<Hidden>,
}

/// A directory that is being read.
struct Level {
    fd: OwnedFd,
    path: Vec<u8>,
    entries: Dir,
}

impl Scan<'_> {
    /// Depth first, by descriptor and without following links: what a link points to
    /// is found at its own place, or lies outside and is not shown.
    fn walk(&mut self) -> Result<(), ScanError> {
        let mut stack = Vec::from_iter(self.open_level(self.root, c".", Vec::new())?);
        loop {
            let depth = stack.len();
            let Some(level) = stack.last_mut() else { return Ok(()) };
            let Some(entry) = level.entries.read() else {
                stack.pop();
                continue;
            };
            let entry = entry.map_err(|errno| ScanError::ReadDir {
                path: to_path(&level.path),
                source: errno.into(),
            })?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > self.limits.entries {
                return Err(ScanError::TooMany { limit: self.limits.entries });
            }
            let path = join(&level.path, name.to_bytes());
            let Some(is_dir) = is_dir(&level.fd, name, entry.file_type()) else { continue };
            if let Some(rule) = self.set.hides(&path, is_dir) {
                self.found(&level.fd, name, &path, is_dir, rule);
            } else if is_dir && !is_git(&path) {
                if depth >= self.limits.depth {
                    return Err(ScanError::TooDeep {
                        path: to_path(&path),
                        limit: self.limits.depth,
                    });
                }
                let below = self.open_level(level.fd.as_fd(), name, path.clone())?;
                if below.is_some() {
                    self.read_ignore_files(&path)?;
                }
                stack.extend(below);
            }
        }
    }

    fn found(
        &mut self,
        dir: &OwnedFd,
        name: &std::ffi::CStr,
        path: &[u8],
        is_dir: bool,
        rule: Rule,
    ) {
        let links = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(1, |stat| stat.st_nlink);
        let has_other_names = !is_dir && links > 1;
        self.hidden.push(Hidden { path: to_path(path), is_dir, rule, has_other_names });
    }

    /// Opens a directory for reading; nothing when it is gone or closed to the
    /// caller, since then it is closed inside as well.
    fn open_level(
        &self,
        dir: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        path: Vec<u8>,
    ) -> Result<Option<Level>, ScanError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
            Err(errno) => {
                return Err(ScanError::ReadDir { path: to_path(&path), source: errno.into() });
            }
        };
        let entries = Dir::read_from(&fd)
            .map_err(|errno| ScanError::ReadDir { path: to_path(&path), source: errno.into() })?;
        Ok(Some(Level { fd, path, entries }))
    }

    fn read_ignore_files(&mut self, dir: &[u8]) -> Result<(), ScanError> {
        for index in 0..self.set.chains.len() {
            let ChainSource::File(name) = &self.set.chains[index].source else { continue };
            let path = to_path(&join(dir, name.as_bytes()));
            if let Some(bytes) = self.read_file(&path)? {
                // Also when it holds no pattern: at the root its being there counts.
                self.set.chains[index].lists.insert(dir.to_vec(), Arc::new(parse_file(&bytes)));
            }
        }
        Ok(())
    }

    /// Reads an ignore file; a link is followed inside the project. One that is
    /// there but cannot be read is an error: without it secrets would be shown.
    fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, ScanError> {
        // Most are not there, and one look is enough to know.
        let is_link = match rustix::fs::statat(self.root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => {
                found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
            }
        };
        let io = |source| ScanError::ReadFile { path: path.to_owned(), source };
        let not_regular = || ScanError::NotRegular { path: path.to_owned() };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = match rustix::fs::openat2(self.root, path, flags, Mode::empty(), beneath) {
            Err(Errno::NOSYS) => {
                rustix::fs::openat(self.root, path, flags | OFlags::NOFOLLOW, Mode::empty())
            }
            opened => opened,
        };
        let fd = match opened {
            Ok(fd) => fd,
            // A dangling link is an ignore file that somebody meant.
            Err(Errno::NOENT) if !is_link => return Ok(None),
            Err(Errno::NOENT | Errno::LOOP | Errno::XDEV | Errno::NXIO) => {
                return Err(not_regular());
            }
            Err(errno) => return Err(io(errno.into())),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| io(errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_regular());
        }
        let mut bytes = Vec::new();
        File::from(fd).take(self.limits.file_bytes + 1).read_to_end(&mut bytes).map_err(io)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > self.limits.file_bytes {
            return Err(ScanError::TooLong {
                path: path.to_owned(),
                limit: self.limits.file_bytes,
            });
        }
        Ok(Some(bytes))
    }
}

/// Whether an entry is a directory; nothing when it is gone. Some file systems do not
/// say so with the name.
fn is_dir(dir: &OwnedFd, name: &std::ffi::CStr, kind: FileType) -> Option<bool> {
    match kind {
        FileType::Unknown => {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        }
        kind => Some(kind == FileType::Directory),
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

fn to_path(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}
