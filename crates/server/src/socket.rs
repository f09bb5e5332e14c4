//! WebSockets of the API (RFC 6455, over HTTP/1.1).
//!
//! Browsers can set no headers of one, so that a key may come as one of the protocols
//! that the client offers: `atoll.key.e2b_…`. The one that is spoken is `atoll.v1`.

use crate::app::App;
use crate::error::Failure;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::future::Future;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// How the protocol begins that is a key.
pub(crate) const KEY_PROTOCOL: &str = "atoll.key.";
/// The protocol that is spoken.
const PROTOCOL: &str = "atoll.v1";
/// Largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes that wait for a client.
const WAITING_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// A WebSocket that is open.
pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A WebSocket that a client asks for.
pub(crate) struct SocketRequest {
    accept: HeaderValue,
    /// The client knows the protocol by its name, and wants it named.
    names_protocol: bool,
    upgrade: OnUpgrade,
}

impl<S: Sync> FromRequestParts<S> for SocketRequest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let headers = &parts.headers;
        let key = headers.get(header::SEC_WEBSOCKET_KEY);
        let version = headers.get(header::SEC_WEBSOCKET_VERSION);
        let asks = parts.method == Method::GET
            && lists(headers, &header::CONNECTION, "upgrade")
            && lists(headers, &header::UPGRADE, "websocket")
            && version.is_some_and(|version| version == "13");
        let (true, Some(key)) = (asks, key) else {
            let message = "this is a WebSocket, and has to be asked for as one";
            let next_step = "use a client of WebSocket, over HTTP/1.1";
            return Err(Failure::field("Upgrade", message).next_step(next_step));
        };
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let accept = accept.expect("base64 is ASCII");
        let names_protocol = lists(headers, &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade
            .ok_or_else(|| Failure::field("Upgrade", "this connection cannot be upgraded"))?;
        Ok(Self { accept, names_protocol, upgrade })
    }
}

impl SocketRequest {
    /// Agrees, and has `serve` go on with the socket until the server ends.
    pub(crate) fn open<F: Future<Output = ()> + Send>(
        self,
        app: &App,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response {
        let Self { accept, names_protocol, upgrade } = self;
        app.spawn(async move {
            match upgrade.await {
                Ok(stream) => {
                    let config = WebSocketConfig::default()
                        .max_message_size(Some(MESSAGE_BYTES_MAX))
                        .max_frame_size(Some(MESSAGE_BYTES_MAX))
                        .max_write_buffer_size(WAITING_BYTES_MAX);
                    let stream = TokioIo::new(stream);
                    let socket =
                        WebSocketStream::from_raw_socket(stream, Role::Server, Some(config));
                    serve(socket.await).await;
                }
                Err(error) => tracing::debug!(%error, "a WebSocket did not begin"),
            }
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        if names_protocol {
            let name = HeaderValue::from_static(PROTOCOL);
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, name);
        }
        response
    }
}

/// The parts of a list, over all lines of it.
pub(crate) fn tokens<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
}

/// Whether a list has a word, in whatever case.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word))
}
