//! Ports of a sandbox: listed, exposed, and connected to.

use crate::access::{Reader, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Target, parameter, wrong};
use crate::preview::address;
use crate::preview::pulse::{Pulse, Watched};
use crate::socket::{Socket, SocketRequest};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::key::Scope;
use atoll_api::ports::{ExposePort, Port, Ports, Preview};
use atoll_api::sandbox::NUMBER_MAX;
use atoll_engine::Wake;
use atoll_engine::error::OperationError;
use atoll_engine::guest::PortStream;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Bytes of a port that are sent as one message.
const CHUNK_BYTES: usize = 16 * 1024;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(expose, unexpose))
        .routes(routes!(connect))
}

/// The port that a path names.
struct TargetPort(u16);

impl FromRequestParts<Arc<App>> for TargetPort {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "port").await?;
        let port = address::port(&text).filter(|&port| port > 0);
        port.map(Self).ok_or_else(|| wrong("port", &"port is not a number from 1 to 65535"))
    }
}

/// List the ports on which something listens, and those that are exposed
///
/// A sandbox that does not run is not woken: then only what is exposed is listed. Tokens
/// are shown to callers who may use sandboxes.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/ports", operation_id = "list_ports", tag = "ports",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Ports, description = "All of them"),
        (status = "default", body = ErrorBody, description = "They cannot be told"),
    ),
    security(("key" = [])),
)]
async fn list(
    Reader(caller): Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Ports>, Failure> {
    let exposures = app.engine.exposures(id)?;
    let listening = match app.engine.inside(id, Wake::Never).await {
        Ok(inside) => inside.ports().await?,
        Err(OperationError::NotRunning { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut ports: BTreeMap<u16, Port> =
        listening.into_iter().map(|port| (port.port, port)).collect();
    for (port, exposure) in exposures {
        let shows_token = caller.scope() >= Scope::Run;
        let preview = app.previews.preview(id, port, &exposure, shows_token);
        let silent = Port { port, is_listening: false, is_any_address: false, preview: None };
        ports.entry(port).or_insert(silent).preview = preview;
    }
    Ok(Json(Ports { ports: ports.into_values().collect() }))
}

/// Expose a port: it can be reached from outside, at the addresses that are given
///
/// One that is exposed to the same already keeps its token; a request sets anew when it
/// ends.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/ports/{port}/expose", operation_id = "expose_port",
    tag = "ports",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("port" = u16, Path, description = "The port", minimum = 1),
    ),
    request_body = ExposePort,
    responses(
        (status = 200, body = Preview, description = "Where it can be reached"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn expose(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetPort(port): TargetPort,
    Body(request): Body<ExposePort>,
) -> Result<Json<Preview>, Failure> {
    if request.expires_in_ms.is_some_and(|ms| ms == 0 || ms > NUMBER_MAX) {
        let message = format!("expires_in_ms is not between 1 and {NUMBER_MAX}");
        return Err(Failure::field("expires_in_ms", message));
    }
    if !app.previews.is_reachable() {
        let message = "the server listens on no TCP socket, by which alone a preview is reached";
        let next_step = "have the operator start it with --preview-listen or --listen";
        return Err(Failure::new(ErrorCode::RefusedByPolicy, message, next_step));
    }
    let lasts = request.expires_in_ms.map(Duration::from_millis);
    let exposure = app.engine.expose(id, port, request.visibility, lasts).await?;
    let preview = app.previews.preview(id, port, &exposure, true);
    Ok(Json(preview.expect("it is reachable, or it would have been refused")))
}

/// Take an exposure back: on return no address of it works any more
///
/// Requests that go on are not ended. One that is not exposed is no mistake.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{sandbox}/ports/{port}/expose", operation_id = "unexpose_port",
    tag = "ports",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("port" = u16, Path, description = "The port", minimum = 1),
    ),
    responses(
        (status = 204, description = "It is not exposed"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn unexpose(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetPort(port): TargetPort,
) -> Result<Response, Failure> {
    app.engine.unexpose(id, port).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Connect to a port, exposed or not
///
/// A WebSocket of protocol `atoll.v1`, whose binary messages are the bytes of a TCP
/// connection, both ways. A sandbox that sleeps is woken.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/ports/{port}/connect", operation_id = "connect_port",
    tag = "ports",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("port" = u16, Path, description = "The port", minimum = 1),
    ),
    responses(
        (status = 101, description = "It is connected"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn connect(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetPort(port): TargetPort,
    request: SocketRequest,
) -> Result<Response, Failure> {
    let (place, way) = app.previews.connect(&app.engine, id, port).await?;
    let idle = app.previews.settings.idle;
    let mut closing = app.closing.subscribe();
    Ok(request.open(&app, move |socket| async move {
        let pulse = Pulse::new();
        let stream = Watched::new(way.stream, pulse.clone());
        pulse.answered();
        tokio::select! {
            outcome = relay(socket, stream) => if let Err(error) = outcome {
                tracing::debug!(%error, "a connection to a port broke off");
            },
            () = pulse.silent_for(idle) => tracing::debug!("a connection to a port was silent"),
            _ = closing.wait_for(|&is_closing| is_closing) => {}
        }
        drop((place, way.held));
    }))
}

/// Relays both ways until one side ends.
async fn relay(socket: Socket, stream: Watched<PortStream>) -> Result<(), SocketError> {
    let (mut to_client, mut from_client) = socket.split();
    let (mut from_port, mut to_port) = tokio::io::split(stream);
    let up = async {
        while let Some(message) = from_client.next().await {
            match message? {
                Message::Binary(bytes) => to_port.write_all(&bytes).await?,
                Message::Close(_) => break,
                // Answered by the library.
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Text(_) | Message::Frame(_) => {
                    return Ok(Some("only binary messages are bytes of a port"));
                }
            }
        }
        to_port.shutdown().await?;
        Ok::<_, SocketError>(None)
    };
    let down = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let length = from_port.read(&mut buffer).await?;
            if length == 0 {
                return Ok::<_, SocketError>(());
            }
            let bytes = buffer[..length].to_vec();
            to_client.send(Message::Binary(bytes.into())).await?;
        }
    };
    let ended = tokio::select! {
        ended = up => ended,
        ended = down => ended.map(|()| None),
    };
    let (code, reason) = match &ended {
        Ok(Some(said)) => (CloseCode::Unsupported, *said),
        Ok(None) => (CloseCode::Normal, ""),
        // Where it is the client's side that broke, this goes nowhere.
        Err(_) => (CloseCode::Error, "the connection to the port broke off"),
    };
    let told =
        to_client.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    ended.and(told)
}
