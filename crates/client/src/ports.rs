//! Ports of a sandbox.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::ports::{ExposePort, Ports, Preview};
use hyper::Method;

impl Client {
    /// Lists the ports on which something listens, and those that are exposed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_ports(&self, sandbox: &str) -> Result<Ports, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["ports"])).await
    }

    /// Exposes a port, and tells where it can be reached.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn expose_port(
        &self,
        sandbox: &str,
        port: u16,
        wanted: &ExposePort,
    ) -> Result<Preview, ClientError> {
        let path = Path::sandbox(sandbox, &["ports", &port.to_string(), "expose"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, preview)| preview)
    }

    /// Takes an exposure back.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn unexpose_port(&self, sandbox: &str, port: u16) -> Result<(), ClientError> {
        let path = Path::sandbox(sandbox, &["ports", &port.to_string(), "expose"]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }
}
