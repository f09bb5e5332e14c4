//! Calls that change an existing file without opening it.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Uid, XattrFlags, chmodat, chownat, fstat, ftruncate, removexattr,
    setxattr,
};
use rustix::io::Errno;

use super::call::{Change, PathArgument, Target};
use super::decide::{Act, Facts, Failure, Kind, Site, Verdict};
use super::denial::{Class, Rule};
use super::footing::number;
use super::open::object_at;
use super::state::{Answer, Case, State, kind};

/// The largest attribute value (xattr(7)).
const MAX_ATTRIBUTE: usize = 65_536;

const EXECUTE: u32 = 0o111;

impl State {
    pub(super) fn truncate(
        &mut self,
        case: &mut Case<'_>,
        path: PathArgument,
        length: u64,
    ) -> Result<Answer, Errno> {
        if length > i64::MAX.unsigned_abs() {
            return Err(Errno::INVAL);
        }
        let mut walk = case.walk();
        let spot = case.spot(&mut walk, path)?;
        let object = object_at(&mut walk, spot, true)?;
        match kind(fstat(&object)?.st_mode) {
            Kind::File => {}
            Kind::Directory => return Err(Errno::ISDIR),
            Kind::Link | Kind::Other => return Err(Errno::INVAL),
        }
        self.judge_object(case, object.as_fd(), Act::Write)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = case.caller.footing.reopen(object.as_fd(), flags)?;
        ftruncate(&file, length)?;
        Ok(Answer::Done)
    }

    pub(super) fn change(
        &mut self,
        case: &mut Case<'_>,
        target: Target,
        change: Change,
    ) -> Result<Answer, Errno> {
        let change = Prepared::read(case, change)?;
        let object = object(case, target)?;
        self.judge_object(case, object.as_fd(), change.act(object.as_fd())?)?;
        change.perform(case, object.as_fd())?;
        Ok(Answer::Done)
    }

    fn judge_object(
        &mut self,
        case: &mut Case<'_>,
        object: BorrowedFd<'_>,
        act: Act,
    ) -> Result<(), Errno> {
        let judged = self.judged(case, case.caller.footing.path_of(object)?);
        if judged.site == Site::Free {
            return Ok(());
        }
        match self.verdict(case, act, &judged, Facts::default())? {
            Verdict::WritePointer => {
                let (rule, class) = (Rule::GitPointer, Class::BornRepository);
                Err(self.deny(case, &judged.path, rule, class, Failure::Denied, None))
            }
            _ => Ok(()),
        }
    }
}

/// Finds what is to be changed, without any right on it.
fn object(case: &Case<'_>, target: Target) -> Result<OwnedFd, Errno> {
    let descriptor = |number| {
        let object = case.caller.descriptor(number)?;
        if case.caller.is_waiting() { Ok(object) } else { Err(Errno::SRCH) }
    };
    match target {
        Target::Descriptor(number) => descriptor(number),
        Target::Path { path, follow, or_descriptor } => {
            if or_descriptor && case.caller.path(path.address)?.is_empty() {
                return descriptor(path.directory);
            }
            let mut walk = case.walk();
            let spot = case.spot(&mut walk, path)?;
            object_at(&mut walk, spot, follow)
        }
    }
}

/// A change with everything that had to be read from the caller.
enum Prepared {
    Mode(u32),
    Owner { uid: Option<Uid>, gid: Option<Gid> },
    Set { name: CString, value: Vec<u8>, flags: XattrFlags },
    Remove { name: CString },
}

impl Prepared {
    fn read(case: &Case<'_>, change: Change) -> Result<Self, Errno> {
        // All bits set means: leave it.
        let id = |raw: u32| (raw != u32::MAX).then_some(raw);
        Ok(match change {
            Change::Mode(mode) => Self::Mode(mode & 0o7777),
            Change::Owner { uid, gid } => {
                Self::Owner { uid: id(uid).map(Uid::from_raw), gid: id(gid).map(Gid::from_raw) }
            }
            Change::SetAttribute { name, value, size, flags } => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                if size > MAX_ATTRIBUTE {
                    return Err(Errno::TOOBIG);
                }
                let value = case.caller.bytes(value, size)?;
                let flags = XattrFlags::from_bits_retain(flags);
                Self::Set { name: case.caller.path(name)?, value, flags }
            }
            Change::RemoveAttribute { name } => Self::Remove { name: case.caller.path(name)? },
        })
    }

    fn act(&self, object: BorrowedFd<'_>) -> Result<Act, Errno> {
        let Self::Mode(mode) = self else { return Ok(Act::Attributes) };
        let executable = mode & EXECUTE != 0;
        let changed = (fstat(object)?.st_mode & 0o7777) ^ mode;
        Ok(if changed & !EXECUTE == 0 {
            Act::Execute { by_anybody: executable }
        } else {
            Act::Mode { executable }
        })
    }

    fn perform(&self, case: &Case<'_>, object: BorrowedFd<'_>) -> Result<(), Errno> {
        let name = number(object);
        // The working directory is our own list of descriptors, so a number is a
        // path to exactly this object.
        match self {
            Self::Mode(mode) => {
                let is_directory = kind(fstat(object)?.st_mode) == Kind::Directory;
                // No program that takes its group's rights; the kernel too drops
                // the bit without a word where the group is not the caller's.
                let kept = if is_directory { *mode } else { mode & !libc::S_ISGID };
                let mode = Mode::from_raw_mode(kept);
                chmodat(case.caller.footing.own_fds(), name.as_c_str(), mode, AtFlags::empty())
            }
            Self::Owner { uid, gid } => chownat(object, c"", *uid, *gid, AtFlags::EMPTY_PATH),
            Self::Set { name: attribute, value, flags } => {
                setxattr(name.as_c_str(), attribute.as_c_str(), value, *flags)
            }
            Self::Remove { name: attribute } => removexattr(name.as_c_str(), attribute.as_c_str()),
        }
    }
}
