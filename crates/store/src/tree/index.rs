//! What a copy of a tree was made of, kept beside it so that the next copy can link
//! what has not changed.
//!
//! The file is one zstd frame with a checksum. In it, all numbers little-endian:
//! the magic, a version, the id of the machine's boot, when the copy was done, then
//! records of a tag and a body each: a directory (its path), a file in the directory
//! before (its name and what stat(2) said of its original), the end. Whatever does not
//! parse is as if there were no index: everything is copied then.
//!
//! # When a file counts as unchanged
//!
//! The change time of its inode is the witness, since no program can set it. It says
//! nothing in four cases, and files in them are left out:
//!
//! - It is not older than the copy: a write in the same tick of the clock would not move it.
//! - The machine was started anew since: after a crash there may be newer content with an
//!   older time on the disk, as after fdatasync(2).
//! - The file system does not move it on a write through a memory mapping (tmpfs), or it
//!   is not known that it does. Only ext4, XFS and btrfs are trusted.
//! - A page was dirty in the page cache when the copy was made: who has mapped it could go
//!   on writing without the kernel noticing. So writing it to the disk is started first
//!   ([`atoll_sys::writeback`]), which makes the page read-only, as the reflink of a file
//!   does too; where that fails the file is left out.

use crate::beneath;
use crate::node::{Stamp, Time};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"ATOLLIDX";
const VERSION: u32 = 1;
/// Longest index that is read, unpacked: four million files.
const LENGTH_MOST: u64 = 1 << 30;
const ENTRIES_MOST: usize = 4_000_000;
/// Longer paths cannot be opened by one call. Source: path_resolution(7).
const PATH_MOST: usize = 4000;
const NAME_MOST: usize = 255;

const END: u8 = 0;
const DIRECTORY: u8 = 1;
const FILE: u8 = 2;

/// A file as stat(2) showed it when it was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The directory of its copy, by number.
    dir: u32,
    name: OsString,
    seen: Seen,
}

/// What must be as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    ctime: Time,
    mtime: Time,
    size: u64,
    /// Permission bits. The kind of an inode does not change without its change time.
    mode: u32,
    uid: u32,
    gid: u32,
}

impl From<&Stamp> for Seen {
    fn from(stamp: &Stamp) -> Self {
        let Stamp { ctime, mtime, size, mode, uid, gid, .. } = *stamp;
        Self { ctime, mtime, size, mode, uid, gid }
    }
}

/// What a copy of a tree was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    boot: Boot,
    /// When the copy was done, by the clock that stamps files.
    taken: Time,
    /// Directories of the copy that have files, by number.
    dirs: Vec<PathBuf>,
    /// By device and inode of the original.
    entries: HashMap<(u64, u64), Entry>,
}

/// Where the previous copy has a file that has not changed.
pub(super) struct Found<'i> {
    /// Number of the directory, the same for all files in it.
    pub(super) dir: u32,
    pub(super) dir_path: &'i Path,
    pub(super) name: &'i OsStr,
}

impl Index {
    /// An index to which what is copied is added.
    pub(super) fn new() -> Self {
        let taken = Time { sec: i64::MIN, nsec: 0 };
        let boot = Boot::current().unwrap_or(Boot([0; 16]));
        Self { boot, taken, dirs: Vec::new(), entries: HashMap::new() }
    }

    /// Adds a directory and gives its number; nothing where its files cannot be kept.
    pub(super) fn add_dir(&mut self, path: &Path) -> Option<u32> {
        let number = u32::try_from(self.dirs.len()).ok()?;
        if path.as_os_str().len() > PATH_MOST {
            return None;
        }
        self.dirs.push(path.to_owned());
        Some(number)
    }

    pub(super) fn add(&mut self, original: &Stamp, dir: u32, name: &OsStr) {
        if self.entries.len() < ENTRIES_MOST {
            let entry = Entry { dir, name: name.to_owned(), seen: original.into() };
            self.entries.insert(original.id(), entry);
        }
    }

    /// To be called when everything is copied and nothing has been changed since.
    pub(super) fn finish(&mut self) {
        self.taken = now();
        let taken = self.taken;
        self.entries.retain(|_, entry| is_settled(entry.seen.ctime, taken));
    }

    pub(super) fn find(&self, original: &Stamp) -> Option<Found<'_>> {
        let entry = self.entries.get(&original.id())?;
        let dir_path = self.dirs.get(usize::try_from(entry.dir).ok()?)?;
        let is_same = entry.seen == Seen::from(original) && is_settled(original.ctime, self.taken);
        is_same.then_some(Found { dir: entry.dir, dir_path, name: &entry.name })
    }

    /// How many files the next copy may link.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the next copy can link nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the index to a new file `name` in `dir`.
    ///
    /// # Errors
    ///
    /// When the file cannot be made or written.
    pub fn save(&self, dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
        let mut packer = zstd::Encoder::new(file, 1)?;
        packer.include_checksum(true)?;
        let mut out = BufWriter::with_capacity(1 << 16, packer);
        self.write(&mut out)?;
        out.into_inner()?.finish()?;
        Ok(())
    }

    /// Reads the index `name` in `dir`; nothing where there is none, or it is damaged, or
    /// from before the machine was started.
    #[must_use]
    pub fn load(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Self> {
        let file = beneath::file(dir, Path::new(name)).ok()?;
        let index = Self::unpack(File::from(file))?;
        (Boot::current() == Some(index.boot)).then_some(index)
    }

    fn unpack(packed: impl Read) -> Option<Self> {
        let unpacked = zstd::Decoder::new(packed).ok()?;
        let mut reader = BufReader::with_capacity(1 << 16, unpacked.take(LENGTH_MOST));
        let index = Self::parse(&mut reader)?;
        // The checksum is judged when the frame ends, and nothing follows it.
        (reader.read(&mut [0]).ok()? == 0).then_some(index)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&self.boot.0)?;
        write_time(out, self.taken)?;
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by(|(_, one), (_, other)| {
            (one.dir, &one.name).cmp(&(other.dir, &other.name))
        });
        let mut entries = entries.into_iter().peekable();
        for (number, path) in self.dirs.iter().enumerate() {
            let is_here = |entry: &Entry| usize::try_from(entry.dir) == Ok(number);
            if !entries.peek().is_some_and(|(_, entry)| is_here(entry)) {
                continue;
            }
            out.write_all(&[DIRECTORY])?;
            write_bytes(out, path.as_os_str().as_bytes())?;
            while let Some((id, entry)) = entries.next_if(|(_, entry)| is_here(entry)) {
                out.write_all(&[FILE])?;
                write_bytes(out, entry.name.as_bytes())?;
                write_entry(out, *id, &entry.seen)?;
            }
        }
        out.write_all(&[END])
    }

    fn parse(from: &mut impl Read) -> Option<Self> {
        if array(from)? != *MAGIC || u32::from_le_bytes(array(from)?) != VERSION {
            return None;
        }
        let mut index = Self::new();
        index.boot = Boot(array(from)?);
        index.taken = parse_time(from)?;
        let mut dir = None;
        loop {
            match array(from)? {
                [END] => return Some(index),
                [DIRECTORY] => {
                    dir = Some(index.add_dir(&PathBuf::from(parse_bytes(from, PATH_MOST)?))?)
                }
                [FILE] if index.entries.len() < ENTRIES_MOST => {
                    let name = parse_bytes(from, NAME_MOST)?;
                    let is_name = !matches!(name.as_bytes(), b"" | b"." | b"..");
                    let (id, seen) = parse_entry(from)?;
                    let entry = Entry { dir: dir?, name, seen };
                    if !is_name || entry.name.as_bytes().contains(&b'/') {
                        return None;
                    }
                    index.entries.insert(id, entry);
                }
                [_] => return None,
            }
        }
    }
}

/// The time by the clock that stamps files.
pub(super) fn now() -> Time {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Time { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

/// Whether a change made after `taken` would show in a change time that was `ctime` then.
pub(super) fn is_settled(ctime: Time, taken: Time) -> bool {
    // Small inodes of ext4 have times of whole seconds.
    let granule = i64::from(ctime.nsec == 0);
    (ctime.sec.saturating_add(granule), ctime.nsec) < (taken.sec, taken.nsec)
}

fn write_entry(out: &mut impl Write, id: (u64, u64), seen: &Seen) -> io::Result<()> {
    out.write_all(&id.0.to_le_bytes())?;
    out.write_all(&id.1.to_le_bytes())?;
    write_time(out, seen.ctime)?;
    write_time(out, seen.mtime)?;
    out.write_all(&seen.size.to_le_bytes())?;
    for number in [seen.mode, seen.uid, seen.gid] {
        out.write_all(&number.to_le_bytes())?;
    }
    Ok(())
}

fn parse_entry(from: &mut impl Read) -> Option<((u64, u64), Seen)> {
    let id = (u64::from_le_bytes(array(from)?), u64::from_le_bytes(array(from)?));
    let (ctime, mtime) = (parse_time(from)?, parse_time(from)?);
    let size = u64::from_le_bytes(array(from)?);
    let mut number = || Some(u32::from_le_bytes(array(from)?));
    let (mode, uid, gid) = (number()?, number()?, number()?);
    Some((id, Seen { ctime, mtime, size, mode, uid, gid }))
}

fn write_time(out: &mut impl Write, time: Time) -> io::Result<()> {
    out.write_all(&time.sec.to_le_bytes())?;
    out.write_all(&time.nsec.to_le_bytes())
}

fn parse_time(from: &mut impl Read) -> Option<Time> {
    let (sec, nsec) = (i64::from_le_bytes(array(from)?), u32::from_le_bytes(array(from)?));
    Some(Time { sec, nsec })
}

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)
}

fn parse_bytes(from: &mut impl Read, most: usize) -> Option<OsString> {
    let length = usize::from(u16::from_le_bytes(array(from)?));
    if length > most {
        return None;
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).ok()?;
    Some(OsString::from_vec(bytes))
}

fn array<const SIZE: usize>(from: &mut impl Read) -> Option<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    from.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The id that the kernel gives itself when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boot([u8; 16]);

impl Boot {
    /// Source: random(4), `/proc/sys/kernel/random/boot_id`.
    fn current() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.trim().chars().filter(|character| *character != '-').collect();
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
        Some(Self(number.to_be_bytes()))
    }
}

/// Whether change times of files in the file system of `dir` can be relied on.
pub(super) fn is_relied_on(dir: impl AsFd) -> bool {
    const EXT4: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const BTRFS: u32 = 0x9123_683e;
    let kind = rustix::fs::fstatfs(dir).ok().and_then(|stat| u32::try_from(stat.f_type).ok());
    kind.is_some_and(|kind| [EXT4, XFS, BTRFS].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = Time> {
        (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(sec, nsec)| Time { sec, nsec })
    }

    fn seen() -> impl Strategy<Value = Seen> {
        (time(), time(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
            |(ctime, mtime, size, mode, uid, gid)| Seen { ctime, mtime, size, mode, uid, gid },
        )
    }

    fn name() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(
            any::<u8>().prop_filter("no name", |byte| !b"/\0.".contains(byte)),
            1..20,
        )
        .prop_map(OsString::from_vec)
    }

    prop_compose! {
        fn index()(
            boot in any::<[u8; 16]>(),
            taken in time(),
            dirs in proptest::collection::vec(proptest::collection::vec((any::<(u64, u64)>(), name(), seen()), 1..5), 0..4),
        ) -> Index {
            let mut index = Index { boot: Boot(boot), taken, dirs: Vec::new(), entries: HashMap::new() };
            for (number, files) in dirs.into_iter().enumerate() {
                let dir = index.add_dir(Path::new(&number.to_string())).unwrap();
                for (id, name, seen) in files {
                    index.entries.entry(id).or_insert(Entry { dir, name, seen });
                }
            }
            index
        }
    }

    fn packed(index: &Index) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let fd = beneath::open_root(dir.path()).unwrap();
        index.save(fd.as_fd(), OsStr::new("index")).unwrap();
        std::fs::read(dir.path().join("index")).unwrap()
    }

    /// What is in an index, whatever the numbers of its directories.
    fn content(index: &Index) -> Vec<((u64, u64), PathBuf, Seen)> {
        let path = |entry: &Entry| index.dirs[entry.dir as usize].join(&entry.name);
        let mut list: Vec<_> =
            index.entries.iter().map(|(id, entry)| (*id, path(entry), entry.seen)).collect();
        list.sort_by_key(|(id, ..)| *id);
        list
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_saved_is_read_again(index in index()) {
            let read = Index::unpack(packed(&index).as_slice()).unwrap();
            prop_assert_eq!((read.boot, read.taken), (index.boot, index.taken));
            prop_assert_eq!(content(&read), content(&index));
        }

        #[test]
        fn a_damaged_index_is_none(index in index(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let mut bytes = packed(&index);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Some(read) = Index::unpack(bytes.as_slice()) {
                // Bits of the frame's header that do not matter.
                prop_assert_eq!(content(&read), content(&index));
            }
            bytes.truncate(at);
            prop_assert!(Index::unpack(bytes.as_slice()).is_none());
        }

        #[test]
        fn any_bytes_are_parsed_within_limits(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
            packer.write_all(MAGIC).unwrap();
            packer.write_all(&VERSION.to_le_bytes()).unwrap();
            packer.write_all(&[0; 28]).unwrap();
            packer.write_all(&bytes).unwrap();
            let _: Option<Index> = Index::unpack(packer.finish().unwrap().as_slice());
        }
    }

    #[test]
    fn an_index_of_another_boot_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let fd = beneath::open_root(dir.path()).unwrap();
        let mut index = Index::new();
        index.save(fd.as_fd(), OsStr::new("now")).unwrap();
        assert!(Index::load(fd.as_fd(), OsStr::new("now")).is_some());
        index.boot.0[3] ^= 1;
        index.save(fd.as_fd(), OsStr::new("before")).unwrap();
        assert!(Index::load(fd.as_fd(), OsStr::new("before")).is_none());
        assert!(Index::load(fd.as_fd(), OsStr::new("nothing")).is_none());
    }

    #[test]
    fn a_time_as_late_as_the_copy_is_no_witness() {
        let at = |sec, nsec| Time { sec, nsec };
        assert!(is_settled(at(5, 1), at(5, 2)));
        assert!(!is_settled(at(5, 2), at(5, 2)));
        assert!(!is_settled(at(6, 1), at(5, 2)));
        assert!(!is_settled(at(5, 0), at(5, 2)), "whole seconds");
        assert!(is_settled(at(5, 0), at(6, 2)), "whole seconds");
        assert!(!is_settled(at(i64::MAX, 0), at(6, 2)));
    }
}
