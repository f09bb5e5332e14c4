//! Waiting for something in a sandbox, and its services.

use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::service::Services;
use atoll_api::wait::{Wait, Waited};
use hyper::Method;

impl Client {
    /// Waits for a port, a line of output or an answer over HTTP.
    ///
    /// # Errors
    /// See [`ClientError`]; of code `timed_out` where the time is over.
    pub async fn wait_for(&self, sandbox: &str, wanted: &Wait) -> Result<Waited, ClientError> {
        let path = Path::sandbox(sandbox, &["wait"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, waited)| waited)
    }

    /// Lists the services of a sandbox, as they were declared.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_services(&self, sandbox: &str) -> Result<Services, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["services"])).await
    }
}
