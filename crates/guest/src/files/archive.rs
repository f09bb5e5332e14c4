//! A directory as a tar archive, in memory that does not grow with it.

use super::problem::{Asked, code};
use super::root::{Root, is_procfs};
use super::walk::{Found, Step, Visitor, open, walk};
use super::{Failure, Lost, stat};
use crate::channel::Channel;
use atoll_protocol::files::Archive;
use atoll_protocol::frame::{DATA_BYTES_MAX, Kind};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tar::{Builder, EntryType, Header};

pub(super) fn archive(
    root: &Root,
    request: &Archive,
    channel: &mut Channel,
) -> Result<(), Failure> {
    let asked = Asked::new("archive", &request.path)?;
    let top = root.directory(asked.path()).map_err(|errno| asked.errno(errno))?;
    if is_procfs(&top).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "it is a directory of /proc").into());
    }
    let stat = stat::of(&top, &request.path).map_err(|errno| asked.errno(errno))?;
    channel
        .send(Kind::Reply, &Reply::Stat(stat))
        .map_err(|error| Failure::Lost(Lost::Send(error)))?;

    let mut packer = Packer { root, builder: Builder::new(Sender::new(channel)) };
    // Nothing but the connection can fail here.
    walk(top, &mut packer)
        .and_then(|()| packer.builder.into_inner())
        .and_then(Sender::finish)
        .map_err(|error| Failure::Lost(Lost::Send(error)))
}

/// Packs what is below a directory of this process's into an archive, and says what is not
/// in it: neither file, directory nor link, or not to be read.
///
/// # Errors
///
/// If `to` fails.
pub fn pack_from(directory: OwnedFd, to: impl Write, left: impl FnMut(&Path)) -> io::Result<()> {
    let root = Root::of_process()?;
    let mut packer = Packer { root: &root, builder: Builder::new(Outward { to, left }) };
    walk(directory, &mut packer)?;
    packer.builder.into_inner()?.to.flush()
}

/// Where an archive goes, and what is not in it.
trait Sink: Write {
    fn left(&mut self, path: &Path, code: Code) -> io::Result<()>;
}

struct Outward<W, F> {
    to: W,
    left: F,
}

impl<W: Write, F> Write for Outward<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write, F: FnMut(&Path)> Sink for Outward<W, F> {
    fn left(&mut self, path: &Path, _: Code) -> io::Result<()> {
        (self.left)(path);
        Ok(())
    }
}

impl Sink for Sender<'_> {
    fn left(&mut self, path: &Path, code: Code) -> io::Result<()> {
        let path = Octets::new(path.as_os_str().as_bytes()).unwrap_or_default();
        self.channel.send(Kind::Event, &Event::Left { path, code })
    }
}

struct Packer<'a, S: Sink> {
    root: &'a Root,
    builder: Builder<S>,
}

impl<S: Sink> Visitor for Packer<'_, S> {
    type Error = io::Error;

    fn found(&mut self, found: &Found<'_>) -> io::Result<Step> {
        let Found { directory, name, path, stat } = *found;
        let mut header = header(stat);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, path, io::empty())?;
                return Ok(Step::Enter);
            }
            FileType::Symlink => match rustix::fs::readlinkat(directory, name, Vec::new()) {
                Ok(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    let target = OsStr::from_bytes(target.as_bytes());
                    self.builder.append_link(&mut header, path, target)?;
                }
                Err(errno) => self.failed(path, code(errno))?,
            },
            FileType::RegularFile => match open(self.root, found) {
                Ok((file, stat)) => self.add_file(file, &stat, path)?,
                Err(errno) => self.failed(path, code(errno))?,
            },
            _ => self.failed(path, Code::Unsupported)?,
        }
        Ok(Step::Pass)
    }

    /// Says that something is not in the archive.
    fn failed(&mut self, path: &Path, code: Code) -> io::Result<()> {
        self.builder.get_mut().left(path, code)
    }
}

impl<S: Sink> Packer<'_, S> {
    fn add_file(&mut self, file: File, stat: &Stat, path: &Path) -> io::Result<()> {
        let mut header = header(stat);
        let bytes = u64::try_from(stat.st_size).unwrap_or_default();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes);
        let mut exact = Exact { file, left: bytes, fault: None };
        self.builder.append_data(&mut header, path, &mut exact)?;
        match exact.fault {
            Some(code) => self.failed(path, code),
            None => Ok(()),
        }
    }
}

fn header(stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header
}

/// As many bytes as the header has promised: zeros for what is not there any more,
/// and nothing of what came after.
struct Exact {
    file: File,
    left: u64,
    fault: Option<Code>,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..room];
        if self.fault.is_none() && room > 0 {
            match self.file.read(buffer) {
                Ok(0) => self.fault = Some(Code::Conflict),
                Ok(length) => {
                    self.left -= length as u64;
                    return Ok(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    self.fault = Some(code(errno));
                }
            }
        }
        buffer.fill(0);
        self.left -= room as u64;
        Ok(room)
    }
}

/// Sends what is written as frames `Body`.
struct Sender<'a> {
    channel: &'a mut Channel,
    buffer: Vec<u8>,
}

impl<'a> Sender<'a> {
    fn new(channel: &'a mut Channel) -> Self {
        Self { channel, buffer: Vec::with_capacity(DATA_BYTES_MAX) }
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.channel.send_raw(Kind::End, &[])
    }
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == DATA_BYTES_MAX {
            self.flush()?;
        }
        let length = bytes.len().min(DATA_BYTES_MAX - self.buffer.len());
        self.buffer.extend(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.channel.send_raw(Kind::Body, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
