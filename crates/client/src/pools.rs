//! Pools: made, listed, sized and deleted.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::name::SandboxName;
use atoll_api::pool::{CreatePool, Pool, Pools, SetPool};
use hyper::Method;

impl Client {
    /// Makes one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create_pool(&self, wanted: &CreatePool) -> Result<Pool, ClientError> {
        self.tell(Method::POST, Path::of(&["pools"]), wanted).await.map(|(_, pool)| pool)
    }

    /// Gives all of them, by name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_pools(&self) -> Result<Pools, ClientError> {
        self.ask(Method::GET, Path::of(&["pools"])).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_pool(&self, name: &SandboxName) -> Result<Pool, ClientError> {
        self.ask(Method::GET, Path::of(&["pools", name.as_str()])).await
    }

    /// Gives one another size.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_pool(&self, name: &SandboxName, set: &SetPool) -> Result<Pool, ClientError> {
        let path = Path::of(&["pools", name.as_str()]);
        self.tell(Method::PUT, path, set).await.map(|(_, pool)| pool)
    }

    /// Deletes one, with its members.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_pool(&self, name: &SandboxName) -> Result<(), ClientError> {
        let path = Path::of(&["pools", name.as_str()]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }
}
