//! Moving a directory that the kernel will not move, by making it anew.
//!
//! An overlay in a user namespace cannot rename a directory that has something
//! below it in the lower layer. What it can do is give a file a second name,
//! which copies the file up once with all that belongs to it. So the directories
//! are made again in a staging directory, every other entry is linked into it,
//! the whole is renamed into place, and only then the old names go. Up to that
//! rename the source is as it was; a file that is written to meanwhile is the
//! same file under both names, and what appears meanwhile stays where it is.
//!
//! Runs in a process of its own, with the rights that the workload has.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec,
    Timestamps, Uid, XattrFlags, chmodat, fchmod, fchown, fgetxattr, flistxattr, fremovexattr,
    fsetxattr, fstat, futimens, linkat, mkdirat, openat, openat2, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::footing::number;

/// How much one move may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) entries: u64,
    /// Of content, holes left out. What the session wrote itself counts too,
    /// though it need not be copied.
    pub(super) bytes: u64,
    /// Directories in one another; each costs descriptors.
    pub(super) depth: usize,
}

impl Bounds {
    pub(super) const USUAL: Self = Self { entries: 50_000, bytes: 2 << 30, depth: 128 };
}

/// Why a move was not made. The source is whole then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The rename fails so without an overlay too.
    Kernel(Errno),
    TooManyEntries,
    TooManyBytes,
    TooDeep,
    Failed(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::Kernel(error),
            error => Self::Failed(error),
        }
    }
}

impl Stop {
    /// As it travels through a pipe.
    pub(super) fn encode(outcome: Result<(), Self>) -> [u8; 5] {
        let (tag, errno) = match outcome {
            Ok(()) => (0, 0),
            Err(Self::Kernel(errno)) => (1, errno.raw_os_error()),
            Err(Self::TooManyEntries) => (2, 0),
            Err(Self::TooManyBytes) => (3, 0),
            Err(Self::TooDeep) => (4, 0),
            Err(Self::Failed(errno)) => (5, errno.raw_os_error()),
        };
        let mut bytes = [tag; 5];
        bytes[1..].copy_from_slice(&errno.to_le_bytes());
        bytes
    }

    /// A process that ended without a word has failed.
    pub(super) fn decode(bytes: &[u8]) -> Result<(), Self> {
        let Ok(&[tag, a, b, c, d]) = <&[u8; 5]>::try_from(bytes) else {
            return Err(Self::Failed(Errno::IO));
        };
        let errno = || match i32::from_le_bytes([a, b, c, d]) {
            number @ 1..4096 => Errno::from_raw_os_error(number),
            _ => Errno::IO,
        };
        match tag {
            0 => Ok(()),
            1 => Err(Self::Kernel(errno())),
            2 => Err(Self::TooManyEntries),
            3 => Err(Self::TooManyBytes),
            4 => Err(Self::TooDeep),
            _ => Err(Self::Failed(errno())),
        }
    }
}

/// A directory to move, between directories of one mount.
pub(super) struct Transfer<'a> {
    pub(super) from: (BorrowedFd<'a>, &'a CStr),
    pub(super) to: (BorrowedFd<'a>, &'a CStr),
    /// Where the staging directory is made: a name that nothing else uses.
    pub(super) stage: (BorrowedFd<'a>, &'a CStr),
    pub(super) flags: RenameFlags,
    pub(super) bounds: Bounds,
}

impl Transfer<'_> {
    /// Moves it. `placing` is called just before the new name appears; after
    /// that the move is only to be finished.
    pub(super) fn run(&self, placing: &mut dyn FnMut()) -> Result<(), Stop> {
        let (parent, name) = self.from;
        let source = Listed::open(parent, name, READ)?;
        if self.is_target_full() {
            return Err(Stop::Kernel(Errno::NOTEMPTY));
        }
        let device = source.found.st_dev;
        let mut measure = Measure { bounds: self.bounds, device, entries: 0, bytes: 0 };
        measure.directory(source.fd.as_fd(), 0)?;
        let (root, stage) = self.stage;
        mkdirat(root, stage, OWN)?;
        let placed = self.fill(&source, measure).and_then(|made| {
            placing();
            self.place()?;
            Ok(made)
        });
        let (top, made) = match placed {
            Ok(made) => made,
            Err(stop) => {
                let _rest = remove_all(root, stage);
                return Err(stop);
            }
        };
        // Only now: a directory that cannot be written cannot change its parent.
        let _kept = fchmod(&top, mode(&source.found));
        drop(source);
        made.take_away(parent, name, top.as_fd());
        let _kept = unlinkat(parent, name, AtFlags::REMOVEDIR);
        Ok(())
    }

    fn is_target_full(&self) -> bool {
        let (parent, name) = self.to;
        Listed::open(parent, name, READ)
            .and_then(|target| names(target.fd.as_fd()))
            .is_ok_and(|names| !names.is_empty())
    }

    fn fill(&self, source: &Listed, measure: Measure) -> Result<(OwnedFd, Made), Stop> {
        let (root, stage) = self.stage;
        let top = openat(root, stage, DIRECTORY, Mode::empty())?;
        let mut build = Build {
            top: top.as_fd(),
            path: Vec::new(),
            left: measure.bounds.entries,
            depth_left: measure.bounds.depth + 1,
            first_names: HashMap::new(),
            narrow: Vec::new(),
            made: Made::default(),
        };
        build.directory(source, top.as_fd())?;
        // From the inside out, so that each can still be reached.
        for (path, mode) in &build.narrow {
            set_mode(hold(top.as_fd(), path)?.as_fd(), *mode)?;
        }
        let made = build.made;
        Ok((top, made))
    }

    fn place(&self) -> Result<(), Stop> {
        let ((root, stage), (parent, name)) = (self.stage, self.to);
        renameat_with(root, stage, parent, name, self.flags).map_err(Stop::Kernel)
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OWN: Mode = Mode::RWXU;
const READ: u32 = 0o500;
const WRITE: u32 = 0o700;

fn mode(found: &Stat) -> Mode {
    Mode::from_raw_mode(found.st_mode & 0o7777)
}

fn is_directory(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

/// A directory that its owner can use while this lives, whatever its mode.
struct Listed {
    fd: OwnedFd,
    /// As it was before.
    found: Stat,
    is_opened_up: bool,
}

impl Listed {
    fn open(parent: BorrowedFd<'_>, name: &CStr, needed: u32) -> Result<Self, Errno> {
        let held = hold(parent, name)?;
        let found = fstat(&held)?;
        let is_owner = found.st_uid == rustix::process::geteuid().as_raw();
        let is_opened_up = is_owner && found.st_mode & needed != needed;
        if is_opened_up {
            set_mode(held.as_fd(), Mode::from_raw_mode(found.st_mode & 0o7777 | needed))?;
        }
        let fd = openat(&held, c".", DIRECTORY, Mode::empty());
        if fd.is_err() && is_opened_up {
            let _kept = set_mode(held.as_fd(), mode(&found));
        }
        Ok(Self { fd: fd?, found, is_opened_up })
    }
}

/// Takes hold of a directory, without any right. The workload may put something else
/// in its place at any time: a link is not followed, and no other mount entered, where
/// names may be judged.
fn hold(top: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(top, path, flags, Mode::empty(), resolve).map_err(|error| match error {
        Errno::LOOP => Errno::NOTDIR,
        other => other,
    })
}

/// Sets the mode of what is held, whatever has its name by now.
fn set_mode(held: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    let own = [b"/proc/self/fd/", number(held).as_c_str().to_bytes()].concat();
    chmodat(CWD, own, mode, AtFlags::empty())
}

impl Drop for Listed {
    fn drop(&mut self) {
        if self.is_opened_up {
            let _gone = fchmod(&self.fd, mode(&self.found));
        }
    }
}

fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// What is there under `name`; nothing if it has just gone.
fn look(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says beforehand whether a move stays within its bounds.
struct Measure {
    bounds: Bounds,
    device: u64,
    entries: u64,
    bytes: u64,
}

impl Measure {
    fn directory(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), Stop> {
        if depth > self.bounds.depth {
            return Err(Stop::TooDeep);
        }
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > self.bounds.entries {
                return Err(Stop::TooManyEntries);
            }
            let Some(found) = look(directory, name)? else { continue };
            if is_directory(&found) {
                // What is mounted there would stay behind.
                if found.st_dev != self.device {
                    return Err(Stop::Failed(Errno::XDEV));
                }
                let below = Listed::open(directory, name, READ)?;
                self.directory(below.fd.as_fd(), depth + 1)?;
                continue;
            }
            let held = found.st_blocks.unsigned_abs().saturating_mul(512);
            self.bytes = self.bytes.saturating_add(held.min(found.st_size.unsigned_abs()));
            if self.bytes > self.bounds.bytes {
                return Err(Stop::TooManyBytes);
            }
        }
        Ok(())
    }
}

type Id = (u64, u64);

fn id(found: &Stat) -> Id {
    (found.st_dev, found.st_ino)
}

/// Makes the tree anew in the staging directory.
struct Build<'a> {
    top: BorrowedFd<'a>,
    /// Of the directory that is being filled, from the top, with a last slash.
    path: Vec<u8>,
    left: u64,
    depth_left: usize,
    /// Files with several names, and the first one here of each.
    first_names: HashMap<Id, CString>,
    /// Directories that shut out even their owner once all is made, with their
    /// modes; until then a first name may be in them.
    narrow: Vec<(CString, Mode)>,
    made: Made,
}

impl Build<'_> {
    /// Fills `made`, an empty directory, from `source` and makes it alike, but
    /// for what the owner may do with it.
    fn directory(&mut self, source: &Listed, made: BorrowedFd<'_>) -> Result<(), Stop> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Stop::TooDeep)?;
        for name in names(source.fd.as_fd())? {
            self.left = self.left.checked_sub(1).ok_or(Stop::TooManyEntries)?;
            let Some(found) = look(source.fd.as_fd(), &name)? else { continue };
            if is_directory(&found) {
                let below = Listed::open(source.fd.as_fd(), &name, READ)?;
                mkdirat(made, &name, OWN)?;
                let new = openat(made, &name, DIRECTORY, Mode::empty())?;
                let length = self.path.len();
                self.path.extend(name.to_bytes());
                self.path.push(b'/');
                self.directory(&below, new.as_fd())?;
                self.path.truncate(length);
                let wanted = mode(&below.found);
                if !wanted.contains(OWN) {
                    let path = [&self.path, name.to_bytes()].concat();
                    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
                    self.narrow.push((path, wanted));
                }
            } else {
                self.link(source.fd.as_fd(), &name, &found, made)?;
            }
        }
        self.depth_left += 1;
        dress(source, made)
    }

    /// Gives a file its name here. Names of one file stay names of one file,
    /// which copying each of them up would not keep.
    fn link(
        &mut self,
        source: BorrowedFd<'_>,
        name: &CStr,
        found: &Stat,
        made: BorrowedFd<'_>,
    ) -> Result<(), Stop> {
        self.made.files.insert(id(found));
        if found.st_nlink > 1 {
            if let Some(first) = self.first_names.get(&id(found)) {
                return Ok(linkat(self.top, first, made, name, AtFlags::empty())?);
            }
            let path = [&self.path, name.to_bytes()].concat();
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            self.first_names.insert(id(found), path);
        }
        linkat(source, name, made, name, AtFlags::empty())?;
        // Copying a file up may change its number.
        let now = look(source, name)?;
        self.made.files.extend(now.map(|now| id(&now)));
        Ok(())
    }
}

/// Gives a new directory what belongs to the old one; its owner keeps all rights.
fn dress(source: &Listed, made: BorrowedFd<'_>) -> Result<(), Stop> {
    let (old, new) = (&source.found, fstat(made)?);
    let differs = |old: u32, new: u32| (old != new).then_some(old);
    let uid = differs(old.st_uid, new.st_uid).map(Uid::from_raw);
    let gid = differs(old.st_gid, new.st_gid).map(Gid::from_raw);
    if uid.is_some() || gid.is_some() {
        fchown(made, uid, gid)?;
    }
    let wanted = attributes(source.fd.as_fd())?;
    for name in attributes(made)? {
        if !wanted.contains(&name) {
            fremovexattr(made, name.as_c_str())?;
        }
    }
    for name in wanted {
        // No attribute is larger (xattr(7)).
        let mut value = vec![0; 1 << 16];
        let length = fgetxattr(&source.fd, name.as_c_str(), &mut value)?;
        fsetxattr(made, name.as_c_str(), &value[..length], XattrFlags::empty())?;
    }
    fchmod(made, mode(old) | OWN)?;
    let last_access = Timespec { tv_sec: old.st_atime, tv_nsec: old.st_atime_nsec.cast_signed() };
    let last_modification =
        Timespec { tv_sec: old.st_mtime, tv_nsec: old.st_mtime_nsec.cast_signed() };
    Ok(futimens(made, &Timestamps { last_access, last_modification })?)
}

/// The attributes that a directory's owner decides on.
fn attributes(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut list = vec![0; 1 << 16];
    let length = match flistxattr(directory, &mut list) {
        Err(Errno::NOTSUP) => 0,
        other => other?,
    };
    let is_own =
        |name: &&[u8]| name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
    let names = list[..length].split(|byte| *byte == 0).filter(is_own);
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// What was made, for taking away just that.
#[derive(Default)]
struct Made {
    /// Files as their old names show them. The two names of one file may show
    /// different numbers in an overlay, so names are not compared.
    files: HashSet<Id>,
}

impl Made {
    /// Removes from the directory `name` what `placed` has. What cannot be
    /// removed, or has come since, stays: nothing is lost.
    fn take_away(&self, parent: BorrowedFd<'_>, name: &CStr, placed: BorrowedFd<'_>) {
        let Ok(source) = Listed::open(parent, name, WRITE) else { return };
        let source = source.fd.as_fd();
        for name in names(source).unwrap_or_default() {
            let (Ok(Some(old)), Ok(Some(new))) = (look(source, &name), look(placed, &name)) else {
                continue;
            };
            if is_directory(&old) {
                if let Ok(below) = Listed::open(placed, &name, READ) {
                    self.take_away(source, &name, below.fd.as_fd());
                    let _kept = unlinkat(source, &name, AtFlags::REMOVEDIR);
                }
            } else if !is_directory(&new) && self.files.contains(&id(&old)) {
                let _kept = unlinkat(source, &name, AtFlags::empty());
            }
        }
    }
}

/// Removes a tree that was made here.
fn remove_all(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let directory = Listed::open(parent, name, WRITE)?;
    for entry in names(directory.fd.as_fd())? {
        let is_below =
            look(directory.fd.as_fd(), &entry)?.is_some_and(|found| is_directory(&found));
        if is_below {
            remove_all(directory.fd.as_fd(), &entry)?;
        } else {
            unlinkat(&directory.fd, &entry, AtFlags::empty())?;
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::Path;

    fn c(name: &str) -> CString {
        CString::new(name).unwrap()
    }

    fn opened(path: &Path) -> OwnedFd {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
    }

    /// Moves `from` to `to`, both names in `top`.
    fn transfer(
        top: &Path,
        (from, to): (&str, &str),
        bounds: Bounds,
        placing: &mut dyn FnMut(),
    ) -> Result<(), Stop> {
        let (directory, from, to, stage) = (opened(top), c(from), c(to), c(".stage"));
        let done = Transfer {
            from: (directory.as_fd(), &from),
            to: (directory.as_fd(), &to),
            stage: (directory.as_fd(), &stage),
            flags: RenameFlags::empty(),
            bounds,
        }
        .run(placing);
        assert!(!top.join(".stage").exists());
        done
    }

    fn small_tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/b/c")).unwrap();
        fs::write(top.path().join("a/one"), "1").unwrap();
        fs::write(top.path().join("a/b/two"), [7; 9000]).unwrap();
        fs::hard_link(top.path().join("a/one"), top.path().join("a/b/c/same")).unwrap();
        top
    }

    fn listing(top: &Path) -> Vec<String> {
        let mut todo = vec![top.to_owned()];
        let mut all = Vec::new();
        while let Some(directory) = todo.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let found = fs::symlink_metadata(&path).unwrap();
                let name = path.strip_prefix(top).unwrap().display();
                all.push(format!("{name} {:o} {}", found.mode(), found.len()));
                todo.extend(found.is_dir().then_some(path));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn neither_a_link_nor_another_mount_takes_a_directorys_place() {
        let (top, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = opened(top.path());
        let closed = fs::Permissions::from_mode(0o000);
        for place in [outside.path(), top.path()] {
            fs::create_dir_all(place.join("in")).unwrap();
            fs::set_permissions(place.join("in"), closed.clone()).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), top.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("in"), top.path().join("last")).unwrap();
        for name in ["link", "last", "link/in"] {
            let opened = Listed::open(directory.as_fd(), &c(name), WRITE);
            assert_eq!(opened.err(), Some(Errno::NOTDIR), "{name}");
        }
        let root = super::openat(CWD, "/", DIRECTORY, Mode::empty()).unwrap();
        assert_eq!(Listed::open(root.as_fd(), c"proc", READ).err(), Some(Errno::XDEV));
        let mode = |place: &Path| fs::metadata(place.join("in")).unwrap().mode() & 0o7777;
        assert_eq!(mode(outside.path()), 0);
        // The control.
        let listed = Listed::open(directory.as_fd(), c"in", WRITE).unwrap();
        assert_eq!(mode(top.path()), 0o700);
        drop(listed);
        assert_eq!(mode(top.path()), 0);
    }

    #[test]
    fn a_tree_moves_as_it_is() {
        let top = small_tree();
        let mode = |path: &str| fs::metadata(top.path().join(path)).unwrap().mode() & 0o7777;
        fs::set_permissions(top.path().join("a/b/c"), fs::Permissions::from_mode(0o555)).unwrap();
        fs::set_permissions(top.path().join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(top.path().join("a"), fs::Permissions::from_mode(0o555)).unwrap();
        let before = fs::metadata(top.path().join("a/one")).unwrap();
        transfer(top.path(), ("a", "z"), Bounds::USUAL, &mut || {}).unwrap();
        let after = fs::metadata(top.path().join("z/one")).unwrap();
        assert_eq!((after.ino(), after.nlink()), (before.ino(), 2));
        assert_eq!((mode("z"), mode("z/b")), (0o555, 0));
        assert!(!top.path().join("a").exists());
        fs::set_permissions(top.path().join("z/b"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(mode("z/b/c"), 0o555);
        fs::set_permissions(top.path().join("z"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(top.path().join("z/b/c"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn over_a_bound_the_source_stays_whole() {
        let bounds = Bounds { entries: 5, bytes: 9002, depth: 2 };
        let check = |bounds, expected| {
            let top = small_tree();
            let before = listing(top.path());
            let done = transfer(top.path(), ("a", "z"), bounds, &mut || {});
            assert_eq!(done, expected, "{bounds:?}");
            assert_eq!(listing(top.path()) == before, expected.is_err());
        };
        check(bounds, Ok(()));
        check(Bounds { entries: 4, ..bounds }, Err(Stop::TooManyEntries));
        check(Bounds { bytes: 9000, ..bounds }, Err(Stop::TooManyBytes));
        check(Bounds { depth: 1, ..bounds }, Err(Stop::TooDeep));
    }

    #[test]
    fn a_full_target_is_refused_before_anything_is_made() {
        let top = small_tree();
        fs::create_dir_all(top.path().join("z/full")).unwrap();
        let before = listing(top.path());
        let mut is_placed = false;
        let done = transfer(top.path(), ("a", "z"), Bounds::USUAL, &mut || is_placed = true);
        assert_eq!((done, is_placed), (Err(Stop::Kernel(Errno::NOTEMPTY)), false));
        assert_eq!(listing(top.path()), before);
    }

    #[test]
    fn a_target_that_fills_meanwhile_is_refused_and_nothing_is_left() {
        let top = small_tree();
        let full = top.path().join("z/full");
        let mut fill = || fs::create_dir_all(&full).unwrap();
        let done = transfer(top.path(), ("a", "z"), Bounds::USUAL, &mut fill);
        assert_eq!(done, Err(Stop::Kernel(Errno::NOTEMPTY)));
        assert!(top.path().join("a/b/c/same").exists());
    }

    #[test]
    fn what_comes_meanwhile_stays_where_it_is() {
        let top = small_tree();
        let path = |name: &str| top.path().join(name);
        let mut come = || {
            fs::write(path("a/b/late"), "late").unwrap();
            fs::remove_file(path("a/b/two")).unwrap();
            fs::write(path("a/b/two"), "another").unwrap();
        };
        transfer(top.path(), ("a", "z"), Bounds::USUAL, &mut come).unwrap();
        assert_eq!(fs::read_to_string(path("a/b/late")).unwrap(), "late");
        assert_eq!(fs::read_to_string(path("a/b/two")).unwrap(), "another");
        assert_eq!(fs::read(path("z/b/two")).unwrap(), [7; 9000]);
        assert!(!path("a/one").exists() && path("z/b/c/same").exists());
    }

    #[test]
    fn outcomes_survive_the_pipe() {
        let stops = [
            Ok(()),
            Err(Stop::Kernel(Errno::NOTEMPTY)),
            Err(Stop::TooManyEntries),
            Err(Stop::TooManyBytes),
            Err(Stop::TooDeep),
            Err(Stop::Failed(Errno::ACCESS)),
        ];
        for outcome in stops {
            assert_eq!(Stop::decode(&Stop::encode(outcome)), outcome);
        }
        for odd in [&b""[..], b"P", b"\x01\0\0\0\0", b"\x05\xff\xff\xff\xff"] {
            assert!(Stop::decode(odd).is_err(), "{odd:?}");
        }
    }
}
