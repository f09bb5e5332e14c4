//! Reading a file, in memory that does not grow with it.

use super::problem::Asked;
use super::root::{LastLink, Root, is_regular};
use super::{Failure, Lost, stat};
use crate::channel::Channel;
use atoll_protocol::files::Read;
use atoll_protocol::frame::{DATA_BYTES_MAX, Kind};
use atoll_protocol::problem::{Code, Problem};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Sends what is known of the file, its bytes, and the end.
///
/// A file that grows meanwhile is sent up to the length it had; one that shrinks,
/// up to the end that it has. A file without a length (of procfs) is sent up to
/// its end.
pub(super) fn read(root: &Root, request: &Read, channel: &mut Channel) -> Result<(), Failure> {
    let asked = Asked::new("read", &request.path)?;
    let file = open(root, &asked)?;
    let stat = stat::of(&file, &request.path).map_err(|errno| asked.errno(errno))?;
    let there = match stat.bytes {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(request.offset),
    };
    let mut left = request.length.unwrap_or(u64::MAX).min(there);
    let mut at = request.offset;
    let sent = channel.send(Kind::Reply, &atoll_protocol::request::Reply::Stat(stat));
    sent.map_err(|error| Failure::Lost(Lost::Send(error)))?;

    let mut buffer = vec![0; DATA_BYTES_MAX];
    // No file has a byte at an offset that the kernel cannot count.
    while left > 0 && i64::try_from(at).is_ok() {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let length = match file.read_at(&mut buffer[..room], at) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(asked.io(&error).into()),
        };
        let sent = channel.send_raw(Kind::Body, &buffer[..length]);
        sent.map_err(|error| Failure::Lost(Lost::Send(error)))?;
        at += length as u64;
        left -= length as u64;
    }
    channel.send_raw(Kind::End, &[]).map_err(|error| Failure::Lost(Lost::Send(error)))
}

/// Opens a regular file to be read, or says what it is instead.
pub(super) fn open(root: &Root, asked: &Asked<'_>) -> Result<File, Problem> {
    let handle = root.handle(asked.path(), LastLink::Follow).map_err(|errno| asked.errno(errno))?;
    if !is_regular(&handle).map_err(|errno| asked.errno(errno))? {
        return Err(not_regular(&handle, asked));
    }
    root.open(&handle, OFlags::RDONLY).map_err(|errno| match errno {
        Errno::PERM => asked.problem(Code::Denied, "files of processes can be read by a command"),
        errno => asked.errno(errno),
    })
}

/// Says that something is no regular file.
pub(super) fn not_regular(handle: &impl std::os::fd::AsFd, asked: &Asked<'_>) -> Problem {
    let is_directory = rustix::fs::fstat(handle).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    });
    let what =
        if is_directory { "it is a directory" } else { "it is a pipe, a socket or a device" };
    asked.problem(Code::Conflict, what)
}
