//! Unpacking a tar archive by descriptor.

use super::content::{self, Part};
use super::problem::Asked;
use super::root::{LastLink, Place, Root, beneath, is_procfs};
use super::staged::{Hidden, Staged, Taken};
use super::tar::{Described, Pending};
use super::{Failure, directory};
use crate::channel::Channel;
use atoll_protocol::files::{ARCHIVE_ENTRIES_MAX, Unpack};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{AtFlags, FileType, OFlags, Timespec, Timestamps};
use rustix::io::{Errno, Result as Called};
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

pub(super) fn unpack(
    root: &Root,
    request: &Unpack,
    channel: &mut Channel,
) -> Result<Reply, Failure> {
    let asked = Asked::new("unpack into", &request.path)?;
    let top = top(root, request, &asked)?;
    let mut receiver = Receiver::new(channel);
    let mut unpacker = Unpacker::new(root, top, asked, Links::All);
    let unpacked = unpacker.unpack(&mut receiver);
    // What the connection has to say is the reason of what the archive lacks.
    if let Some(failure) = receiver.failure.take() {
        return Err(failure);
    }
    unpacked?;
    // Padding after the end of the archive.
    io::copy(&mut receiver, &mut io::sink()).ok();
    match receiver.failure {
        Some(failure) => Err(failure),
        None => Ok(Reply::Unpacked { entries: unpacker.entries, bytes: unpacker.bytes }),
    }
}

fn top(root: &Root, request: &Unpack, asked: &Asked<'_>) -> Result<OwnedFd, Problem> {
    let top = match root.handle(asked.path(), LastLink::Follow) {
        Err(Errno::NOENT) if request.make_parents => directory::make_all(root, asked.path()),
        top => top,
    };
    let top = top.map_err(|errno| asked.errno(errno))?;
    let stat = rustix::fs::fstat(&top).map_err(|errno| asked.errno(errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(asked.problem(Code::Conflict, "it is no directory"));
    }
    if is_procfs(&top).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "it is a directory of /proc"));
    }
    Ok(top)
}

/// What becomes of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// They are made as they are.
    All,
    /// Those that could lead out of the directory are left out.
    Inside,
}

/// What was unpacked.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Files, directories and links.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Links that were left out; of very many, the first.
    pub left: Vec<PathBuf>,
}

/// Unpacks an archive of a stranger's into a directory of this process's, which has this
/// absolute path: nothing is written outside of it, whatever is in the archive.
///
/// # Errors
///
/// If the archive is damaged, or something in it cannot be, or is not to be, unpacked. What
/// came before stays.
pub fn unpack_into(
    directory: OwnedFd,
    path: &Path,
    archive: &mut impl Read,
    links: Links,
) -> io::Result<Unpacked> {
    let path = Octets::new(path.as_os_str().as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let refused = |problem: Problem| io::Error::other(problem.message);
    let asked = Asked::new("unpack into", &path).map_err(refused)?;
    let root = Root::of_process()?;
    let mut unpacker = Unpacker::new(&root, directory, asked, links);
    match unpacker.unpack(archive) {
        Ok(()) => {}
        Err(Failure::Refused(problem)) => return Err(refused(problem)),
        Err(Failure::Lost(lost)) => return Err(io::Error::other(lost)),
    }
    io::copy(archive, &mut io::sink())?;
    let Unpacker { entries, bytes, left, .. } = unpacker;
    Ok(Unpacked { entries, bytes, left })
}

/// Links that were left out and are named.
const LEFT_COUNT_MAX: usize = 1000;

struct Unpacker<'a> {
    root: &'a Root,
    top: OwnedFd,
    asked: Asked<'a>,
    /// The directory of the last entry, which is mostly that of the next.
    parent: Option<(PathBuf, Place)>,
    links: Links,
    entries: u64,
    bytes: u64,
    left: Vec<PathBuf>,
}

impl<'a> Unpacker<'a> {
    fn new(root: &'a Root, top: OwnedFd, asked: Asked<'a>, links: Links) -> Self {
        Self { root, top, asked, parent: None, links, entries: 0, bytes: 0, left: Vec::new() }
    }

    fn unpack(&mut self, receiver: &mut impl Read) -> Result<(), Failure> {
        let damaged = |asked: &Asked<'_>, error: &io::Error| {
            let code = match error.kind() {
                io::ErrorKind::Unsupported => Code::Unsupported,
                _ => Code::Invalid,
            };
            asked.problem(code, format!("the archive is damaged: {error}"))
        };
        let mut archive = tar::Archive::new(receiver);
        let entries = archive.entries().map_err(|error| damaged(&self.asked, &error))?;
        let mut pending = Pending::default();
        for entry in entries.raw(true) {
            let mut entry = entry.map_err(|error| damaged(&self.asked, &error))?;
            if pending.absorb(&mut entry).map_err(|error| damaged(&self.asked, &error))? {
                continue;
            }
            let described = std::mem::take(&mut pending)
                .describe(&entry)
                .map_err(|error| damaged(&self.asked, &error))?;
            self.entries += 1;
            if self.entries > ARCHIVE_ENTRIES_MAX {
                let why = format!("the archive has more than {ARCHIVE_ENTRIES_MAX} entries");
                return Err(self.asked.problem(Code::Limit, why).into());
            }
            self.put(&described, &mut entry)?;
        }
        Ok(())
    }

    /// Puts one entry in its place.
    fn put(&mut self, entry: &Described, content: &mut impl Read) -> Result<(), Problem> {
        let path = plain(&entry.path)
            .ok_or_else(|| self.refuse(entry, Code::Invalid, "its name leads out"))?;
        let Some(name) = path.file_name() else {
            // The directory itself.
            return Ok(());
        };
        let known = self.parent.take();
        let fail = |errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                self.refuse(entry, Code::Conflict, "a link or a file is in its way")
            }
            Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => {
                self.refuse(entry, Code::Conflict, "a directory is in its way")
            }
            errno => self
                .refuse(entry, super::problem::code(errno), io::Error::from(errno))
                .with_errno(Some(errno.raw_os_error())),
        };
        let above = path.parent().unwrap_or(Path::new(""));
        let mut place = match known {
            Some((known, place)) if known == above => place,
            _ => Place { parent: self.directory(above).map_err(fail)?, name: name.to_owned() },
        };
        name.clone_into(&mut place.name);
        match entry.kind {
            EntryType::Regular | EntryType::Continuous => {
                self.file(entry, &place, content).map_err(|error| {
                    Errno::from_io_error(&error)
                        .map_or_else(|| self.refuse(entry, Code::Invalid, &error), fail)
                })?;
                self.bytes += entry.bytes;
            }
            EntryType::Directory => {
                let mode = (entry.mode & 0o777) | 0o700;
                directory::make_one(place.parent.as_fd(), name, mode).map_err(fail)?;
            }
            EntryType::Symlink
                if self.links == Links::Inside && !stays_inside(above, &entry.link) =>
            {
                if self.left.len() < LEFT_COUNT_MAX {
                    self.left.push(path.clone());
                }
            }
            EntryType::Symlink => {
                let parent = place.parent.as_fd();
                Hidden::make(parent, |name| rustix::fs::symlinkat(&entry.link, parent, name))
                    .and_then(|((), hidden)| hidden.rename(parent, name, Taken::Replace))
                    .map_err(fail)?;
            }
            EntryType::Link => self.hard_link(entry, &place).map_err(|errno| match errno {
                Errno::NOENT | Errno::INVAL => {
                    self.refuse(entry, Code::Invalid, "it is a link to what is not below")
                }
                errno => fail(errno),
            })?,
            _ => {
                let why = "it is neither a file nor a directory nor a link";
                return Err(self.refuse(entry, Code::Unsupported, why));
            }
        }
        self.parent = Some((above.to_owned(), place));
        Ok(())
    }

    fn refuse(&self, entry: &Described, code: Code, why: impl std::fmt::Display) -> Problem {
        let name: String = entry.path.display().to_string().chars().take(256).collect();
        self.asked.problem(code, format!("{name}: {why}"))
    }

    /// A directory below the top one; made if it is missing. No link is followed.
    fn directory(&self, path: &Path) -> Called<OwnedFd> {
        if path.as_os_str().is_empty() {
            return rustix::io::fcntl_dupfd_cloexec(&self.top, 0);
        }
        match beneath(self.top.as_fd(), path, OFlags::PATH | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let mut at = rustix::io::fcntl_dupfd_cloexec(&self.top, 0)?;
        for component in path.components() {
            let name = component.as_os_str();
            at = directory::make_one(at.as_fd(), name, directory::MODE)?;
        }
        Ok(at)
    }

    fn file(&self, entry: &Described, place: &Place, content: &mut impl Read) -> io::Result<()> {
        let staged = Staged::new(self.root, place)?;
        if io::copy(content, &mut staged.file())? != entry.bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends within it"));
        }
        self.root.chmod(staged.file(), entry.mode & 0o777)?;
        let time = Timespec { tv_sec: entry.modified, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(staged.file(), &times)?;
        staged.publish(Taken::Replace)?;
        Ok(())
    }

    fn hard_link(&self, entry: &Described, place: &Place) -> Called<()> {
        let path = plain(&entry.link).ok_or(Errno::INVAL)?;
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = beneath(self.top.as_fd(), above, flags)?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let parent = place.parent.as_fd();
        let ((), hidden) = Hidden::make(parent, |hidden| {
            rustix::fs::linkat(&directory, name, parent, hidden, AtFlags::empty())
        })?;
        // Two names of one file are not exchanged, and the hidden one would stay.
        hidden.replace(parent, &place.name)
    }
}

/// Whether a link in the directory `above` leads nowhere but below the top one. What
/// climbs up behind another name is not trusted: that name may be a link itself.
fn stays_inside(above: &Path, target: &Path) -> bool {
    let (mut up, mut is_down) = (0, false);
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if !is_down => up += 1,
            Component::Normal(_) => is_down = true,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    up <= above.components().count()
}

/// A name in an archive that stays below the directory, without what means
/// nothing; none for any other.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Reads what the host sends in frames `Body`, up to `End`.
struct Receiver<'a> {
    channel: &'a mut Channel,
    buffer: Vec<u8>,
    at: usize,
    has_ended: bool,
    failure: Option<Failure>,
}

impl<'a> Receiver<'a> {
    fn new(channel: &'a mut Channel) -> Self {
        Self { channel, buffer: Vec::new(), at: 0, has_ended: false, failure: None }
    }

    /// Takes the next frame with bytes, or the end.
    fn fill(&mut self) -> Result<(), Failure> {
        self.at = 0;
        self.buffer.clear();
        let misplaced = |kind| {
            let text = format!("a {kind:?} frame among those of the archive");
            Problem::new(Code::Invalid, text)
        };
        match content::next(self.channel, misplaced)? {
            Part::Bytes(bytes) => self.buffer.extend(bytes),
            Part::End => self.has_ended = true,
        }
        Ok(())
    }
}

impl Read for Receiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.buffer.len() && !self.has_ended {
            if let Err(failure) = self.fill() {
                self.failure = Some(failure);
                return Err(io::Error::other("the connection failed"));
            }
        }
        let length = buffer.len().min(self.buffer.len() - self.at);
        buffer[..length].copy_from_slice(&self.buffer[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_inside_only_if_no_other_link_can_change_that() {
        for (above, target, expected) in [
            ("", "a", true),
            ("", "./a/b", true),
            ("a/b", "../../c", true),
            ("a/b", "../..", true),
            ("a/b", "../../..", false),
            ("", "..", false),
            ("", "/etc/passwd", false),
            ("", "a/..", false),
            ("a", "b/../c", false),
        ] {
            assert_eq!(stays_inside(Path::new(above), Path::new(target)), expected, "{target}");
        }
    }
}
