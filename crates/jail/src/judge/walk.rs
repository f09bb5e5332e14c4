//! From a path to a directory descriptor and a last name.
//!
//! The kernel resolves whatever it can resolve without following a link; only
//! paths with links are walked here, component by component. Nothing is decided
//! on text: every step ends in a descriptor, and who judges asks the kernel for
//! that descriptor's path.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

use super::caller::{Caller, Directory};
use super::footing::is_proc;

/// As many links as the kernel follows in one path (path_resolution(7)).
const MAX_LINKS: u32 = 40;

const STEP: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A name in a directory. Whether it exists is not known.
pub(super) struct Spot<'a> {
    pub(super) parent: Directory<'a>,
    /// One component; `.` and `..` also, and `.` for the root.
    pub(super) name: CString,
    /// The path ended in a slash, so the name must be a directory.
    pub(super) has_slash: bool,
}

impl Spot<'_> {
    pub(super) fn is_dots(&self) -> bool {
        matches!(self.name.to_bytes(), b"." | b"..")
    }

    /// The name as the caller wrote it, for calls that do not follow a last link.
    pub(super) fn with_slash(&self) -> CString {
        if !self.has_slash {
            return self.name.clone();
        }
        let mut name = self.name.to_bytes().to_vec();
        name.push(b'/');
        CString::new(name).unwrap_or_else(|_| self.name.clone())
    }
}

/// Where a last link leads.
pub(super) enum Followed<'a> {
    Spot(Spot<'a>),
    /// A magic link of procfs: it has no path to walk, it *is* an object.
    Object(OwnedFd),
}

pub(super) struct Walk<'a> {
    caller: Caller<'a>,
    links: u32,
    /// A link of procfs was on the way: its target changes by calls that nobody
    /// judges, such as chdir(2).
    pub(super) led_through_proc: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(caller: Caller<'a>) -> Self {
        Self { caller, links: 0, led_through_proc: false }
    }

    /// Resolves all of `path` but its last component, from `base`.
    pub(super) fn start(&mut self, base: Directory<'a>, path: &CStr) -> Result<Spot<'a>, Errno> {
        let bytes = path.to_bytes();
        if bytes.is_empty() {
            return Err(Errno::NOENT);
        }
        let (parent, name, has_slash) = split(bytes);
        if parent.is_empty() {
            return Ok(Spot { parent: base, name: owned(name)?, has_slash });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let direct = owned(parent)?;
        let found = openat2(base.as_fd(), &direct, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let parent = match found {
            Ok(parent) => Directory::Owned(parent),
            Err(Errno::LOOP) => self.slowly(base, parent)?,
            Err(error) => return Err(error),
        };
        Ok(Spot { parent, name: owned(name)?, has_slash })
    }

    /// Continues behind the last name, which is a link. Gives `EINVAL` if it is not.
    pub(super) fn follow(&mut self, spot: Spot<'a>) -> Result<Followed<'a>, Errno> {
        self.count_link()?;
        let target = match self.target(spot.parent.as_fd(), &spot.name)? {
            Target::Text(target) => target,
            Target::Magic(object) => return Ok(Followed::Object(object)),
        };
        let base = self.base_of(spot.parent, &target);
        let mut next = self.start(base, &owned(&target)?)?;
        next.has_slash |= spot.has_slash;
        Ok(Followed::Spot(next))
    }

    fn base_of(&self, current: Directory<'a>, target: &[u8]) -> Directory<'a> {
        if target.first() == Some(&b'/') {
            Directory::Borrowed(self.caller.footing.root.as_fd())
        } else {
            current
        }
    }

    fn count_link(&mut self) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS { Err(Errno::LOOP) } else { Ok(()) }
    }

    /// Resolves every component of `path` and follows every link.
    fn slowly(&mut self, base: Directory<'a>, path: &[u8]) -> Result<Directory<'a>, Errno> {
        let mut current = base;
        let mut rest: VecDeque<Vec<u8>> = components(path).map(<[u8]>::to_vec).collect();
        while let Some(name) = rest.pop_front() {
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            let next = openat(current.as_fd(), &name, STEP, Mode::empty())?;
            match FileType::from_raw_mode(fstat(&next)?.st_mode) {
                FileType::Directory => current = self.checked(Directory::Owned(next))?,
                FileType::Symlink => {
                    self.count_link()?;
                    match self.target(current.as_fd(), &name)? {
                        Target::Text(target) => {
                            for part in components(&target).rev() {
                                rest.push_front(part.to_vec());
                            }
                            current = self.base_of(current, &target);
                        }
                        Target::Magic(object) => {
                            current = self.checked(Directory::Owned(object))?;
                        }
                    }
                }
                _ => return Err(Errno::NOTDIR),
            }
        }
        if FileType::from_raw_mode(fstat(current.as_fd())?.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(current)
    }

    /// Keeps callers out of the supervisor's own directory in procfs: it may
    /// look at itself, and its descriptors are everybody's.
    fn checked(&self, directory: Directory<'a>) -> Result<Directory<'a>, Errno> {
        if is_proc(directory.as_fd()) {
            let path = self.caller.footing.path_of(directory.as_fd())?;
            if is_own_proc(&path, self.caller.footing.pid) {
                return Err(Errno::ACCESS);
            }
        }
        Ok(directory)
    }

    fn target(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> Result<Target, Errno> {
        let text = || Ok(Target::Text(readlinkat(parent, name, Vec::new())?.into_bytes()));
        if !is_proc(parent) {
            return text();
        }
        self.led_through_proc = true;
        let footing = self.caller.footing;
        let directory = footing.path_of(parent)?;
        if is_own_proc(&directory, footing.pid) {
            return Err(Errno::ACCESS);
        }
        if directory != footing.path_of(footing.proc.as_fd())? {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            return Ok(Target::Magic(openat(parent, name, flags, Mode::empty())?));
        }
        // At the top the links are text, but `self` would be ourselves.
        match name.to_bytes() {
            b"self" => Ok(Target::Text(self.caller.process()?.to_string().into_bytes())),
            b"thread-self" => {
                let (process, thread) = (self.caller.process()?, self.caller.thread);
                Ok(Target::Text(format!("{process}/task/{thread}").into_bytes()))
            }
            _ => text(),
        }
    }
}

enum Target {
    Text(Vec<u8>),
    Magic(OwnedFd),
}

/// Whether `path` is the supervisor's directory of procfs or lies in it, also
/// by way of the thread list.
pub(super) fn is_own_proc(path: &[u8], pid: u32) -> bool {
    let Some(rest) = path.strip_prefix(b"/proc/") else { return false };
    let pid = pid.to_string();
    let first = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
    first == pid.as_bytes()
}

/// Whether what is at `path` in a process's directory of procfs is for everybody
/// to read, as `ps` does (proc(5)).
pub(super) fn is_open_to_all(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(3).collect();
    let is_plain = |name: &[u8]| {
        matches!(name, b"cgroup" | b"cmdline" | b"comm" | b"stat" | b"statm" | b"status")
    };
    match names[..] {
        [] | [b"task"] | [b"task", _] => true,
        [name] | [b"task", _, name] => is_plain(name),
        _ => false,
    }
}

/// Splits into parent, last name, and whether slashes follow it. The parent
/// keeps its root slash and is empty if there is none.
fn split(path: &[u8]) -> (&[u8], &[u8], bool) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    if end == 0 {
        return (b"", b".", false);
    }
    let has_slash = end < path.len();
    let trimmed = &path[..end];
    match trimmed.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&trimmed[..=slash], &trimmed[slash + 1..], has_slash),
        None => (b"", trimmed, has_slash),
    }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

fn owned(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_a_process_only_what_ps_reads_is_open_to_all() {
        for path in ["/proc/1", "/proc/1/stat", "/proc/1/task", "/proc/1/task/1/comm"] {
            assert!(super::is_open_to_all(path.as_bytes()), "{path}");
        }
        for path in ["/proc/1/fd", "/proc/1/mem", "/proc/1/task/1/fd", "/proc/1/task/1/fd/stat"] {
            assert!(!super::is_open_to_all(path.as_bytes()), "{path}");
        }
    }

    use super::*;

    #[test]
    fn splitting() {
        let check = |path: &str, parent: &str, name: &str, slash| {
            let expected = (parent.as_bytes(), name.as_bytes(), slash);
            assert_eq!(split(path.as_bytes()), expected, "{path}");
        };
        check("a", "", "a", false);
        check("a/", "", "a", true);
        check("/", "", ".", false);
        check("//", "", ".", false);
        check("/a", "/", "a", false);
        check("a/b//", "a/", "b", true);
        check("a//b", "a//", "b", false);
        check("/a/..", "/a/", "..", false);
    }

    #[test]
    fn own_directory_of_procfs() {
        assert!(is_own_proc(b"/proc/12", 12));
        assert!(is_own_proc(b"/proc/12/fd", 12));
        assert!(!is_own_proc(b"/proc/123/fd", 12));
        assert!(!is_own_proc(b"/proc", 12));
        assert!(!is_own_proc(b"/procs/12", 12));
    }
}
