//! Images: listed, shown, pulled, removed.

use crate::access::{Admin, Reader};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, parameter};
use crate::stream::{Over, Teller, event};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::image::{Image, Images, PruneImages, Pruned, PullImage};
use atoll_api::sandbox::IMAGE_BYTES_MAX;
use atoll_engine::images::{self, Following, ImageError, Stored};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, pull))
        .routes(routes!(prune))
        .routes(routes!(show, delete))
}

/// The image that a path names.
struct Target(String);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        parameter(parts, app, "image").await.map(Self)
    }
}

/// List the images
#[utoipa::path(
    get, path = "/v1/images", operation_id = "list_images", tag = "images",
    responses(
        (status = 200, body = Images, description = "All of them, by their digests"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(_: Reader, State(app): State<Arc<App>>) -> Result<Json<Images>, Failure> {
    let images = app.images()?.list().await?;
    Ok(Json(Images { images: images.iter().map(images::view).collect() }))
}

/// Show an image
#[utoipa::path(
    get, path = "/v1/images/{image}", operation_id = "get_image", tag = "images",
    params((
        "image" = String, Path,
        description = "Its name, with `/` written as `%2F`; its digest or that of its manifest, or at least \
                       the first six digits of one",
    )),
    responses(
        (status = 200, body = Image, description = "The image"),
        (status = "default", body = ErrorBody, description = "It is not shown"),
    ),
    security(("key" = [])),
)]
async fn show(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(image): Target,
) -> Result<Json<Image>, Failure> {
    Ok(Json(images::view(&app.images()?.find(&image).await?)))
}

/// Pull or import an image
///
/// Answers when it is there; with `Accept: text/event-stream` by a stream that says how far it is: `event:
/// progress` with an `ImageProgress`, at last `event: image` with the image, or `event: error` with an
/// error. Requests for the same image share the work, and it ends when nobody waits any more.
#[utoipa::path(
    post, path = "/v1/images", operation_id = "pull_image", tag = "images",
    request_body = PullImage,
    responses(
        (status = 201, body = Image, description = "It is there"),
        (
            status = 200, description = "The stream",
            content((Image = "application/json"), (String = "text/event-stream")),
        ),
        (status = "default", body = ErrorBody, description = "It is not there, if it was not before"),
    ),
    security(("key" = [])),
)]
async fn pull(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(request): Body<PullImage>,
) -> Result<Response, Failure> {
    if request.image.is_empty() || request.image.len() > IMAGE_BYTES_MAX {
        return Err(Failure::field("image", format!("image has 1 to {IMAGE_BYTES_MAX} bytes")));
    }
    let mut following = app.images()?.pull(&request.image)?;
    let image = request.image;
    tracing::info!(%image, by = %caller.by(), "an image is pulled");
    if !super::execs::wants_events(&headers) {
        let image = there(following.outcome().await)?;
        return Ok(json(StatusCode::CREATED, &image));
    }
    let (mut teller, response) = Teller::begin(&app)?;
    app.spawn(async move {
        let last = follow(&mut teller, &mut following).await;
        teller.finish(last).await;
    });
    Ok(response)
}

/// Tells how far it is until it ends, which is the last word.
async fn follow(teller: &mut Teller, following: &mut Following) -> Result<String, Over> {
    loop {
        match teller.wait(following.next()).await? {
            Ok(progress) => teller.say(event("progress", None, &progress)).await?,
            Err(outcome) => {
                return Ok(match there(outcome) {
                    Ok(image) => event("image", None, &image),
                    Err(failure) => event("error", None, &ErrorBody { error: *failure.error }),
                });
            }
        }
    }
}

fn there(outcome: Result<Option<Stored>, ImageError>) -> Result<Image, Failure> {
    match outcome? {
        Some(image) => Ok(images::view(&image)),
        None => Err(Failure::field("image", "there is no image of layers at that path")
            .next_step("name a root file system when a sandbox is made: it needs no import")),
    }
}

/// Remove an image, or a name of it
///
/// By a name just that name is removed, and the image with its last one; by a digest the image with all
/// its names. Layers that nothing needs any more go too. One that a sandbox or a snapshot was made of stays.
#[utoipa::path(
    delete, path = "/v1/images/{image}", operation_id = "delete_image", tag = "images",
    params(("image" = String, Path, description = "As in `get_image`")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Target(image): Target,
) -> Result<Response, Failure> {
    app.images()?.delete(&image).await?;
    tracing::info!(%image, by = %caller.by(), "an image was removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Remove images that nothing needs
///
/// Those without a name, or all that no sandbox and no snapshot was made of; and layers of none.
#[utoipa::path(
    post, path = "/v1/images/prune", operation_id = "prune_images", tag = "images",
    request_body = PruneImages,
    responses(
        (status = 200, body = Pruned, description = "What was removed"),
        (status = "default", body = ErrorBody, description = "Some may be removed"),
    ),
    security(("key" = [])),
)]
async fn prune(
    _: Admin,
    State(app): State<Arc<App>>,
    Body(request): Body<PruneImages>,
) -> Result<Json<Pruned>, Failure> {
    Ok(Json(app.images()?.prune(request.all).await?))
}

impl App {
    /// The images, where the server has any.
    fn images(&self) -> Result<&atoll_engine::images::Images, Failure> {
        self.images.as_ref().ok_or_else(|| {
            let next_step = "ask a server whose sandboxes are made of images";
            Failure::new(ErrorCode::UnsupportedByTier, "this server has no images", next_step)
        })
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::of(error.to_api(), &error)
    }
}
