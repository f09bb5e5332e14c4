//! Files of ours into a sandbox.

use super::Copied;
use super::place::{Local, Remote};
use super::progress::{Count, shown};
use crate::error::CliError;
use crate::remote;
use atoll_api::error::ErrorCode;
use atoll_api::files::{FileKind, FileStat, Mode, SetMode};
use atoll_api::octets::Octets;
use atoll_client::{Client, ClientError, Upload};
use atoll_engine::pieces::{PIECE_BYTES, Pieces};
use atoll_guest::files::pack_from;
use bytes::Bytes;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The mode of a file that comes from a stream.
const USUAL_MODE: u32 = 0o644;

/// Copies a file, a directory or standard input into a sandbox; where `is_archive`, that
/// is a tar archive of a directory.
pub(crate) async fn upload(
    client: &Client,
    remote: &remote::Remote,
    from: &Local,
    to: &Remote,
    is_archive: bool,
) -> Result<Copied, CliError> {
    let failed = |error| remote.failed(error);
    let there = match client.stat_file(&to.sandbox, &to.path()).await {
        Ok(stat) => Some(stat.kind),
        Err(error) if error.code() == Some(ErrorCode::NotFound) => None,
        Err(error) => return Err(failed(error)),
    };
    let path = match from {
        Local::Stream if is_archive => {
            return send_archive(client, remote, to, to.path(), Packed::Stream).await;
        }
        Local::Stream => {
            if to.is_directory || there == Some(FileKind::Directory) {
                return Err(CliError::new("standard input has no name for a file in a directory")
                    .hint("name the file, or unpack a tar archive with --archive"));
            }
            let stdin = Box::new(io::stdin());
            return send_file(client, remote, to, to.path(), stdin, USUAL_MODE).await;
        }
        Local::Path(path) => path,
    };
    let shown_path = || atoll_store::escape::escape(path);
    let cannot = |error| CliError::new(format!("cannot read {}", shown_path())).because(error);
    let metadata = path.metadata().map_err(cannot)?;
    let name = real_name(path).map_err(cannot)?;
    let is_below = there == Some(FileKind::Directory);
    if metadata.is_dir() {
        if there.is_some_and(|kind| kind != FileKind::Directory) {
            let message = format!("{} is a directory, and {} is none", shown_path(), to.path());
            return Err(CliError::new(message));
        }
        let target = match &name {
            Some(name) if is_below => to.join(name),
            _ => to.path(),
        };
        return send_archive(client, remote, to, target, Packed::Directory(path.clone())).await;
    }
    if to.is_directory && !is_below {
        let message = format!("{} is no directory of the sandbox", to.path());
        return Err(CliError::new(message).hint("leave the slash at the end out, or make it first"));
    }
    let target = match &name {
        Some(name) if is_below => to.join(name),
        _ => to.path(),
    };
    let file = File::open(path).map_err(cannot)?;
    let mode = metadata.permissions().mode() & 0o777;
    send_file(client, remote, to, target, Box::new(file), mode).await
}

/// What a path is called; none where its content is meant, as in `dir/.`.
fn real_name(path: &Path) -> io::Result<Option<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStrExt as _;
    let text = path.as_os_str().as_bytes();
    if text.ends_with(b"/.") {
        return Ok(None);
    }
    match path.file_name() {
        Some(name) => Ok(Some(name.to_owned())),
        // Such as `.` and `..`: what they are called elsewhere.
        None => Ok(std::fs::canonicalize(path)?.file_name().map(OsStr::to_owned)),
    }
}

async fn send_file(
    client: &Client,
    remote: &remote::Remote,
    to: &Remote,
    target: Octets,
    source: Box<dyn Read + Send>,
    mode: u32,
) -> Result<Copied, CliError> {
    let count = Arc::new(Count::default());
    let (pieces, upload) = Upload::pieces(None);
    read_into(source, pieces, count.clone());
    let mode = Mode::from_bits(mode);
    let written = async {
        let written = client.write_file(&to.sandbox, &target, Some(mode), upload).await?;
        set_mode(client, to, target.clone(), &written, mode).await?;
        Ok::<_, ClientError>(written)
    };
    let written = shown(&count, written).await.map_err(|error| remote.failed(error))?;
    Ok(Copied { entries: 1, bytes: written.bytes, ..Copied::default() })
}

/// One that was there before has its own mode still.
async fn set_mode(
    client: &Client,
    to: &Remote,
    path: Octets,
    written: &FileStat,
    mode: Mode,
) -> Result<(), ClientError> {
    if written.mode != mode {
        client.set_file_mode(&to.sandbox, &SetMode { path, mode }).await?;
    }
    Ok(())
}

/// Reads in a thread, which blocks.
fn read_into(
    mut source: Box<dyn Read + Send>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    count: Arc<Count>,
) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let piece = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    count.add(length);
                    Ok(Bytes::copy_from_slice(&buffer[..length]))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            // Nobody takes it where the server refused.
            if pieces.blocking_send(piece).is_err() || is_last {
                break;
            }
        }
    });
}

/// Where an archive comes from.
enum Packed {
    Stream,
    Directory(PathBuf),
}

async fn send_archive(
    client: &Client,
    remote: &remote::Remote,
    to: &Remote,
    target: Octets,
    packed: Packed,
) -> Result<Copied, CliError> {
    let count = Arc::new(Count::default());
    let (pieces, upload) = Upload::pieces(None);
    let (tell, left) = oneshot::channel();
    match packed {
        Packed::Stream => {
            drop(tell);
            read_into(Box::new(io::stdin()), pieces, count.clone());
        }
        Packed::Directory(path) => {
            let directory = open_directory(&path, LastLink::Followed).map_err(|error| {
                let path = atoll_store::escape::escape(&path);
                CliError::new(format!("cannot read {path}")).because(error)
            })?;
            let mut sender = Counted { pieces: Pieces::new(pieces), count: count.clone() };
            std::thread::spawn(move || {
                let mut left = Vec::new();
                let packed = pack_from(directory, &mut sender, |path| left.push(path.to_owned()));
                if let Err(error) = packed {
                    sender.pieces.break_off(error);
                }
                tell.send(left).ok();
            });
        }
    }
    let written = client.write_archive(&to.sandbox, &target, upload);
    let written = shown(&count, written).await.map_err(|error| remote.failed(error))?;
    let mut copied = Copied { entries: written.entries, bytes: written.bytes, ..Copied::default() };
    // Of a stream it is not known.
    for path in left.await.unwrap_or_default() {
        copied.leave_out(&path);
    }
    Ok(copied)
}

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Followed,
    Refused,
}

pub(super) fn open_directory(path: &Path, link: LastLink) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if link == LastLink::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Counts what is sent.
struct Counted {
    pieces: Pieces,
    count: Arc<Count>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.pieces.write(bytes)?;
        self.count.add(length);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pieces.flush()
    }
}
