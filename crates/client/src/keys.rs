//! Keys of the API.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::key::{CreateKey, Keys, NewKey};
use hyper::Method;

impl Client {
    /// Makes a key; its secret is in the answer and can never be shown again.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create_key(&self, wanted: &CreateKey) -> Result<NewKey, ClientError> {
        self.tell(Method::POST, Path::of(&["keys"]), wanted).await.map(|(_, key)| key)
    }

    /// Lists the keys, without their secrets.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_keys(&self) -> Result<Keys, ClientError> {
        self.ask(Method::GET, Path::of(&["keys"])).await
    }

    /// Revokes a key: on return it opens nothing any more.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn revoke_key(&self, key: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &Path::of(&["keys", key]));
        self.send(request, Upload::empty()).await.map(|_| ())
    }
}
