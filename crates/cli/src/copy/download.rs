//! Files of a sandbox to us. What is inside is a stranger's: names, kinds, lengths and
//! links are whatever he likes, and nothing of it is written elsewhere than was asked for.

use super::Copied;
use super::place::{Local, Remote};
use super::progress::{Count, shown};
use super::upload::{LastLink, open_directory};
use crate::error::CliError;
use crate::remote;
use atoll_api::files::{FileKind, FileStat};
use atoll_client::{Client, ClientError, Download};
use atoll_guest::files::{Links, unpack_into};
use bytes::Bytes;
use std::fs::Permissions;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Pieces that wait to be unpacked.
const PIECES: usize = 8;

/// Copies a file or a directory out of a sandbox; to a stream a directory goes as a tar
/// archive.
pub(crate) async fn download(
    client: &Client,
    remote: &remote::Remote,
    from: &Remote,
    to: &Local,
    links: Links,
) -> Result<Copied, CliError> {
    let failed = |error| remote.failed(error);
    let path = from.path();
    let stat = client.stat_file(&from.sandbox, &path).await.map_err(failed)?;
    let is_directory = stat.kind == FileKind::Directory;
    if from.is_directory && !is_directory {
        return Err(CliError::new(format!("{path} is no directory of the sandbox")));
    }
    if !matches!(stat.kind, FileKind::File | FileKind::Directory) {
        return Err(CliError::new(format!("{path} is neither a file nor a directory")));
    }
    let body = if is_directory {
        client.read_archive(&from.sandbox, &path).await
    } else {
        client.read_file(&from.sandbox, &path).await
    };
    let body = body.map_err(failed)?;
    let count = Count::default();
    let work = async {
        match to {
            Local::Stream => to_stream(remote, body, &count).await,
            Local::Path(to) if is_directory => unpack(remote, from, body, to, links, &count).await,
            Local::Path(to) => to_file(remote, from, &stat, body, to, &count).await,
        }
    };
    shown(&count, work).await
}

async fn to_stream(
    remote: &remote::Remote,
    mut body: Download,
    count: &Count,
) -> Result<Copied, CliError> {
    let mut stdout = io::stdout().lock();
    let failed = |error| CliError::new("cannot write to standard output").because(error);
    while let Some(piece) = body.next().await.map_err(|error| remote.failed(error))? {
        count.add(piece.len());
        stdout.write_all(&piece).map_err(failed)?;
    }
    stdout.flush().map_err(failed)?;
    let left_out_count = body.left_out_count();
    Ok(Copied { entries: 1, bytes: count.bytes(), left_out: Vec::new(), left_out_count })
}

/// Where something of this name goes: into a directory that is there, else to the path. A
/// link at the end is followed only of a path that the user wrote: in a directory that was
/// copied before, it may be one that was planted there.
fn target(from: &Remote, to: &Path) -> (PathBuf, LastLink) {
    match from.name() {
        Some(name) if to.is_dir() && !from.means_content() => (to.join(name), LastLink::Refused),
        _ => (to.to_owned(), LastLink::Followed),
    }
}

async fn to_file(
    remote: &remote::Remote,
    from: &Remote,
    stat: &FileStat,
    mut body: Download,
    to: &Path,
    count: &Count,
) -> Result<Copied, CliError> {
    let (to, link) = target(from, to);
    let shown_path = atoll_store::escape::escape(&to);
    let failed =
        |error: io::Error| CliError::new(format!("cannot write {shown_path}")).because(error);
    let copied = |count: &Count| Copied { entries: 1, bytes: count.bytes(), ..Copied::default() };
    // A device or a pipe of ours is written to; anything else is replaced when all is there.
    let is_special =
        |path: &Path| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    if link == LastLink::Followed && is_special(&to) {
        let mut file = std::fs::File::options().write(true).open(&to).map_err(failed)?;
        while let Some(piece) = body.next().await.map_err(|error| remote.failed(error))? {
            count.add(piece.len());
            file.write_all(&piece).map_err(failed)?;
        }
        return Ok(copied(count));
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file =
        tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new("."))).map_err(failed)?;
    while let Some(piece) = body.next().await.map_err(|error| remote.failed(error))? {
        count.add(piece.len());
        file.write_all(&piece).map_err(failed)?;
    }
    // No bit that would give a program of a stranger's somebody's rights.
    let mode = Permissions::from_mode(stat.mode.bits() & 0o777);
    file.as_file().set_permissions(mode).map_err(failed)?;
    file.persist(&to).map_err(|error| failed(error.error))?;
    Ok(copied(count))
}

async fn unpack(
    remote: &remote::Remote,
    from: &Remote,
    mut body: Download,
    to: &Path,
    links: Links,
    count: &Count,
) -> Result<Copied, CliError> {
    let (to, link) = target(from, to);
    let cannot = |error: io::Error| {
        let path = atoll_store::escape::escape(&to);
        CliError::new(format!("cannot copy to {path}")).because(error)
    };
    match std::fs::create_dir(&to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(cannot(error)),
    }
    let directory = open_directory(&to, link).map_err(cannot)?;
    let path = std::fs::canonicalize(&to).map_err(cannot)?;
    let (pieces, waiting) = mpsc::channel(PIECES);
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut archive = Pieces { waiting, piece: Bytes::new() };
        tell.send(unpack_into(directory, &path, &mut archive, links)).ok();
    });
    let broken: Option<ClientError> = loop {
        match body.next().await {
            Ok(Some(piece)) => {
                count.add(piece.len());
                // Who takes no more says why.
                if pieces.send(Ok(piece)).await.is_err() {
                    break None;
                }
            }
            Ok(None) => break None,
            Err(error) => {
                let text = "it did not come to its end";
                pieces.send(Err(io::Error::other(text))).await.ok();
                break Some(error);
            }
        }
    };
    drop(pieces);
    let unpacked = told.await.unwrap_or_else(|_| Err(io::Error::other("it was given up")));
    if let Some(error) = broken {
        return Err(remote.failed(error));
    }
    let unpacked = unpacked.map_err(cannot)?;
    let mut copied =
        Copied { entries: unpacked.entries, bytes: unpacked.bytes, ..Copied::default() };
    for path in &unpacked.left {
        copied.leave_out(path);
    }
    copied.left_out_count += body.left_out_count();
    Ok(copied)
}

/// Reads pieces as they come.
struct Pieces {
    waiting: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.waiting.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        buffer[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}
