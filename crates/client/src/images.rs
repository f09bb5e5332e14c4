//! Images of a server.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use crate::sse::{ServerEvent, ServerEvents};
use atoll_api::error::ErrorBody;
use atoll_api::image::{Image, ImageProgress, Images, PruneImages, Pruned, PullImage};
use hyper::{Method, header};
use serde::Deserialize;

/// What a pull tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pulled {
    /// It is so far.
    Progress(ImageProgress),
    /// The image is there.
    Image(Box<Image>),
    /// The server ends the stream, as for this reason.
    End(String),
}

/// A pull as it goes on. It ends with the last who follows it.
pub struct PullStream(ServerEvents);

impl Client {
    /// Lists the images.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_images(&self) -> Result<Images, ClientError> {
        self.ask(Method::GET, Path::of(&["images"])).await
    }

    /// Shows an image, by a name or a digest.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_image(&self, image: &str) -> Result<Image, ClientError> {
        self.ask(Method::GET, Path::of(&["images", image])).await
    }

    /// Pulls or imports an image, and says how far it is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn pull_image(&self, image: &str) -> Result<PullStream, ClientError> {
        let wanted = PullImage { image: image.to_owned() };
        let body = serde_json::to_vec(&wanted).unwrap_or_default();
        let request = self
            .request(Method::POST, &Path::of(&["images"]))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream");
        let (_, download) = self.send(request, Upload::whole(body)).await?;
        Ok(PullStream(ServerEvents::new(download)))
    }

    /// Removes an image, or a name of it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_image(&self, image: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &Path::of(&["images", image]));
        self.send(request, Upload::empty()).await.map(|_| ())
    }

    /// Removes images that nothing needs.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn prune_images(&self, wanted: &PruneImages) -> Result<Pruned, ClientError> {
        let path = Path::of(&["images", "prune"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, pruned)| pruned)
    }
}

impl PullStream {
    /// What it tells next; nothing where the stream broke off.
    ///
    /// # Errors
    /// See [`ClientError`]; also if the pull failed.
    pub async fn next(&mut self) -> Result<Option<Pulled>, ClientError> {
        self.0.next_told(read).await
    }
}

fn read(event: &ServerEvent) -> Result<Option<Pulled>, ClientError> {
    #[derive(Deserialize)]
    struct End {
        reason: String,
    }
    let told = match event.kind.as_str() {
        "progress" => serde_json::from_str(&event.data).map(Pulled::Progress),
        "image" => serde_json::from_str(&event.data).map(|image| Pulled::Image(Box::new(image))),
        "error" => match serde_json::from_str::<ErrorBody>(&event.data) {
            Ok(body) => return Err(ClientError::Api(Box::new(body.error))),
            Err(error) => Err(error),
        },
        "end" => serde_json::from_str(&event.data).map(|End { reason }| Pulled::End(reason)),
        // Of a newer server.
        _ => return Ok(None),
    };
    told.map(Some).map_err(|error| ClientError::NotUnderstood {
        reason: format!("an event that is not as it should be: {error}"),
    })
}
