//! Requests and their answers.

use crate::body::{Download, Driver, Upload};
use crate::connect::connect;
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use atoll_api::error::{ApiError, ErrorBody};
use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Largest answer that is kept: an exec's result, with every byte spelled out.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Largest error that is kept.
const ERROR_BYTES_MAX: usize = 256 << 10;

/// What stands for itself in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Asks a server. Copies of it are the same.
#[derive(Clone)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    key: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// A path with what is asked for behind it.
pub(crate) struct Path {
    text: String,
    has_query: bool,
}

impl Path {
    /// `/v1` and these parts, each of which may be anything.
    pub(crate) fn of(parts: &[&str]) -> Self {
        let mut text = "/v1".to_owned();
        for part in parts {
            // A part that is nothing but dots would be another place.
            let is_dots = matches!(*part, "." | "..");
            let part = utf8_percent_encode(part, PLAIN).to_string();
            text += "/";
            text += &if is_dots { part.replace('.', "%2E") } else { part };
        }
        Self { text, has_query: false }
    }

    /// Of a sandbox.
    pub(crate) fn sandbox(sandbox: &str, rest: &[&str]) -> Self {
        Self::of(&[&["sandboxes", sandbox], rest].concat())
    }

    /// With something more asked for.
    pub(crate) fn with(self, name: &str, value: impl fmt::Display) -> Self {
        self.with_bytes(name, value.to_string().as_bytes())
    }

    /// With something more that need not be text.
    pub(crate) fn with_bytes(mut self, name: &str, value: &[u8]) -> Self {
        self.text += if self.has_query { "&" } else { "?" };
        self.has_query = true;
        self.text += name;
        self.text += "=";
        self.text.extend(percent_encode(value, PLAIN));
        self
    }

    /// With something more, if it is there.
    pub(crate) fn with_some(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl Client {
    /// Asks the server at `endpoint`, with an API key if there is one.
    ///
    /// # Errors
    /// A key that no header can hold.
    pub fn new(endpoint: Endpoint, key: Option<&str>) -> Result<Self, ClientError> {
        let key = key.map(|key| {
            let mut value = HeaderValue::try_from(key).map_err(|_| ClientError::Request {
                reason: "the API key has characters that no key has".to_owned(),
            })?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self { endpoint: Arc::new(endpoint), key: key.transpose()? })
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn request(&self, method: Method, path: &Path) -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(path.text.as_str())
            .header(header::HOST, self.endpoint.authority())
            .header(header::USER_AGENT, concat!("atoll/", env!("CARGO_PKG_VERSION")));
        match &self.key {
            Some(key) => request.header(HeaderName::from_static("x-api-key"), key.clone()),
            None => request,
        }
    }

    /// Sends a request. An answer that is an error becomes one.
    pub(crate) async fn send(
        &self,
        request: Builder,
        body: Upload,
    ) -> Result<(Response<()>, Download), ClientError> {
        let request = request
            .body(body)
            .map_err(|error| ClientError::Request { reason: error.to_string() })?;
        let stream = connect(&self.endpoint).await?;
        let broken = |error: hyper::Error| {
            // A body of ours that failed is no fault of the connection's.
            let mut cause: Option<&(dyn Error + 'static)> = error.source();
            let is_ours = error.is_user();
            while let Some(inner) = cause.filter(|_| is_ours) {
                if let Some(source) = inner.downcast_ref::<std::io::Error>() {
                    return ClientError::Source(std::io::Error::new(
                        source.kind(),
                        source.to_string(),
                    ));
                }
                cause = inner.source();
            }
            ClientError::broken("the request was sent")(error.into())
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
        // An error of the connection is one of the request or of its answer.
        let driver =
            Driver(tokio::spawn(async move { connection.with_upgrades().await.unwrap_or(()) }));
        let response = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let download = Download { body, driver, trailers: HeaderMap::new() };
        if head.status.is_client_error() || head.status.is_server_error() {
            return Err(refused(head.status, download).await);
        }
        Ok((Response::from_parts(head, ()), download))
    }

    /// Asks for JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: Path,
    ) -> Result<T, ClientError> {
        self.receive(self.request(method, &path), Upload::empty()).await.map(|(_, body)| body)
    }

    /// Asks with JSON for JSON.
    pub(crate) async fn tell<T: DeserializeOwned>(
        &self,
        method: Method,
        path: Path,
        body: &impl Serialize,
    ) -> Result<(StatusCode, T), ClientError> {
        let request = self.request(method, &path);
        let (request, body) = json(request, body)?;
        self.receive(request, body).await
    }

    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
        request: Builder,
        body: Upload,
    ) -> Result<(StatusCode, T), ClientError> {
        let (head, download) = self.send(request, body).await?;
        let bytes = download.all(ANSWER_BYTES_MAX).await?;
        let read = serde_json::from_slice(&bytes);
        read.map(|body| (head.status(), body)).map_err(|error| ClientError::NotUnderstood {
            reason: format!("{} with a body that is not as it should be: {error}", head.status()),
        })
    }
}

/// A body of JSON.
pub(crate) fn json(
    request: Builder,
    body: &impl Serialize,
) -> Result<(Builder, Upload), ClientError> {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| ClientError::Request { reason: error.to_string() })?;
    Ok((request.header(header::CONTENT_TYPE, "application/json"), Upload::whole(bytes)))
}

/// What the server says was wrong.
async fn refused(status: StatusCode, download: Download) -> ClientError {
    let bytes = match download.all(ERROR_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(error) => return error,
    };
    match error_of(&bytes) {
        Some(error) => ClientError::Api(Box::new(error)),
        None => ClientError::NotUnderstood {
            reason: format!("{status}, and not in the form of an Atoll server's errors"),
        },
    }
}

fn error_of(bytes: &Bytes) -> Option<ApiError> {
    serde_json::from_slice::<ErrorBody>(bytes).ok().map(|body| body.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_part_is_it_stays_one() {
        let path = |name: &str| Path::sandbox(name, &["stop"]).text;
        assert_eq!(path("web-1"), "/v1/sandboxes/web-1/stop");
        assert_eq!(path("a/b?c#d e%"), "/v1/sandboxes/a%2Fb%3Fc%23d%20e%25/stop");
        assert_eq!(path(".."), "/v1/sandboxes/%2E%2E/stop");
        assert_eq!(path("ü"), "/v1/sandboxes/%C3%BC/stop");
    }

    #[test]
    fn what_is_asked_for_is_quoted() {
        let path = Path::of(&["events"]).with("after", 1).with_some("sandbox", Some("a&b=c d"));
        assert_eq!(path.text, "/v1/events?after=1&sandbox=a%26b%3Dc%20d");
        assert_eq!(Path::of(&["events"]).with_some("after", None::<u64>).text, "/v1/events");
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let endpoint = "http://localhost:1".parse().unwrap();
        let client = Client::new(endpoint, Some("e2b_5ec4e7")).unwrap();
        assert!(!format!("{client:?}").contains("5ec4e7"));
        let endpoint = "http://localhost:1".parse().unwrap();
        assert!(Client::new(endpoint, Some("e2b_\n")).is_err());
    }
}
