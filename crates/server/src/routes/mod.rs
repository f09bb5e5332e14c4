//! The paths of the API: one file for each resource.
//!
//! A route reads its request, calls the engine and converts; it takes a [`Reader`], a
//! [`Runner`] or an [`Admin`], which says what a caller's key must allow.
//!
//! [`Reader`]: crate::access::Reader
//! [`Runner`]: crate::access::Runner
//! [`Admin`]: crate::access::Admin

mod approvals;
mod archives;
mod audit;
mod budgets;
mod builds;
mod denials;
mod events;
mod execs;
mod files;
mod git;
mod images;
mod keys;
mod network;
mod pools;
mod ports;
mod sandboxes;
mod secrets;
mod server;
mod services;
mod snapshots;
mod templates;
mod usage;
mod volumes;
mod wait;

use crate::access;
use crate::app::App;
use crate::drain;
use crate::error::Failure;
use crate::extract::Named;
use crate::request;
use atoll_api::error::ErrorCode;
use atoll_api::image::ImageProgress;
use atoll_api::sandbox::Event;
use atoll_api::template::BuildLogEntry;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use sandboxes::LabelFilter;
use std::sync::Arc;
use usage::UsageFormat;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;

/// All routes, with what is done around every request.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), access::admit))
        .layer(from_fn(drain::drain))
        .layer(from_fn_with_state(app.clone(), request::observe))
        .with_state(app.clone())
}

/// What the API is, for programs and people that want to use it.
pub fn openapi() -> OpenApi {
    let mut api = described().into_openapi();
    api.info = utoipa::openapi::InfoBuilder::new()
        .title("Atoll")
        .description(Some(
            "Sandboxes for AI agents. Within /v1 things are only added: ignore fields that you do \
             not know. Fields of a request that the server does not know are refused. On the unix \
             socket no key is needed; the kernel says who asks.",
        ))
        .version("1")
        .license(Some(utoipa::openapi::LicenseBuilder::new().name("MIT OR Apache-2.0").build()))
        .build();
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A key as `e2b_` and hexadecimal digits; `X-API-Key` does as well."))
        .build();
    let components = api.components.get_or_insert_default();
    // What is in a stream or a parameter is in no body, where it would be found.
    let mut more = vec![
        (Event::name().into_owned(), Event::schema()),
        (Named::name().into_owned(), Named::schema()),
        (LabelFilter::name().into_owned(), LabelFilter::schema()),
        (UsageFormat::name().into_owned(), UsageFormat::schema()),
        (ImageProgress::name().into_owned(), ImageProgress::schema()),
        (BuildLogEntry::name().into_owned(), BuildLogEntry::schema()),
    ];
    Event::schemas(&mut more);
    execs::schemas(&mut more);
    files::schemas(&mut more);
    components.schemas.extend(more);
    components.add_security_scheme("key", SecurityScheme::Http(key));
    api
}

fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(sandboxes::routes())
        .merge(approvals::routes())
        .merge(archives::routes())
        .merge(audit::routes())
        .merge(budgets::routes())
        .merge(builds::routes())
        .merge(denials::routes())
        .merge(events::routes())
        .merge(execs::routes())
        .merge(files::routes())
        .merge(keys::routes())
        .merge(network::routes())
        .merge(pools::routes())
        .merge(ports::routes())
        .merge(secrets::routes())
        .merge(server::routes())
        .merge(services::routes())
        .merge(snapshots::routes())
        .merge(templates::routes())
        .merge(usage::routes())
        .merge(volumes::routes())
        .merge(git::routes())
        .merge(images::routes())
        .merge(wait::routes())
}

async fn no_route() -> Failure {
    let next_step = "see the API's description at /v1/openapi.json";
    Failure::new(ErrorCode::NotFound, "there is nothing at this path", next_step)
}

async fn no_method() -> Failure {
    let next_step = "use a method that the `Allow` header lists";
    Failure::new(ErrorCode::MethodNotAllowed, "this path does not take this method", next_step)
}
