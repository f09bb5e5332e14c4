//! Who asks, and what they may.
//!
//! On a unix socket the kernel says who the other side is: the owner of the server and
//! root may do everything, and nobody else anything. Over TCP only a key counts.
//! Whatever is not listed as open to all is closed to who is not known, also a path
//! that there is not.

use crate::app::App;
use crate::error::Failure;
use crate::socket::{KEY_PROTOCOL, tokens};
use atoll_api::error::ErrorCode;
use atoll_api::id::KeyId;
use atoll_api::key::{KEY_PREFIX, Scope};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;

/// What may be asked by whoever reaches the server.
const OPEN_PATHS: &[&str] = &["/healthz"];

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this host, and its user.
    Unix { uid: u32 },
    /// Anybody.
    Tcp,
}

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// The owner of the server, or root.
    Local { uid: u32 },
    /// Whoever has this key.
    Key { id: KeyId, scope: Scope },
}

impl Caller {
    /// Who it is, as it is recorded.
    pub(crate) fn by(self) -> String {
        match self {
            Self::Local { uid } => format!("uid:{uid}"),
            Self::Key { id, .. } => id.to_string(),
        }
    }

    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::Local { .. } => Scope::Admin,
            Self::Key { scope, .. } => scope,
        }
    }
}

/// A caller who may see.
pub(crate) struct Reader(pub(crate) Caller);
/// A caller who may make and use.
pub(crate) struct Runner(pub(crate) Caller);
/// A caller who may give rights.
pub(crate) struct Admin(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for Reader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        needs(parts, Scope::Read).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Runner {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        needs(parts, Scope::Run).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Admin {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        needs(parts, Scope::Admin).map(Self)
    }
}

fn needs(parts: &Parts, scope: Scope) -> Result<Caller, Failure> {
    let caller = parts.extensions.get::<Caller>().copied();
    caller.filter(|caller| caller.scope() >= scope).ok_or_else(|| Failure::scope(scope))
}

/// Lets through who is known and does not ask too often.
pub(crate) async fn admit(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.expect("every connection says who is on its other side");
    let caller = match identify(&app, peer, request.headers()) {
        Ok(caller) => caller,
        Err(failure) => return failure.into_response(),
    };
    if let Err(failure) = app.rates.admit(caller) {
        return failure.into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

fn identify(app: &App, peer: Peer, headers: &HeaderMap) -> Result<Caller, Failure> {
    match peer {
        Peer::Unix { uid } if is_owner(uid, app.owner_uid) => Ok(Caller::Local { uid }),
        Peer::Unix { .. } => Err(Failure::new(
            ErrorCode::Forbidden,
            "this socket is for the user who runs the server, and for root",
            "ask as that user, or over TCP with a key",
        )),
        Peer::Tcp => {
            let secret = secret(headers)?;
            let key = app.keys.find(secret).ok_or_else(|| {
                unauthenticated("there is no such key, or it was revoked", "use another key")
            })?;
            Ok(Caller::Key { id: key.id, scope: key.scope })
        }
    }
}

fn is_owner(uid: u32, owner_uid: u32) -> bool {
    uid == owner_uid || uid == 0
}

/// The key that came with a request, in either of the two headers that are usual, or as
/// a protocol of a WebSocket.
fn secret(headers: &HeaderMap) -> Result<&str, Failure> {
    let bearer = headers.get(header::AUTHORIZATION).map(|value| {
        let text = value.to_str().unwrap_or_default();
        let (scheme, rest) = text.split_once(' ').unwrap_or_default();
        if scheme.eq_ignore_ascii_case("bearer") { rest.trim() } else { "" }
    });
    let plain = headers.get("x-api-key").map(|value| value.to_str().unwrap_or_default());
    let mut protocols = tokens(headers, &header::SEC_WEBSOCKET_PROTOCOL);
    let protocol = protocols.find_map(|name| name.strip_prefix(KEY_PROTOCOL));
    let next_step = "send a key as `Authorization: Bearer e2b_...` or as `X-API-Key: e2b_...`";
    let secret = plain
        .or(bearer)
        .or(protocol)
        .ok_or_else(|| unauthenticated("this needs a key", next_step))?;
    if !secret.starts_with(KEY_PREFIX) {
        return Err(unauthenticated("what came with the request is no key", next_step));
    }
    Ok(secret)
}

fn unauthenticated(message: &str, next_step: &str) -> Failure {
    Failure::new(ErrorCode::Unauthenticated, message, next_step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_root_own_the_socket() {
        for (uid, owner_uid, is_one) in [
            (0, 0, true),
            (0, 1000, true),
            (1000, 1000, true),
            (1000, 0, false),
            (1001, 1000, false),
        ] {
            assert_eq!(is_owner(uid, owner_uid), is_one, "{uid} at a server of {owner_uid}");
        }
    }

    #[test]
    fn a_key_is_in_one_of_three_headers() {
        let found = |name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(
                header::HeaderName::from_static(name),
                value.parse().unwrap(),
            )]);
            secret(&headers).map(str::to_owned).ok()
        };
        assert_eq!(found("authorization", "Bearer e2b_0a").as_deref(), Some("e2b_0a"));
        assert_eq!(found("authorization", "bearer  e2b_0a").as_deref(), Some("e2b_0a"));
        assert_eq!(found("x-api-key", "e2b_0a").as_deref(), Some("e2b_0a"));
        let protocols = "atoll.v1, atoll.key.e2b_0a";
        assert_eq!(found("sec-websocket-protocol", protocols).as_deref(), Some("e2b_0a"));
        for (name, value) in [
            ("authorization", "e2b_0a"),
            ("authorization", "Basic e2b_0a"),
            ("x-api-key", "sk_0a"),
            ("cookie", "e2b_0a"),
        ] {
            assert_eq!(found(name, value), None, "{name}: {value}");
        }
    }
}
