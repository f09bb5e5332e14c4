//! Approvals.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use crate::sse::ServerEvents;
use atoll_api::approval::{Approval, ApprovalPage, ApprovalStatus, Approve, AskApproval, Deny};
use hyper::{Method, header};

/// Approvals as they change.
pub struct ApprovalStream(ServerEvents);

impl Client {
    /// Gives a page of approvals, the oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_approvals(
        &self,
        status: Option<ApprovalStatus>,
        sandbox: Option<&str>,
        cursor: Option<u64>,
    ) -> Result<ApprovalPage, ClientError> {
        let path = Path::of(&["approvals"]).with_some("status", status);
        let path = path.with_some("sandbox", sandbox).with_some("cursor", cursor);
        self.ask(Method::GET, path).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_approval(&self, approval: &str) -> Result<Approval, ClientError> {
        self.ask(Method::GET, Path::of(&["approvals", approval])).await
    }

    /// Asks for an approval of what is not a sandbox's; how it stands is the answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ask_approval(&self, wanted: &AskApproval) -> Result<Approval, ClientError> {
        let path = Path::of(&["approvals"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, approval)| approval)
    }

    /// Approves what was asked for.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn approve(&self, approval: &str, wanted: &Approve) -> Result<Approval, ClientError> {
        let path = Path::of(&["approvals", approval, "approve"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, approval)| approval)
    }

    /// Denies what was asked for, or takes back that it was approved.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn deny(&self, approval: &str, wanted: &Deny) -> Result<Approval, ClientError> {
        let path = Path::of(&["approvals", approval, "deny"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, approval)| approval)
    }

    /// Follows approvals: first those that are pending, then each that changes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow_approvals(&self) -> Result<ApprovalStream, ClientError> {
        let request = self.request(Method::GET, &Path::of(&["approvals", "events"]));
        let request = request.header(header::ACCEPT, "text/event-stream");
        let (_, download) = self.send(request, Upload::empty()).await?;
        Ok(ApprovalStream(ServerEvents::new(download)))
    }
}

impl ApprovalStream {
    /// The next one, or why the server ends the stream; nothing where it broke off.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Result<Approval, String>>, ClientError> {
        loop {
            let Some(event) = self.0.next().await? else { return Ok(None) };
            match event.kind.as_str() {
                "approval" => {
                    let approval = serde_json::from_str(&event.data);
                    return approval.map(|approval| Some(Ok(approval))).map_err(|error| {
                        let reason = format!("an approval that is not as it should be: {error}");
                        ClientError::NotUnderstood { reason }
                    });
                }
                "end" => return Ok(Some(Err(event.data))),
                // Of a newer server.
                _ => {}
            }
        }
    }
}
