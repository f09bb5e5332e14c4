//! What a client of a preview is answered where its sandbox does not answer.
//!
//! It is the error of the API, as JSON for programs and as a small page for people.

use super::address::Address;
use crate::error::{Failure, status};
use atoll_api::error::{ApiError, ErrorBody, ErrorCode, Retry};
use axum::body::Body;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use hyper::{HeaderMap, Response, StatusCode};
use std::fmt::Write as _;
use std::time::Duration;

/// When to ask again where a sandbox is not there yet, in milliseconds.
const AGAIN_MS: u64 = 2000;

/// An error, and the status that goes with it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) failure: Failure,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { status: status(failure.error.code), failure }
    }
}

impl Refusal {
    /// There is no such preview, or it is not opened by what came.
    pub(crate) fn unknown() -> Self {
        let message = "there is no preview at this address";
        let next_step = "expose the port, and use the address that is given for it";
        Failure::new(ErrorCode::NotFound, message, next_step).into()
    }

    /// The sandbox is on its way, or could not be started.
    pub(crate) fn not_ready(
        message: impl Into<String>,
        cause: Option<&dyn std::error::Error>,
    ) -> Self {
        let next_step =
            "ask again in a moment; if it stays so, look at the sandbox and its services";
        let mut failure = Failure::new(ErrorCode::NotReady, message, next_step).after_ms(AGAIN_MS);
        if let Some(cause) = cause {
            failure = failure.caused_by(cause);
        }
        failure.into()
    }

    /// Nothing listens on the port of a sandbox that runs.
    pub(crate) fn closed(port: u16, listening: Vec<u16>) -> Self {
        let message = match &*listening {
            [] => format!("nothing listens on port {port} of the sandbox, nor on another one"),
            _ => format!("nothing listens on port {port} of the sandbox"),
        };
        let next_step = "start the server, or expose the port on which it listens";
        let mut failure = Failure::new(ErrorCode::Unreachable, message, next_step);
        failure.error.retry = Retry::Safe;
        failure.error.details.listening = Some(listening);
        failure.into()
    }

    /// What answers does not do so as an HTTP server does.
    pub(crate) fn broken(what: &str, cause: Option<&dyn std::error::Error>) -> Self {
        let message = format!("the server in the sandbox {what}");
        let next_step = "look at the output of the server in the sandbox";
        let mut failure = Failure::new(ErrorCode::Unreachable, message, next_step);
        if let Some(cause) = cause {
            failure = failure.caused_by(cause);
        }
        failure.into()
    }

    /// It said nothing for as long as a connection may be silent.
    pub(crate) fn silent(idle: Duration) -> Self {
        let message = format!("the server in the sandbox said nothing for {idle:?}");
        let next_step = "look at the server in the sandbox, or have the idle limit raised";
        let failure = Failure::new(ErrorCode::Unreachable, message, next_step);
        Self { status: StatusCode::GATEWAY_TIMEOUT, failure }
    }

    /// There are as many streams as there may be.
    pub(crate) fn too_many(to: &str, streams_max: usize) -> Self {
        let value = u64::try_from(streams_max).unwrap_or(u64::MAX);
        let message = format!("{streams_max} requests {to} go on, which is the most");
        let limit = ("preview_streams_max", value);
        let next_step = "close a connection, or ask again later";
        Failure::limit(ErrorCode::Capacity, limit, message, next_step).after_ms(AGAIN_MS).into()
    }

    /// The request cannot be sent on.
    pub(crate) fn invalid(message: &str) -> Self {
        Failure::new(ErrorCode::Invalid, message, "send another request").into()
    }

    pub(crate) fn of_sandbox(mut self, address: Address) -> Self {
        self.failure.error.details.sandbox_id = Some(address.id);
        self
    }

    /// The answer for who sent `headers`.
    pub(crate) fn answer(self, headers: &HeaderMap) -> Response<Body> {
        let Self { status, failure } = self;
        failure.log();
        let error = *failure.error;
        let retry = error.retry;
        let (kind, text) = if wants_page(headers) {
            ("text/html; charset=utf-8", page(status, &error))
        } else {
            let body = ErrorBody { error };
            ("application/json", serde_json::to_string(&body).expect("an error has string keys"))
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
        if let Retry::After { after_ms } = retry {
            headers.insert(RETRY_AFTER, after_ms.div_ceil(1000).into());
        }
        response
    }
}

/// Browsers name the type of a page; programs mostly take anything.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split([',', ';']).any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

fn page(status: StatusCode, error: &ApiError) -> String {
    let (message, next_step) = (escape(&error.message), escape(&error.next_step));
    let (code, number) = (error.code.as_str(), status.as_u16());
    let ports = error.details.listening.as_deref().unwrap_or_default();
    let mut listening = String::new();
    if !ports.is_empty() {
        listening.push_str("<p>Something listens on:");
        for port in ports {
            // Writing to a string cannot fail.
            write!(listening, " {port}").unwrap_or_default();
        }
        listening.push_str("</p>\n");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{number} {code}\
         </title></head><body>\n<h1>{number} {code}</h1>\n<p>{message}</p>\n{listening}\
         <p>{next_step}</p>\n</body></html>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    fn shown(refusal: Refusal, accept: &str) -> (StatusCode, HeaderMap, String) {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let (head, body) = refusal.answer(&headers).into_parts();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime.block_on(body.collect()).unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(bytes.into()).unwrap())
    }

    #[test]
    fn programs_get_json_and_people_a_page() {
        let (status, headers, text) = shown(Refusal::closed(80, vec![3000, 5173]), "*/*");
        assert_eq!(
            (status.as_u16(), &headers[CONTENT_TYPE]),
            (502, &"application/json".parse().unwrap())
        );
        let body: ErrorBody = serde_json::from_str(&text).unwrap();
        assert_eq!(body.error.details.listening, Some(vec![3000, 5173]));
        let accept = "text/html,application/xhtml+xml,*/*;q=0.8";
        let (status, _, text) = shown(Refusal::closed(80, vec![3000, 5173]), accept);
        assert_eq!(status.as_u16(), 502);
        insta::assert_snapshot!(text, @r#"
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><title>502 unreachable</title></head><body>
        <h1>502 unreachable</h1>
        <p>nothing listens on port 80 of the sandbox</p>
        <p>Something listens on: 3000 5173</p>
        <p>start the server, or expose the port on which it listens</p>
        </body></html>
        "#);
    }

    #[test]
    fn what_is_not_there_yet_says_when_to_ask_again() {
        let (status, headers, _) = shown(Refusal::not_ready("it starts", None), "");
        assert_eq!((status.as_u16(), &headers[RETRY_AFTER]), (503, &"2".parse().unwrap()));
        assert_eq!(shown(Refusal::silent(Duration::from_secs(1)), "").0.as_u16(), 504);
        assert_eq!(shown(Refusal::too_many("to this sandbox", 3), "").0.as_u16(), 429);
    }

    #[test]
    fn a_page_holds_no_markup_of_others() {
        let refusal = Refusal::not_ready("<script>&", None);
        assert!(shown(refusal, "text/html").2.contains("<p>&lt;script&gt;&amp;</p>"));
    }
}
