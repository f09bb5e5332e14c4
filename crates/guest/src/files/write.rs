//! Writing a file: received beside its place, then put there at once.

use super::content::{self, Part};
use super::problem::Asked;
use super::read::not_regular;
use super::root::{Place, Root, is_procfs};
use super::staged::{Staged, Taken};
use super::{Failure, directory, stat};
use crate::channel::Channel;
use atoll_protocol::files::{Existing, Write};
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{FileType, Gid, MemfdFlags, OFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

/// The mode of a new file.
const MODE: u32 = 0o644;

/// Most bytes that are added at once to a file in a directory that cannot be
/// written: they wait in memory.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

pub(super) fn write(root: &Root, request: &Write, channel: &mut Channel) -> Result<Reply, Failure> {
    let asked = Asked::new("write", &request.path)?;
    stat::check_mode(request.mode.unwrap_or(MODE), &asked)?;
    if request.path.as_bytes().ends_with(b"/") {
        return Err(asked.problem(Code::Invalid, "the path is that of a directory").into());
    }
    let place = place(root, request.make_parents, &asked)?;
    let there = match place.stat() {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(asked.errno(errno).into()),
    };
    let regular = |stat: &rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode).is_file();
    match (&there, request.existing) {
        (Some(_), Existing::Keep) => Err(taken(&asked).into()),
        (Some(stat), _) if !regular(stat) => {
            let handle = place.handle().map_err(|errno| asked.errno(errno))?;
            Err(not_regular(&handle, &asked).into())
        }
        (Some(_), Existing::Append) => append(root, &place, &asked, channel),
        (there, _) => replace(root, request, &place, &asked, there.as_ref(), channel),
    }
}

/// Where the file is, or is to be: links at the end of the path are followed.
pub(super) fn place(root: &Root, make_parents: bool, asked: &Asked<'_>) -> Result<Place, Problem> {
    let path = root.follow(asked.path()).map_err(|errno| asked.errno(errno))?;
    let place = match root.place(&path) {
        Err(Errno::NOENT) if make_parents => directory::parent(root, &path),
        place => place,
    };
    let place = place.map_err(|errno| match errno {
        Errno::NOENT => asked.problem(Code::NotFound, "its directory is not there"),
        errno => asked.errno(errno),
    })?;
    if is_procfs(&place.parent).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "files of /proc can be written by a command"));
    }
    Ok(place)
}

fn taken(asked: &Asked<'_>) -> Problem {
    asked.problem(Code::Conflict, "it is there already")
}

fn replace(
    root: &Root,
    request: &Write,
    place: &Place,
    asked: &Asked<'_>,
    there: Option<&rustix::fs::Stat>,
    channel: &mut Channel,
) -> Result<Reply, Failure> {
    let fail = |errno| Failure::Refused(asked.errno(errno));
    let staged = Staged::new(root, place).map_err(fail)?;
    receive(channel, staged.file(), u64::MAX, asked)?;

    let mode = match there {
        None => request.mode.unwrap_or(MODE),
        Some(stat) => mode_after_giving(staged.file(), stat),
    };
    root.chmod(staged.file(), mode).map_err(fail)?;
    let stat = stat::of(staged.file(), &request.path).map_err(fail)?;
    let replaces = match request.existing {
        Existing::Replace => Taken::Replace,
        Existing::Append | Existing::Keep => Taken::Fail,
    };
    staged.publish(replaces).map_err(|errno| match errno {
        // Somebody made it meanwhile.
        Errno::EXIST => Failure::Refused(taken(asked)),
        errno => fail(errno),
    })?;
    Ok(Reply::Stat(stat))
}

/// Gives a file to the owner of the one that it replaces, if we may, and says
/// which mode it gets: that file's without set-user-ID and set-group-ID, which the
/// kernel takes from a file that is written too.
pub(super) fn mode_after_giving(file: &File, stat: &rustix::fs::Stat) -> u32 {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::fchown(file, Some(uid), Some(gid)).ok();
    stat.st_mode & 0o1777
}

/// Adds to the file itself, which others may have open, once everything is there.
fn append(
    root: &Root,
    place: &Place,
    asked: &Asked<'_>,
    channel: &mut Channel,
) -> Result<Reply, Failure> {
    let fail = |errno| Failure::Refused(asked.errno(errno));
    let handle = place.handle().map_err(fail)?;
    let mut file = root.open(&handle, OFlags::WRONLY | OFlags::APPEND).map_err(|errno| {
        if errno == Errno::INVAL { not_regular(&handle, asked) } else { asked.errno(errno) }
    })?;

    match Staged::new(root, place) {
        Ok(staged) => {
            receive(channel, staged.file(), u64::MAX, asked)?;
            add(staged.file(), &mut file, asked)?;
        }
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            let memory = rustix::fs::memfd_create("append", MemfdFlags::CLOEXEC).map_err(fail)?;
            let memory = File::from(memory);
            receive(channel, &memory, MEMORY_BYTES_MAX, asked)?;
            add(&memory, &mut file, asked)?;
        }
        Err(errno) => return Err(fail(errno)),
    }
    let stat = stat::of(&file, asked.octets()).map_err(fail)?;
    Ok(Reply::Stat(stat))
}

/// Copies everything, or takes back what was added.
fn add(mut from: &File, to: &mut File, asked: &Asked<'_>) -> Result<(), Problem> {
    let fail = |error: std::io::Error| asked.io(&error);
    from.seek(SeekFrom::Start(0)).map_err(fail)?;
    let before = to.metadata().map_err(fail)?.len();
    let wanted = from.metadata().map_err(fail)?.len();
    let Err(error) = std::io::copy(&mut from, to) else { return Ok(()) };
    // Unless somebody else added something too.
    let is_ours = |now: u64| now > before && now < before + wanted;
    if to.metadata().is_ok_and(|now| is_ours(now.len())) {
        to.set_len(before).ok();
    }
    Err(asked.io(&error))
}

/// Writes what the host sends until it says that this is all.
pub(super) fn receive(
    channel: &mut Channel,
    mut file: &File,
    bytes_max: u64,
    asked: &Asked<'_>,
) -> Result<(), Failure> {
    let mut bytes = 0;
    loop {
        let misplaced = |kind| {
            let why = format!("a {kind:?} frame among those of its content");
            asked.problem(Code::Invalid, why)
        };
        let Part::Bytes(part) = content::next(channel, misplaced)? else { return Ok(()) };
        bytes += part.len() as u64;
        if bytes > bytes_max {
            let why = format!("more than {bytes_max} bytes at once");
            return Err(asked.problem(Code::Limit, why).into());
        }
        file.write_all(part).map_err(|error| asked.io(&error))?;
    }
}
