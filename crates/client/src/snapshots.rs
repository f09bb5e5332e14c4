//! Snapshots: taken, looked at, forked, gone back to and deleted.

use crate::body::Upload;
use crate::client::{Client, Path, json};
use crate::error::ClientError;
use atoll_api::id::SnapshotId;
use atoll_api::sandbox::Sandbox;
use atoll_api::snapshot::{
    CreateSnapshot, DiffSnapshots, ForkSandbox, ForkSnapshot, Forks, ListSnapshots, RestoreSandbox,
    Snapshot, SnapshotDiff, SnapshotPage,
};
use hyper::Method;

/// `sandbox` is an id or a name throughout.
impl Client {
    /// Takes a snapshot of a sandbox, however long that takes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create_snapshot(
        &self,
        sandbox: &str,
        wanted: &CreateSnapshot,
    ) -> Result<Snapshot, ClientError> {
        let path = Path::sandbox(sandbox, &["snapshots"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, snapshot)| snapshot)
    }

    /// Gives a page of the snapshots that there are, oldest first: those of `sandbox`, where one
    /// is named, in place of the id that `wanted` may have.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_snapshots(
        &self,
        sandbox: Option<&str>,
        wanted: &ListSnapshots,
    ) -> Result<SnapshotPage, ClientError> {
        let id = wanted.sandbox_id.map(|id| id.to_string());
        let mut path = Path::of(&["snapshots"])
            .with_some("sandbox", sandbox.or(id.as_deref()))
            .with_some("page_count", wanted.page_count)
            .with_some("after", wanted.after);
        for (key, value) in &wanted.labels {
            path = path.with("label", format_args!("{key}={value}"));
        }
        self.ask(Method::GET, path).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_snapshot(&self, snapshot: SnapshotId) -> Result<Snapshot, ClientError> {
        self.ask(Method::GET, Path::of(&["snapshots", &snapshot.to_string()])).await
    }

    /// Tells what one has otherwise than another one, or than the one before it, however long that
    /// takes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn diff_snapshots(
        &self,
        snapshot: SnapshotId,
        wanted: &DiffSnapshots,
    ) -> Result<SnapshotDiff, ClientError> {
        let path = Path::of(&["snapshots", &snapshot.to_string(), "diff"])
            .with_some("with", wanted.with)
            .with_some("limit", wanted.limit);
        self.ask(Method::GET, path).await
    }

    /// Deletes one. What was made of it stays.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_snapshot(&self, snapshot: SnapshotId) -> Result<(), ClientError> {
        let path = Path::of(&["snapshots", &snapshot.to_string()]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }

    /// Makes sandboxes of a snapshot, some of which may fail. Under an idempotency key the same
    /// request makes none twice.
    ///
    /// # Errors
    /// See [`ClientError`]; also if none can be made.
    pub async fn fork_snapshot(
        &self,
        snapshot: SnapshotId,
        wanted: &ForkSnapshot,
        idempotency_key: Option<&str>,
    ) -> Result<Forks, ClientError> {
        let path = Path::of(&["snapshots", &snapshot.to_string(), "fork"]);
        let mut request = self.request(Method::POST, &path);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let (request, body) = json(request, wanted)?;
        self.receive(request, body).await.map(|(_, forks)| forks)
    }

    /// Takes a snapshot of a sandbox, and makes sandboxes of it, some of which may fail.
    ///
    /// # Errors
    /// See [`ClientError`]; also if none can be made.
    pub async fn fork_sandbox(
        &self,
        sandbox: &str,
        wanted: &ForkSandbox,
    ) -> Result<Forks, ClientError> {
        let path = Path::sandbox(sandbox, &["fork"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, forks)| forks)
    }

    /// Puts a sandbox back to a snapshot.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn restore_sandbox(
        &self,
        sandbox: &str,
        snapshot: SnapshotId,
    ) -> Result<Sandbox, ClientError> {
        let path = Path::sandbox(sandbox, &["restore"]);
        let wanted = RestoreSandbox { snapshot };
        self.tell(Method::POST, path, &wanted).await.map(|(_, sandbox)| sandbox)
    }
}
