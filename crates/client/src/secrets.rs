//! Secrets of a server.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::secret::{PutSecret, Secret, SecretName, Secrets};
use hyper::{Method, StatusCode};

impl Client {
    /// Lists the secrets, without their values.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_secrets(&self) -> Result<Secrets, ClientError> {
        self.ask(Method::GET, Path::of(&["secrets"])).await
    }

    /// Sets a secret; gives it without its value, and whether it is new.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_secret(
        &self,
        name: &SecretName,
        wanted: &PutSecret,
    ) -> Result<(Secret, bool), ClientError> {
        let path = Path::of(&["secrets", name.as_str()]);
        let (status, secret) = self.tell(Method::PUT, path, wanted).await?;
        Ok((secret, status == StatusCode::CREATED))
    }

    /// Deletes a secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_secret(&self, name: &SecretName) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &Path::of(&["secrets", name.as_str()]));
        self.send(request, Upload::empty()).await.map(|_| ())
    }
}
