//! Refusing a connection so that who made it learns why: by an answer of HTTP, if it speaks that,
//! else by breaking it off.

use super::connection::{Way, is_http};
use super::refusal::{Refused, Wanted};
use super::sandbox::Sandbox;
use crate::control::Protocol;
use crate::host::Host;
use crate::http::{self, Asked, Explained, Limits, Speaks, Why};
use crate::policy::{Connection, Reason, Refusal};
use crate::relay::reset;
use crate::tls::{First, FirstError, HelloLimits, Replayed, first, open};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long is waited for what somebody says who is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ports at which programs speak HTTP and begin it themselves.
const WEB_PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// A connection, and what was read of it.
pub(super) struct Begun {
    stream: TcpStream,
    bytes: Bytes,
}

impl Begun {
    /// One of which nothing was read.
    pub(super) fn nothing(stream: TcpStream) -> Self {
        Self { stream, bytes: Bytes::new() }
    }

    /// One of which this was read.
    pub(super) fn with(stream: TcpStream, bytes: Bytes) -> Self {
        Self { stream, bytes }
    }

    /// Looks how it begins. What is read stays.
    pub(super) async fn first(&mut self, limits: &HelloLimits) -> Result<First, FirstError> {
        let mut replayed = Replayed::new(self.bytes.clone(), &mut self.stream);
        let first = first(&mut replayed, limits).await;
        if let Ok(First::Tls { bytes, .. } | First::Other { bytes }) = &first
            && bytes.len() > self.bytes.len()
        {
            self.bytes = bytes.clone();
        }
        first
    }

    /// The whole stream.
    pub(super) fn replayed(self) -> Replayed<TcpStream> {
        Replayed::new(self.bytes, self.stream)
    }

    /// What was read, and the rest.
    pub(super) fn into_parts(self) -> (Bytes, TcpStream) {
        (self.bytes, self.stream)
    }
}

/// Refuses a connection.
pub(super) async fn refuse(sandbox: &Arc<Sandbox>, begun: Begun, way: &Way, refused: Refused) {
    sandbox.deny(&refused, &way.wanted(&way.host.to_string()));
    tell(sandbox, begun, way.port, &refused).await;
}

/// Serves a connection to the address that refused names lead to: what it is meant for is told
/// by what is in it.
pub(super) async fn name(sandbox: &Arc<Sandbox>, stream: TcpStream, port: u16) {
    let owner = sandbox.clone();
    let why: Why = Arc::new(move |asked: &Asked| {
        let host = asked.host.to_string();
        let settings = owner.settings();
        let refusal = match settings.policy.connection(asked.host.as_policy(), port) {
            Connection::Refuse(refusal) => refusal,
            // It has been allowed since: who asks for the name once more is led there.
            Connection::Pass(_) | Connection::Look { .. } => {
                Refusal { reason: Reason::NotAllowed, rule: None }
            }
        };
        let refused = Refused::by_policy(refusal, &host);
        let wanted = Wanted {
            host: &host,
            port,
            protocol: Protocol::Http,
            method: Some(&asked.method),
            path: Some(&asked.path_and_query),
        };
        owner.deny(&refused, &wanted);
        refused.of_http(&settings.rules)
    });
    answer(sandbox, Begun::nothing(stream), port, why).await;
}

/// Tells the reason, where anybody speaks who could be told.
async fn tell(sandbox: &Arc<Sandbox>, begun: Begun, port: u16, refused: &Refused) {
    let settings = sandbox.settings();
    let speaks = !begun.bytes.is_empty() || WEB_PORTS.contains(&port);
    if !settings.rules.explain || !speaks {
        return reset(begun.stream);
    }
    let refused = refused.of_http(&settings.rules);
    answer(sandbox, begun, port, Arc::new(move |_: &Asked| refused.clone())).await;
}

/// Answers every request with a reason, if what is spoken is HTTP, with or without TLS.
async fn answer(sandbox: &Arc<Sandbox>, mut begun: Begun, port: u16, why: Why) {
    let limits = HelloLimits { silent_for: PATIENCE, within: PATIENCE, ..HelloLimits::default() };
    let explained = |server_name, is_tls| Explained { server_name, port, is_tls };
    match (begun.first(&limits).await, sandbox.authority()) {
        (Ok(First::Tls { server_name: Some(name), .. }), Some(authority)) => {
            // Who does not trust it sees that the handshake failed.
            let host = Host::Name(name.clone());
            if let Ok(opened) = open(begun.replayed(), &authority, &host).await {
                let speaks = Speaks::agreed(opened.is_http2);
                let explained = explained(Some(name), true);
                http::explain(opened.stream, speaks, explained, why, Limits::default()).await;
            }
        }
        (Ok(First::Other { bytes }), _) if is_http(&bytes) => {
            let (speaks, explained) = (Speaks::Either, explained(None, false));
            http::explain(begun.replayed(), speaks, explained, why, Limits::default()).await;
        }
        (Ok(_), _) | (Err(_), _) => reset(begun.stream),
    }
}
