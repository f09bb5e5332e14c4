//! The audit log.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use crate::sse::ServerEvents;
use atoll_api::audit::{AuditPage, AuditRecord};
use hyper::{Method, header};

/// What is wanted of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditWanted {
    /// Begin behind the record of this number.
    pub after: Option<u64>,
    /// Only of the sandbox of this id or name.
    pub sandbox: Option<String>,
    /// Only of these kinds.
    pub kinds: Vec<String>,
}

/// Records as they come.
pub struct AuditStream(ServerEvents);

impl Client {
    /// Gives a page of the audit log.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_audit(&self, wanted: &AuditWanted) -> Result<AuditPage, ClientError> {
        self.ask(Method::GET, path(wanted).with("page_count", 1000)).await
    }

    /// Follows the audit log: behind the record of a number, or from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow_audit(&self, wanted: &AuditWanted) -> Result<AuditStream, ClientError> {
        let request = self.request(Method::GET, &path(wanted));
        let request = request.header(header::ACCEPT, "text/event-stream");
        let (_, download) = self.send(request, Upload::empty()).await?;
        Ok(AuditStream(ServerEvents::new(download)))
    }
}

fn path(wanted: &AuditWanted) -> Path {
    let AuditWanted { after, sandbox, kinds } = wanted;
    let path = Path::of(&["audit"]).with_some("after", *after);
    let path = path.with_some("sandbox", sandbox.as_ref());
    kinds.iter().fold(path, |path, kind| path.with("kind", kind))
}

impl AuditStream {
    /// The next record, or why the server ends the stream; nothing where it broke off.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Result<AuditRecord, String>>, ClientError> {
        loop {
            let Some(event) = self.0.next().await? else { return Ok(None) };
            match event.kind.as_str() {
                "" => {
                    let record = serde_json::from_str(&event.data);
                    return record.map(|record| Some(Ok(record))).map_err(|error| {
                        let reason = format!("a record that is not as it should be: {error}");
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
