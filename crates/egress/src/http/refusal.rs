//! Why a request goes nowhere, as it is told inside.

use super::session::Asked;
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// The header that names the reason.
pub const DENIED: HeaderName = HeaderName::from_static("atoll-denied");

/// Whether another try can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Retry {
    /// Nothing was sent; the same request may be tried again at once.
    Safe,
    /// Something may have been done already.
    Unsafe,
    /// Only after what the next step says.
    After,
}

/// Why a request goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The status of the answer: 403, 400, 421, 429, 502.
    pub status: u16,
    /// The reason's word, which never changes.
    pub code: &'static str,
    /// What was refused and why, without a value that is secret.
    pub message: String,
    /// The text of the rule that says so.
    pub rule: Option<String>,
    /// Whether another try can help.
    pub retry: Retry,
    /// What to do, in words an agent can act on.
    pub next_step: String,
}

#[derive(Serialize)]
struct Document<'a> {
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
    host: Option<String>,
    port: Option<u16>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    rule: Option<&'a str>,
    retry: Retry,
    next_step: &'a str,
}

impl Refused {
    /// The answer's body.
    #[must_use]
    pub fn body(&self, asked: Option<&Asked>) -> Bytes {
        let error = Error {
            code: self.code,
            message: &self.message,
            host: asked.map(|asked| asked.host.to_string()),
            port: asked.map(|asked| asked.port),
            method: asked.map(|asked| asked.method.as_str()),
            path: asked.map(Asked::path),
            rule: self.rule.as_deref(),
            retry: self.retry,
            next_step: &self.next_step,
        };
        let mut body = serde_json::to_vec(&Document { error }).unwrap_or_default();
        body.push(b'\n');
        body.into()
    }

    /// The answer, with its body still as bytes.
    #[must_use]
    pub fn response(&self, asked: Option<&Asked>) -> Response<Bytes> {
        let mut response = Response::new(self.body(asked));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::FORBIDDEN);
        let headers = response.headers_mut();
        headers.insert(DENIED, HeaderValue::from_static(self.code));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// The whole answer as HTTP/1.1 has it, after which the connection is to be closed.
    #[must_use]
    pub fn http1(&self, asked: Option<&Asked>) -> Bytes {
        let response = self.response(asked);
        let mut text = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
        for (name, value) in response.headers() {
            text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let length =
            format!("content-length: {}\r\nconnection: close\r\n\r\n", response.body().len());
        text.extend_from_slice(length.as_bytes());
        text.extend_from_slice(response.body());
        text.into()
    }
}
