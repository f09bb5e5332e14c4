//! Putting judged content in place, always in a file that no caller has open.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, chmodat, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::caller::errno;
use super::decide::{Failure, Kind, Lineage, Site};
use super::denial::{Class, Rule};
use super::git::config::{self, Entry, MAX_BYTES};
use super::git::keys::{self, Holder};
use super::git::layout::{Part, part};
use super::names::{dot_git, fold};
use super::state::{Case, Judged, State, kind, kind_at};
use super::walk::Spot;
use crate::paths::normalise;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What git writes into `commondir` of a work tree's entry.
const COMMONDIR: &[u8] = b"../..\n";

impl State {
    /// Carries out the rename of a file over a configuration.
    pub(super) fn install_config(
        &mut self,
        case: &mut Case<'_>,
        from: &Spot<'_>,
        to: &Spot<'_>,
        target: &Judged,
    ) -> Result<(), Errno> {
        let Site::Git { git_directory, lineage, .. } = &target.site else {
            return Err(Errno::ACCESS);
        };
        let (text, mode) = read_file(from.parent.as_fd(), &from.name)?;
        let old = match kind_at(to.parent.as_fd(), &to.name) {
            None => Vec::new(),
            Some(_) => read_file(to.parent.as_fd(), &to.name)?.0,
        };
        if let Err(detail) = self.judge_config(&old, &text, git_directory) {
            let class = match lineage {
                Lineage::Existing => Class::Repository,
                Lineage::Born => Class::BornRepository,
            };
            let (rule, failure) = (Rule::GitConfig, Failure::Denied);
            return Err(self.deny(case, &target.path, rule, class, failure, Some(detail)));
        }
        // The writer may still have the lock file open, so its name gets a new
        // file first. Killed in between, this leaves what a killed git leaves.
        unlinkat(from.parent.as_fd(), &from.name, AtFlags::empty())?;
        write_new(from.parent.as_fd(), &from.name, &text, mode & 0o666)?;
        renameat(from.parent.as_fd(), &from.name, to.parent.as_fd(), &to.name)
    }

    fn judge_config(&self, old: &[u8], new: &[u8], git_directory: &[u8]) -> Result<(), String> {
        let read = |which, text| {
            config::parse(text).map_err(|error| format!("{which} configuration: {error}"))
        };
        let (old, new): (Vec<Entry>, Vec<Entry>) = (read("present", old)?, read("new", new)?);
        let place: Vec<&[u8]> = self
            .relative(git_directory)
            .map(|path| path.split(|byte| *byte == b'/').collect())
            .unwrap_or_default();
        let is_submodule = place.iter().any(|name| *name == b"modules");
        let holder = if is_submodule { Holder::Submodule(&place) } else { Holder::Repository };
        keys::compare(&old, &new, holder).map_err(|refused| refused.describe())
    }

    /// Looks at a directory that is about to become a bare repository: what is
    /// in it was written before anything in it had a rule.
    pub(super) fn examine_bare(&self, case: &mut Case<'_>, directory: &[u8]) -> Result<(), Errno> {
        self.examine(directory).map_err(|found| {
            let (rule, class) = (Rule::BareRepository, Class::BornRepository);
            self.deny(case, directory, rule, class, Failure::Denied, Some(found))
        })
    }

    fn examine(&self, directory: &[u8]) -> Result<(), String> {
        let parent = openat(CWD, directory, DIRECTORY, Mode::empty())
            .map_err(|error| format!("could not look at it: {error}"))?;
        for name in [c"commondir", c"gitdir", c"modules", c"worktrees"] {
            if kind_at(parent.as_fd(), name).is_some() {
                return Err(format!("it already has {}", name.to_string_lossy()));
            }
        }
        for name in [c"config", c"config.worktree"] {
            if kind_at(parent.as_fd(), name).is_none() {
                continue;
            }
            let (text, mode) = read_file(parent.as_fd(), name)
                .map_err(|error| format!("could not read its configuration: {error}"))?;
            self.judge_config(&[], &text, directory)?;
            unlinkat(&parent, name, AtFlags::empty())
                .and_then(|()| write_new(parent.as_fd(), name, &text, mode & 0o666))
                .map_err(|error| format!("could not write its configuration anew: {error}"))?;
        }
        match kind_at(parent.as_fd(), c"hooks") {
            None => Ok(()),
            Some(Kind::Directory) => disarm_hooks(parent.as_fd()),
            Some(_) => Err("its hooks are not a directory".to_owned()),
        }
    }

    /// Writes a work tree entry's `commondir`, whose content is known, and gives
    /// the caller a file to write to that is nobody's.
    pub(super) fn write_commondir(
        &mut self,
        case: &Case<'_>,
        spot: &Spot<'_>,
        mode: u32,
    ) -> Result<OwnedFd, Errno> {
        self.become_creator(case)?;
        write_new(spot.parent.as_fd(), &spot.name, COMMONDIR, mode)?;
        nobodys_file()
    }

    /// Whether a `.git` file in `directory` may say `target`: only a place where
    /// a later write of config and hooks is judged.
    pub(super) fn is_safe_pointer(&self, directory: &[u8], target: &Path) -> bool {
        let base = Path::new(OsStr::from_bytes(directory));
        let full = normalise(&base.join(target));
        let Some(relative) = self.relative(full.as_os_str().as_bytes()) else {
            return false;
        };
        let names: Vec<&[u8]> = relative.split(|byte| *byte == b'/').collect();
        let Some(at) = names.iter().rposition(|name| dot_git(name).is_some()) else {
            return false;
        };
        if names[at] != b".git" {
            return false;
        }
        let below = &names[at + 1..];
        let with = |more: &[&'static [u8]]| part(&[below, more].concat());
        let is_judged = |found: (usize, Part), expected| found == (below.len(), expected);
        let is_entry = below.len() == 2 && below[0] == b"worktrees";
        below.is_empty()
            || is_entry
            || (is_judged(with(&[b"config"]), Part::Config)
                && is_judged(with(&[b"hooks"]), Part::HooksDirectory))
    }
}

/// Takes execution from the samples, and refuses anything else that is there.
fn disarm_hooks(parent: BorrowedFd<'_>) -> Result<(), String> {
    let failed = |error: Errno| format!("could not look at its hooks: {error}");
    let hooks = openat(parent, c"hooks", DIRECTORY, Mode::empty()).map_err(failed)?;
    for entry in Dir::read_from(&hooks).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = statat(&hooks, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if !fold(name.to_bytes()).ends_with(b".sample") || kind(found.st_mode) != Kind::File {
            return Err(format!("it already has the hook {}", name.to_string_lossy()));
        }
        let mode = Mode::from_raw_mode(found.st_mode & 0o666);
        chmodat(&hooks, name, mode, AtFlags::empty()).map_err(failed)?;
    }
    Ok(())
}

/// Reads a small regular file, links not followed, and gives its mode.
fn read_file(parent: BorrowedFd<'_>, name: &CStr) -> Result<(Vec<u8>, u32), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::empty())?;
    let found = fstat(&file)?;
    if kind(found.st_mode) != Kind::File {
        return Err(Errno::ACCESS);
    }
    let mut text = Vec::new();
    File::from(file).take(MAX_BYTES as u64 + 1).read_to_end(&mut text).map_err(errno)?;
    Ok((text, found.st_mode & 0o7777))
}

/// Writes a file that was not there, and leaves none if that fails.
pub(super) fn write_new(
    parent: BorrowedFd<'_>,
    name: &CStr,
    text: &[u8],
    mode: u32,
) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let file = openat(parent, name, flags | OFlags::NOFOLLOW, mode)?;
    let mut file = File::from(file);
    let written = file.write_all(text).map_err(errno);
    if written.is_err() {
        let _gone = unlinkat(parent, name, AtFlags::empty());
    }
    written
}

/// A file for a caller to write into when its content is not taken.
pub(super) fn nobodys_file() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create(c"git", rustix::fs::MemfdFlags::CLOEXEC)
}
