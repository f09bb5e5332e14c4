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

mod bounds;
mod build;
mod directory;
mod made;
mod stop;

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags, fchmod, mkdirat, openat, renameat_with, unlinkat};
use rustix::io::Errno;

use bounds::Measure;
use build::Build;
use directory::{DIRECTORY, Listed, OWN, READ, hold, mode, names, remove_all, set_mode};
use made::Made;

pub(super) use bounds::Bounds;
pub(super) use stop::Stop;

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
        Measure::new(self.bounds, device).directory(source.fd.as_fd(), 0)?;
        let (root, stage) = self.stage;
        mkdirat(root, stage, OWN)?;
        let placed = self.fill(&source).and_then(|made| {
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

    fn fill(&self, source: &Listed) -> Result<(OwnedFd, Made), Stop> {
        let (root, stage) = self.stage;
        let top = openat(root, stage, DIRECTORY, Mode::empty())?;
        let mut build = Build::new(top.as_fd(), self.bounds);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
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
}
