//! Reading requests, with the errors of the API where they are wrong.

use crate::app::App;
use crate::error::Failure;
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::id::SandboxId;
use atoll_api::name::SandboxName;
use atoll_api::object::object;
use atoll_api::octets::Octets;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tokio::time::timeout;

/// The body of a request: JSON of a known form, of a limited size, in limited time.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            let message = "the body must be JSON and say so";
            return Err(Failure::field("Content-Type", message)
                .next_step("send `Content-Type: application/json`"));
        }
        parse(&read(request, app).await?).map(Self)
    }
}

/// Reads JSON of a known form.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let value = object(tracked).map_err(|error| {
        let path = track.path().to_string();
        let field = if path == "." { "body" } else { &path };
        Failure::field(field, format!("{field} cannot be read: {}", error))
    })?;
    deserializer.end().map_err(|error| {
        Failure::field("body", format!("the body goes on after its end: {error}"))
    })?;
    Ok(value)
}

fn is_json(headers: &HeaderMap) -> bool {
    is_of_type(headers, "application/json")
}

/// Whether a body is said to be of this media type, whatever its parameters.
pub(crate) fn is_of_type(headers: &HeaderMap, name: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(name)
}

async fn read(request: Request, app: &App) -> Result<hyper::body::Bytes, Failure> {
    let limit_bytes = app.config.body_bytes_max;
    let body = Limited::new(request.into_body(), limit_bytes);
    let read = timeout(app.config.body_timeout, body.collect()).await;
    let limit_ms = u64::try_from(app.config.body_timeout.as_millis()).unwrap_or(u64::MAX);
    let read = read.map_err(|_| {
        let message = format!("the body did not arrive within {limit_ms} ms");
        let limit = ("body_timeout_ms", limit_ms);
        Failure::limit(ErrorCode::Invalid, limit, message, "send the whole body at once")
    })?;
    let read = read.map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = format!("the body is larger than {limit_bytes} bytes");
            let limit = ("body_bytes_max", u64::try_from(limit_bytes).unwrap_or(u64::MAX));
            Failure::limit(ErrorCode::TooLarge, limit, message, "send a smaller body")
        } else {
            Failure::field("body", "the body broke off")
        }
    })?;
    Ok(read.to_bytes())
}

/// The sandbox that a path names by its id or its name.
pub(crate) struct Target(pub(crate) SandboxId);

/// What a path says, as it is.
pub(crate) enum Named {
    Id(SandboxId),
    Name(SandboxName),
}

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        Named::from_request_parts(parts, app).await?.find(app).map(Self)
    }
}

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        parameter(parts, app, "sandbox").await?.parse()
    }
}

/// Gives a type that is written as a string a schema of its own.
macro_rules! string_schema {
    ($type:ty, $name:expr, $description:expr, $pattern:expr, $example:expr) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some($description))
                    .pattern(Some($pattern))
                    .examples([$example])
                    .build()
                    .into()
            }
        }
        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}

pub(crate) use string_schema;

string_schema!(
    Named,
    "SandboxRef",
    "A sandbox by its id or its name.",
    "^(sbx_[0-9a-f]{20}|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$",
    "web"
);

impl FromStr for Named {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        // No name has an underscore.
        if text.starts_with(SandboxId::PREFIX) {
            return text.parse().map(Self::Id).map_err(|error| wrong("sandbox", &error));
        }
        text.parse().map(Self::Name).map_err(|error| wrong("sandbox", &error))
    }
}

impl Named {
    pub(crate) fn find(self, app: &App) -> Result<SandboxId, Failure> {
        match self {
            Self::Id(id) => Ok(id),
            Self::Name(name) => match app.engine.find(&name) {
                Some(sandbox) => Ok(sandbox.id),
                None => Err(Failure::new(
                    ErrorCode::NotFound,
                    format!("no sandbox has the name {name}"),
                    "list the sandboxes that there are, or make one",
                )),
            },
        }
    }
}

/// One part of a path.
pub(crate) async fn parameter(
    parts: &mut Parts,
    app: &Arc<App>,
    name: &str,
) -> Result<String, Failure> {
    let failed = |error: &dyn fmt::Display| Failure::field(name, format!("{name}: {error}"));
    let all = RawPathParams::from_request_parts(parts, app).await.map_err(|e| failed(&e))?;
    let found = all.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| failed(&"it is not in the path"))
}

pub(crate) fn wrong(field: &str, error: &dyn fmt::Display) -> Failure {
    Failure::field(field, error.to_string())
}

/// The parameters of a query, of which every one must be taken.
pub(crate) struct Query(Vec<(String, Vec<u8>)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (String::from_utf8_lossy(&decode(key)).into_owned(), decode(value))
        });
        Ok(Self(pairs.collect()))
    }
}

/// What a form-encoded text stands for, byte by byte: names of files need not be UTF-8.
fn decode(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).collect()
}

impl Query {
    /// Takes all values of a parameter.
    pub(crate) fn all<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<Vec<T>, Failure> {
        let taken = self.0.extract_if(.., |(key, _)| key == name);
        taken
            .map(|(_, value)| {
                let text = String::from_utf8(value)
                    .map_err(|_| Failure::field(name, format!("{name}: it is not UTF-8")))?;
                text.parse().map_err(|error| wrong(name, &format_args!("{name}: {error}")))
            })
            .collect()
    }

    /// Takes the one path that a parameter has to be.
    pub(crate) fn path(&mut self, name: &str) -> Result<Octets, Failure> {
        let mut taken = self.0.extract_if(.., |(key, _)| key == name);
        let (_, path) = taken
            .next()
            .ok_or_else(|| Failure::field(name, format!("{name} has to be in the query")))?;
        if taken.next().is_some() {
            return Err(Failure::field(name, format!("{name} is there more than once")));
        }
        Octets::new(path).map_err(|error| wrong(name, &format_args!("{name} {error}")))
    }

    /// Takes the value of a parameter that comes once at most.
    pub(crate) fn one<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let mut all = self.all(name)?;
        if all.len() > 1 {
            return Err(Failure::field(name, format!("{name} is there more than once")));
        }
        Ok(all.pop())
    }

    /// Refuses what nobody took.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let Some((name, _)) = self.0.into_iter().next() else { return Ok(()) };
        let name: String = name.chars().take(64).collect();
        Err(Failure::field(&name, format!("{name:?} is no parameter of this request")))
    }
}

impl Failure {
    #[must_use]
    pub(crate) fn next_step(mut self, next_step: &str) -> Self {
        next_step.clone_into(&mut self.error.next_step);
        self
    }

    #[must_use]
    pub(crate) fn took_effect(mut self, took_effect: TookEffect) -> Self {
        self.error.took_effect = took_effect;
        self
    }
}
