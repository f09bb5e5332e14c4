//! Files of a sandbox: read and written, listed, found, edited, packed.

use super::translate::{code, to_api, to_guest};
use super::{Held, Inside, InsideError};
use crate::guest::{Content, GuestError, Piece};
use atoll_api::files::{
    Edit, Edited, Existing, Expected, FileKind, FileStat, Found, Glob, Grep, List, Listing,
    MakeDirectory, Match, Mode, Move, ReadFile, Remove, SetMode, Unpacked, WriteFile,
};
use atoll_api::octets::Octets;
use atoll_api::sandbox::HoldCause;
use atoll_protocol::files;
use bytes::Bytes;
use tokio::io::AsyncRead;

/// The bytes of a file or an archive, as they come. It holds the sandbox awake.
#[derive(Debug)]
pub struct Download {
    /// What is known of the file, or of the directory.
    pub stat: FileStat,
    inside: Inside,
    content: Content,
    /// Names that are not in an archive, or not as they should be.
    left_out: u64,
    _held: Held,
}

impl Download {
    /// Waits for the next bytes: none after the last. May be dropped and called again,
    /// and loses nothing.
    ///
    /// # Errors
    /// Where it breaks off; what came before is not the whole then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, InsideError> {
        loop {
            match self.content.next_piece().await.map_err(|error| self.inside.failed(error))? {
                Some(Piece::Bytes(bytes)) => return Ok(Some(bytes)),
                Some(Piece::Left { .. }) => self.left_out = self.left_out.saturating_add(1),
                None => return Ok(None),
            }
        }
    }

    /// How many names are not in an archive so far: pipes, sockets and devices, and
    /// what the sandbox's user may not read.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Inside {
    /// Notes that something was done, and passes on how.
    fn settled<T>(&self, outcome: Result<T, GuestError>) -> Result<T, InsideError> {
        self.worked();
        outcome.map_err(|source| self.failed(source))
    }

    async fn hold_for(&self, name: &str) -> Result<Held, InsideError> {
        Ok(self.hold(HoldCause::Stream { name: name.to_owned() }).await?)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn read_file(&self, request: ReadFile) -> Result<Download, InsideError> {
        let ReadFile { path, offset, length } = request;
        let held = self.hold_for("download").await?;
        let read = files::Read { path: to_guest(path), offset, length };
        let content = self.guest.read(read).await.map_err(|error| self.failed(error))?;
        Ok(self.download(content, held))
    }

    /// Reads a directory as a tar archive.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn read_archive(&self, path: Octets) -> Result<Download, InsideError> {
        let held = self.hold_for("download").await?;
        let archive = files::Archive { path: to_guest(path) };
        let content = self.guest.archive(archive).await.map_err(|error| self.failed(error))?;
        Ok(self.download(content, held))
    }

    fn download(&self, content: Content, held: Held) -> Download {
        let stat = stat(content.stat.clone());
        Download { stat, inside: self.clone(), content, left_out: 0, _held: held }
    }

    /// Writes a file: all that `source` has. If that ends in an error, or this is
    /// dropped, a file that was there is unchanged.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn write_file<S: AsyncRead + Unpin>(
        &self,
        request: WriteFile,
        source: &mut S,
    ) -> Result<FileStat, InsideError> {
        let WriteFile { path, existing, mode, make_parents } = request;
        let existing = match existing {
            Existing::Replace => files::Existing::Replace,
            Existing::Append => files::Existing::Append,
            Existing::Keep => files::Existing::Keep,
        };
        let (path, mode) = (to_guest(path), mode.map(Mode::bits));
        let write = files::Write { path, existing, mode, make_parents };
        let _held = self.hold_for("upload").await?;
        self.settled(self.guest.write(write, source).await).map(stat)
    }

    /// Unpacks a tar archive: all that `source` has.
    ///
    /// # Errors
    /// [`InsideError`]; what came before is unpacked then.
    pub async fn unpack<S: AsyncRead + Unpin>(
        &self,
        path: Octets,
        make_parents: bool,
        source: &mut S,
    ) -> Result<Unpacked, InsideError> {
        let unpack = files::Unpack { path: to_guest(path), make_parents };
        let _held = self.hold_for("upload").await?;
        let unpacked = self.settled(self.guest.unpack(unpack, source).await)?;
        Ok(Unpacked { entries: unpacked.entries, bytes: unpacked.bytes })
    }

    /// Looks at one name.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn stat(&self, path: Octets, follow: bool) -> Result<FileStat, InsideError> {
        let look = files::Look { path: to_guest(path), follow };
        self.settled(self.guest.look(look).await).map(stat)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn list(&self, request: List) -> Result<Listing, InsideError> {
        let List { path, depth, limit } = request;
        let list = files::List { path: to_guest(path), depth, limit };
        self.settled(self.guest.list(list).await).map(listing)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn make_directory(&self, request: MakeDirectory) -> Result<FileStat, InsideError> {
        let MakeDirectory { path, mode, make_parents } = request;
        let (path, mode) = (to_guest(path), mode.map(Mode::bits));
        let make = files::MakeDirectory { path, mode, make_parents };
        self.settled(self.guest.make_directory(make).await).map(stat)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn remove(&self, request: Remove) -> Result<(), InsideError> {
        let Remove { path, recursive } = request;
        let remove = files::Remove { path: to_guest(path), recursive };
        self.settled(self.guest.remove(remove).await)
    }

    /// Moves a name.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn rename(&self, request: Move) -> Result<FileStat, InsideError> {
        let Move { from, to, replace } = request;
        let rename = files::Move { from: to_guest(from), to: to_guest(to), replace };
        self.settled(self.guest.rename(rename).await).map(stat)
    }

    /// Sets a mode.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn set_mode(&self, request: SetMode) -> Result<FileStat, InsideError> {
        let SetMode { path, mode } = request;
        let set = files::SetMode { path: to_guest(path), mode: mode.bits() };
        self.settled(self.guest.set_mode(set).await).map(stat)
    }

    /// Replaces text in a file.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn edit(&self, request: Edit) -> Result<Edited, InsideError> {
        let Edit { path, replacements } = request;
        let replacements = replacements
            .into_iter()
            .map(|one| files::Replacement {
                old: one.old,
                new: one.new,
                expected: match one.expected {
                    Expected::Exactly(count) => files::Expected::Exactly(count),
                    Expected::Any => files::Expected::Any,
                },
            })
            .collect();
        let edit = files::Edit { path: to_guest(path), replacements };
        let edited = self.settled(self.guest.edit(edit).await)?;
        Ok(Edited { stat: stat(edited.stat), replaced: edited.replaced })
    }

    /// Finds names below a directory.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn glob(&self, request: Glob) -> Result<Listing, InsideError> {
        let Glob { path, pattern, respects_ignore, limit } = request;
        let glob = files::Glob { path: to_guest(path), pattern, respects_ignore, limit };
        self.settled(self.guest.glob(glob).await).map(listing)
    }

    /// Finds lines in files.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn grep(&self, request: Grep) -> Result<Found, InsideError> {
        let grep = files::Grep {
            path: to_guest(request.path),
            pattern: request.pattern,
            is_literal: request.is_literal,
            ignores_case: request.ignores_case,
            include: request.include,
            respects_ignore: request.respects_ignore,
            limit: request.limit,
        };
        let found = self.settled(self.guest.grep(grep).await)?;
        let matches = found.matches.into_iter().map(|one| Match {
            path: to_api(one.path),
            line: one.line,
            column: one.column,
            text: one.text,
        });
        Ok(Found {
            matches: matches.collect(),
            is_cut: found.is_cut,
            searched: found.searched,
            skipped: found.skipped,
        })
    }
}

fn stat(stat: files::Stat) -> FileStat {
    FileStat {
        path: to_api(stat.path),
        kind: match stat.kind {
            files::Kind::File => FileKind::File,
            files::Kind::Directory => FileKind::Directory,
            files::Kind::Link => FileKind::Link,
            files::Kind::Other => FileKind::Other,
        },
        bytes: stat.bytes,
        mode: Mode::from_bits(stat.mode),
        uid: stat.uid,
        gid: stat.gid,
        modified_us: stat.modified_us,
        target: stat.target.map(to_api),
        unread: stat.unread.map(code),
    }
}

fn listing(listing: crate::guest::Listing) -> Listing {
    let entries = listing.entries.into_iter().map(stat).collect();
    Listing { entries, is_cut: listing.is_cut }
}
