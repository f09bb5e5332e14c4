//! Moving a name.

use super::problem::Asked;
use super::root::{Place, Root, is_procfs};
use super::staged::{Hidden, Staged, Taken, rename};
use super::stat;
use super::write::mode_after_giving;
use atoll_protocol::files::Move;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{AtFlags, FileType, OFlags, Timespec, Timestamps};
use rustix::io::{Errno, Result as Called};
use std::os::fd::{AsFd as _, OwnedFd};

pub(super) fn relocate(root: &Root, request: &Move) -> Result<Reply, Problem> {
    let from = Asked::new("move", &request.from)?;
    let to = Asked::new("move to", &request.to)?;
    let source = place(root, &from)?;
    let target = place(root, &to)?;
    let taken = if request.replace { Taken::Replace } else { Taken::Fail };

    // What is missing is said of the right one of the two.
    let stat = source.stat().map_err(|errno| from.errno(errno))?;
    let names = (
        (source.parent.as_fd(), source.name.as_os_str()),
        (target.parent.as_fd(), target.name.as_os_str()),
    );
    let moved = match rename(names.0, names.1, taken) {
        Err(Errno::XDEV) => across(root, &source, &target, &stat, taken),
        moved => moved,
    };
    moved.map_err(|errno| match errno {
        Errno::EXIST | Errno::NOTEMPTY => to.problem(Code::Conflict, "it is there already"),
        Errno::INVAL => from.problem(Code::Invalid, "a directory cannot be moved into itself"),
        Errno::OPNOTSUPP => from.problem(
            Code::Unsupported,
            format!(
                "{} is on another file system, and only files and links are copied",
                to.octets()
            ),
        ),
        errno => to.errno(errno),
    })?;
    let handle = target.handle().map_err(|errno| to.errno(errno))?;
    stat::reply(&handle, &to)
}

fn place(root: &Root, asked: &Asked<'_>) -> Result<Place, Problem> {
    root.place(asked.path()).map_err(|errno| match errno {
        Errno::ISDIR => asked.problem(Code::Invalid, "the path ends without a name"),
        errno => asked.errno(errno),
    })
}

/// Copies a file or a link to another file system, and removes the old one if it
/// is still that one. `EOPNOTSUPP` for anything else.
fn across(
    root: &Root,
    source: &Place,
    target: &Place,
    stat: &rustix::fs::Stat,
    taken: Taken,
) -> Called<()> {
    if is_procfs(&source.parent)? {
        return Err(Errno::PERM);
    }
    let handle = source.handle()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => copy_file(root, &handle, target, taken)?,
        FileType::Symlink => {
            let text = rustix::fs::readlinkat(&handle, "", Vec::new())?;
            let parent = target.parent.as_fd();
            let ((), hidden) =
                Hidden::make(parent, |name| rustix::fs::symlinkat(&text, parent, name))?;
            hidden.rename(parent, &target.name, taken)?;
        }
        _ => return Err(Errno::OPNOTSUPP),
    }
    let (copied, now) = (rustix::fs::fstat(&handle)?, source.stat()?);
    if (copied.st_dev, copied.st_ino) != (now.st_dev, now.st_ino) {
        return Err(Errno::BUSY);
    }
    rustix::fs::unlinkat(&source.parent, &source.name, AtFlags::empty())
}

fn copy_file(root: &Root, handle: &OwnedFd, target: &Place, taken: Taken) -> Called<()> {
    let mut from = root.open(handle, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&from)?;
    let staged = Staged::new(root, target)?;
    std::io::copy(&mut from, &mut staged.file())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    root.chmod(staged.file(), mode_after_giving(staged.file(), &stat))?;
    let time = |seconds, nanos: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanos).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    rustix::fs::futimens(staged.file(), &times)?;
    staged.publish(taken)?;
    Ok(())
}
