//! Files of the sandbox.

use super::Guest;
use super::connection::Connection;
use super::content::{Content, Patience, expect};
use super::error::GuestError;
use super::hearing::Answers;
use atoll_protocol::files::{
    Archive, Edit, Glob, Grep, List, Look, MakeDirectory, Match, Move, Read, Remove, SetMode, Stat,
    Unpack, Write,
};
use atoll_protocol::octets::Octets;
use atoll_protocol::request::{Reply, Request};
use tokio::io::AsyncRead;
use tokio::time::timeout;

/// Names below a directory, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// At most as many as were asked for.
    pub entries: Vec<Stat>,
    /// There are more.
    pub is_cut: bool,
}

/// Lines that were found, sorted by path and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// At most as many as were asked for.
    pub matches: Vec<Match>,
    /// There may be more.
    pub is_cut: bool,
    /// How many files were searched.
    pub searched: u64,
    /// How many were not, or not to their end.
    pub skipped: u64,
}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The file that is there now.
    pub stat: Stat,
    /// How often each text was there, in the order of the request.
    pub replaced: Vec<u32>,
}

/// An archive that was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Files, directories and links.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

impl Guest {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn read(&self, read: Read) -> Result<Content, GuestError> {
        let (path, offset) = (read.path.clone(), read.offset);
        let asked = read.length.unwrap_or(u64::MAX);
        let (connection, stat) = self.begin_reading(&Request::Read(read), &path).await?;
        // One of procfs says that it has no bytes, and has some.
        let there = if stat.bytes == 0 { u64::MAX } else { stat.bytes.saturating_sub(offset) };
        Ok(Content::of_file(connection, stat, there.min(asked)))
    }

    /// Reads a directory as a tar archive.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn archive(&self, archive: Archive) -> Result<Content, GuestError> {
        let path = archive.path.clone();
        let (connection, stat) = self.begin_reading(&Request::Archive(archive), &path).await?;
        Ok(Content::of_archive(connection, stat))
    }

    async fn begin_reading(
        &self,
        request: &Request,
        path: &Octets,
    ) -> Result<(Connection, Stat), GuestError> {
        let patience = self.shared.settings.answer;
        let (connection, reply) =
            Connection::ask(&self.shared, request, Answers::Short, patience).await?;
        Ok((connection, expect(reply, |reply| stat_of(reply, path))?))
    }

    /// Writes a file: all that `source` has. If that ends in an error, or this is
    /// dropped, a file that was there is unchanged.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn write<S: AsyncRead + Unpin>(
        &self,
        write: Write,
        source: &mut S,
    ) -> Result<Stat, GuestError> {
        let path = write.path.clone();
        let reply = self.send_file(&Request::Write(write), source).await?;
        expect(reply, |reply| stat_of(reply, &path))
    }

    /// Unpacks a tar archive: all that `source` has.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn unpack<S: AsyncRead + Unpin>(
        &self,
        unpack: Unpack,
        source: &mut S,
    ) -> Result<Unpacked, GuestError> {
        let reply = self.send_file(&Request::Unpack(unpack), source).await?;
        expect(reply, |reply| match reply {
            Reply::Unpacked { entries, bytes } => Some(Unpacked { entries, bytes }),
            _ => None,
        })
    }

    async fn send_file<S: AsyncRead + Unpin>(
        &self,
        request: &Request,
        source: &mut S,
    ) -> Result<Reply, GuestError> {
        let settings = &self.shared.settings;
        let mut connection = Connection::begin(&self.shared, request).await?;
        connection.send_content(source, Patience::Bounded(settings.silence())).await?;
        let known = connection.hearing.known;
        let late = GuestError::TimedOut { known, after: settings.work };
        timeout(settings.work, connection.answer()).await.unwrap_or(Err(late))
    }

    /// Lists a directory.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn list(&self, list: List) -> Result<Listing, GuestError> {
        let limit = list.limit;
        self.entries(&Request::List(list), limit).await
    }

    /// Finds names below a directory.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn glob(&self, glob: Glob) -> Result<Listing, GuestError> {
        let limit = glob.limit;
        self.entries(&Request::Glob(glob), limit).await
    }

    async fn entries(&self, request: &Request, limit: u32) -> Result<Listing, GuestError> {
        let work = self.shared.settings.work;
        self.once(request, Answers::Long, work, |reply| match reply {
            Reply::Entries { entries, is_cut } if is_within(entries.len(), limit) => {
                Some(Listing { entries, is_cut })
            }
            _ => None,
        })
        .await
    }

    /// Finds lines in files.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn grep(&self, grep: Grep) -> Result<Found, GuestError> {
        let (limit, work) = (grep.limit, self.shared.settings.work);
        self.once(&Request::Grep(grep), Answers::Long, work, |reply| match reply {
            Reply::Matches { matches, is_cut, searched, skipped }
                if is_within(matches.len(), limit) =>
            {
                Some(Found { matches, is_cut, searched, skipped })
            }
            _ => None,
        })
        .await
    }

    /// Replaces text in a file.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn edit(&self, edit: Edit) -> Result<Edited, GuestError> {
        let (path, count) = (edit.path.clone(), edit.replacements.len());
        let work = self.shared.settings.work;
        self.once(&Request::Edit(edit), Answers::Long, work, |reply| match reply {
            Reply::Edited { stat, replaced } if stat.path == path && replaced.len() == count => {
                Some(Edited { stat, replaced })
            }
            _ => None,
        })
        .await
    }

    /// Looks at one name.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn look(&self, look: Look) -> Result<Stat, GuestError> {
        let path = look.path.clone();
        self.stat(&Request::Look(look), &path).await
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn make_directory(&self, make: MakeDirectory) -> Result<Stat, GuestError> {
        let path = make.path.clone();
        self.stat(&Request::MakeDirectory(make), &path).await
    }

    /// Moves a name.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn rename(&self, rename: Move) -> Result<Stat, GuestError> {
        let path = rename.to.clone();
        self.stat(&Request::Move(rename), &path).await
    }

    /// Sets a mode.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn set_mode(&self, set: SetMode) -> Result<Stat, GuestError> {
        let path = set.path.clone();
        self.stat(&Request::SetMode(set), &path).await
    }

    /// Removes a name.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn remove(&self, remove: Remove) -> Result<(), GuestError> {
        let work = self.shared.settings.work;
        self.once(&Request::Remove(remove), Answers::Short, work, super::done).await
    }

    async fn stat(&self, request: &Request, path: &Octets) -> Result<Stat, GuestError> {
        let work = self.shared.settings.work;
        self.once(request, Answers::Short, work, |reply| stat_of(reply, path)).await
    }
}

/// What is known of that very path.
fn stat_of(reply: Reply, path: &Octets) -> Option<Stat> {
    match reply {
        Reply::Stat(stat) if stat.path == *path => Some(stat),
        _ => None,
    }
}

fn is_within(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count <= limit)
}
