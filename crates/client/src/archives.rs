//! Archives: made, looked at, restored and deleted.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::archive::{Archive, ArchivePage, Archived, ListArchives, RestoredArchive};
use atoll_api::id::{ArchiveId, SnapshotId};
use hyper::Method;

impl Client {
    /// Puts a snapshot into object storage, however long that takes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn archive_snapshot(&self, snapshot: SnapshotId) -> Result<Archived, ClientError> {
        self.ask(Method::POST, Path::of(&["snapshots", &snapshot.to_string(), "archive"])).await
    }

    /// Puts a sandbox into object storage, however long that takes; one that runs is stopped first if
    /// it `stops`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn archive_sandbox(
        &self,
        sandbox: &str,
        stops: bool,
    ) -> Result<Archived, ClientError> {
        let path = Path::sandbox(sandbox, &["archive"]).with_some("stop", stops.then_some(true));
        self.ask(Method::POST, path).await
    }

    /// Gives a page of the archives that there are, in the order of their ids.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_archives(&self, wanted: &ListArchives) -> Result<ArchivePage, ClientError> {
        let path = Path::of(&["archives"])
            .with_some("page_count", wanted.page_count)
            .with_some("after", wanted.after);
        self.ask(Method::GET, path).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_archive(&self, archive: ArchiveId) -> Result<Archive, ClientError> {
        self.ask(Method::GET, Path::of(&["archives", &archive.to_string()])).await
    }

    /// Deletes one. What was restored of it stays.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_archive(&self, archive: ArchiveId) -> Result<(), ClientError> {
        let path = Path::of(&["archives", &archive.to_string()]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }

    /// Makes what is in one, however long that takes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn restore_archive(
        &self,
        archive: ArchiveId,
    ) -> Result<RestoredArchive, ClientError> {
        self.ask(Method::POST, Path::of(&["archives", &archive.to_string(), "restore"])).await
    }
}
