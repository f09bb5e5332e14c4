//! How object stores are spoken to: HTTP/1.1 over the same dialling, look-ups and TLS as
//! registries, a connection for each request.

use crate::images::{ANSWER_WITHIN, Roads, Url};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What is sent goes at least so fast, in bytes a second.
const SLOWEST: u64 = 32 << 10;

/// See the module.
#[derive(Clone)]
pub(super) struct Connector(Arc<Roads>);

impl Connector {
    pub(super) fn new(roads: Roads) -> Self {
        Self(Arc::new(roads))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Why there is no answer, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

fn failed(kind: HttpErrorKind, reason: impl Into<String>) -> HttpError {
    HttpError::new(kind, Reason(reason.into()))
}

impl HttpService for Connector {
    // What the macro that the trait is made with would write.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.ask(request))
    }
}

impl Connector {
    async fn ask(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url: Url = request
            .uri()
            .to_string()
            .parse()
            .map_err(|reason: String| failed(HttpErrorKind::Unknown, reason))?;
        let sender = self.0.open::<HttpRequestBody>(&url).await;
        let mut sender = sender.map_err(|why| failed(HttpErrorKind::Connect, why.reason))?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse();
        *request.uri_mut() = path.unwrap_or_default();
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::try_from(url.authority()) {
            headers.entry(HOST).or_insert(host);
        }
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("atoll/", env!("CARGO_PKG_VERSION"))),
        );
        let bytes = request.body().size_hint().upper().unwrap_or_default();
        let within = ANSWER_WITHIN + Duration::from_secs(bytes / SLOWEST);
        let answer = timeout(within, sender.send_request(request)).await;
        let answer = answer.map_err(|_| failed(HttpErrorKind::Timeout, "it does not answer"))?;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        let (parts, body) = answer.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new::<_>(whole(body))))
    }
}

/// The body as what the other side wants.
fn whole<B>(body: B) -> B
where
    B: hyper::body::Body<Data = Bytes, Error = HttpError> + Send + Sync + 'static,
{
    body
}
