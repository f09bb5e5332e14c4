//! The server itself.

use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::server::Capabilities;
use hyper::Method;

impl Client {
    /// Tells what can be asked of this server.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.ask(Method::GET, Path::of(&["capabilities"])).await
    }
}
