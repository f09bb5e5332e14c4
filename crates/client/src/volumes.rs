//! Volumes: made, listed and deleted.

use crate::body::{Download, Upload};
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::volume::{CreateVolume, ListVolumes, SetVolumeLimit, Volume, VolumePage, VolumeRef};
use hyper::Method;

impl Client {
    /// Makes an empty one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn create_volume(&self, wanted: &CreateVolume) -> Result<Volume, ClientError> {
        let path = Path::of(&["volumes"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, volume)| volume)
    }

    /// Gives one another limit, or none.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_volume_limit(
        &self,
        volume: &VolumeRef,
        wanted: &SetVolumeLimit,
    ) -> Result<Volume, ClientError> {
        let path = Path::of(&["volumes", &volume.to_string(), "limit"]);
        self.tell(Method::PUT, path, wanted).await.map(|(_, volume)| volume)
    }

    /// Gives a page of the volumes that there are, by name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_volumes(&self, wanted: &ListVolumes) -> Result<VolumePage, ClientError> {
        let mut path = Path::of(&["volumes"])
            .with_some("page_count", wanted.page_count)
            .with_some("after", wanted.after.as_ref());
        for (key, value) in &wanted.labels {
            path = path.with("label", format_args!("{key}={value}"));
        }
        self.ask(Method::GET, path).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_volume(&self, volume: &VolumeRef) -> Result<Volume, ClientError> {
        self.ask(Method::GET, Path::of(&["volumes", &volume.to_string()])).await
    }

    /// Reads what one holds as a tar archive. It is whole if and only if the body ends without an error.
    ///
    /// # Errors
    /// See [`ClientError`]; also if a sandbox writes to it.
    pub async fn export_volume(&self, volume: &VolumeRef) -> Result<Download, ClientError> {
        let path = Path::of(&["volumes", &volume.to_string(), "export"]);
        self.send(self.request(Method::GET, &path), Upload::empty()).await.map(|(_, body)| body)
    }

    /// Deletes one, with all that it holds.
    ///
    /// # Errors
    /// See [`ClientError`]; also if a sandbox has it.
    pub async fn delete_volume(&self, volume: &VolumeRef) -> Result<(), ClientError> {
        let path = Path::of(&["volumes", &volume.to_string()]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }
}
