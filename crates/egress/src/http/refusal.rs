//! Why a request goes nowhere, as it is told inside.

use super::session::{Asked, Site};
use crate::host::Host;
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

fn refused(status: u16, code: &'static str, message: String, retry: Retry, next: &str) -> Refused {
    Refused { status, code, message, rule: None, retry, next_step: next.to_owned() }
}

pub(super) fn malformed(message: impl Into<String>) -> Refused {
    let next = "send the request as RFC 9110 and RFC 9112 have it";
    refused(400, "malformed-request", message.into(), Retry::Safe, next)
}

pub(super) fn unsupported(message: &str) -> Refused {
    let next = "use another method or another way to ask";
    refused(403, "unsupported-request", message.to_owned(), Retry::Safe, next)
}

pub(super) fn two_hosts() -> Refused {
    let message = "the request names two hosts".to_owned();
    refused(400, "host-mismatch", message, Retry::Safe, "name one host in the request")
}

pub(super) fn other_host(asked: &Host, port: u16, site: &Site) -> Refused {
    let message = format!(
        "the request is for {asked}:{port}, but its connection was made to {}:{}",
        site.host, site.port
    );
    let next = "make a connection to the host that the request is for";
    refused(421, "host-mismatch", message, Retry::Safe, next)
}

pub(super) fn secret_over_http(name: &str) -> Refused {
    let message = format!("the request has the placeholder of the secret {name}, and no TLS");
    refused(403, "secret-over-http", message, Retry::Safe, "use https")
}

pub(super) fn placeholder_elsewhere(name: &str, asked: &Asked) -> Refused {
    let message = format!(
        "the request has the placeholder of the secret {name}, which is not for {} {}:{}{}",
        asked.method,
        asked.host,
        asked.port,
        asked.path()
    );
    let next = "send it only where the policy says that the secret is for";
    refused(403, "placeholder-elsewhere", message, Retry::Safe, next)
}

pub(super) fn upstream(message: String, retry: Retry) -> Refused {
    let next = match retry {
        Retry::Safe => "try again; if it fails again, the host is in trouble",
        Retry::Unsafe | Retry::After => {
            "find out whether it was done, as the host may have taken the request"
        }
    };
    refused(502, "upstream-failed", message, retry, next)
}

pub(super) fn too_slow() -> Refused {
    let message = "the body of the request did not come".to_owned();
    refused(400, "malformed-request", message, Retry::Unsafe, "send all of the request")
}
