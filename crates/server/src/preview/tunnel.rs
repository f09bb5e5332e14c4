//! WebSocket: once both sides have agreed, bytes are relayed as they come.
//!
//! Over HTTP/1.1 a client asks by `Upgrade` (RFC 6455), over HTTP/2 by an extended CONNECT
//! (RFC 8441). Inside it is always `Upgrade`. No other protocol is switched to: a request
//! that turns into another connection would go around what is decided for each request.

use super::headers;
use super::refusal::Refusal;
use super::relay::{Going, Visit, closes};
use crate::app::App;
use crate::socket::lists;
use atoll_api::error::ErrorCode;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, copy, split};
use tokio::time::timeout;

/// How long one side may go on after the other one has ended.
const LINGER: Duration = Duration::from_secs(10);

/// How a client asks for a WebSocket.
#[derive(Debug, Clone)]
pub(crate) enum Handshake {
    Upgrade,
    /// With the key that is sent in the client's place, as it has none.
    Connect(HeaderValue),
}

impl Handshake {
    /// What a request asks for, if it asks for a WebSocket.
    pub(crate) fn of<B>(request: &Request<B>) -> Result<Option<Self>, Refusal> {
        if request.method() == Method::CONNECT {
            let protocol = request.extensions().get::<Protocol>();
            if protocol.is_none_or(|protocol| protocol.as_str() != "websocket") {
                return Err(Refusal::invalid("only a WebSocket can be connected to"));
            }
            return Ok(Some(Self::Connect(key()?)));
        }
        let headers = request.headers();
        let asks = request.version() == Version::HTTP_11
            && request.method() == Method::GET
            && lists(headers, &UPGRADE, "websocket")
            && lists(headers, &CONNECTION, "upgrade");
        Ok(asks.then_some(Self::Upgrade))
    }

    /// Asks for it inside.
    pub(crate) fn ask(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Self::Connect(key) = self {
            headers.insert(SEC_WEBSOCKET_KEY, key.clone());
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
    }
}

/// 16 random bytes in base64 (RFC 6455, section 4.1).
fn key() -> Result<HeaderValue, Refusal> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        let next_step = "see the server's log";
        let message = "could not get random bytes";
        Refusal::from(
            crate::error::Failure::new(ErrorCode::Internal, message, next_step).caused_by(&error),
        )
    })?;
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, random);
    Ok(HeaderValue::try_from(text).expect("base64 is ASCII"))
}

/// Answers the client, and relays once it has the answer.
pub(super) fn open(
    app: &Arc<App>,
    visit: &Visit,
    handshake: &Handshake,
    client: OnUpgrade,
    mut response: Response<Incoming>,
    going: Going,
) -> Result<Response<Body>, Refusal> {
    if !lists(response.headers(), &UPGRADE, "websocket") {
        return Err(Refusal::broken("switches to another protocol", None));
    }
    let server = hyper::upgrade::on(&mut response);
    let (mut head, _) = response.into_parts();
    headers::to_client(&mut head.headers, &visit.came);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    match handshake {
        Handshake::Upgrade => {
            head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        Handshake::Connect(_) => {
            head.status = StatusCode::OK;
            head.headers.remove(SEC_WEBSOCKET_ACCEPT);
        }
    }
    let closing = app.closing.subscribe();
    app.spawn(async move {
        let (pulse, idle) = going.pulse();
        let relayed = async {
            // Both are there as soon as the client has the answer; what came with it is not lost.
            match tokio::try_join!(client, server) {
                Ok((client, server)) => relay(client, server).await,
                Err(error) => tracing::debug!(%error, "a WebSocket did not begin"),
            }
        };
        tokio::select! {
            () = relayed => {}
            () = pulse.silent_for(idle) => tracing::debug!("a WebSocket was silent for too long"),
            () = closes(Some(closing)) => {}
        }
        drop(going);
    });
    Ok(Response::from_parts(head, Body::empty()))
}

/// Relays both ways until one side ends, and a little longer the other way.
async fn relay(client: Upgraded, server: Upgraded) {
    let (mut from_client, mut to_client) = split(TokioIo::new(client));
    let (mut from_server, mut to_server) = split(TokioIo::new(server));
    let mut up = std::pin::pin!(async {
        let copied = copy(&mut from_client, &mut to_server).await;
        copied.and(to_server.shutdown().await)
    });
    let mut down = std::pin::pin!(async {
        let copied = copy(&mut from_server, &mut to_client).await;
        copied.and(to_client.shutdown().await)
    });
    // Who breaks off says so by that; there is nobody else to tell.
    tokio::select! {
        ended = &mut up => if ended.is_ok() { drop(timeout(LINGER, &mut down).await) },
        ended = &mut down => if ended.is_ok() { drop(timeout(LINGER, &mut up).await) },
    }
}
