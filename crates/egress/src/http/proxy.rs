//! For programs that know they speak to a proxy: `CONNECT host:port`, and whole addresses.

use super::body::{Body, full};
use super::check::{Meant, check, read_authority};
use super::exchange::Exchange;
use super::guarded::InFlight;
use super::refusal::{self, Refused};
use super::serve::{Answers, Ended, Limits, linger, serve_http1};
use super::session::{Asked, BoxFuture, Session, Site};
use super::upstream::Upstreams;
use crate::host::Host;
use crate::tls::Replayed;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use hyper::{Method, Request, Response};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};

/// Who says which hosts are spoken to.
pub trait Gate: Send + Sync + 'static {
    /// Decides whether a tunnel to a host is opened at all. What then comes through it is to be
    /// treated as a connection to that host.
    fn tunnel<'a>(&'a self, host: &'a Host, port: u16) -> BoxFuture<'a, Result<(), Refused>>;

    /// The session of requests to a host, without TLS.
    ///
    /// # Errors
    ///
    /// Where nothing may be asked of it at all.
    fn session(&self, site: &Site) -> Result<Arc<dyn Session>, Refused>;

    /// Hears of a request that was refused before anybody was asked.
    fn tell(&self, asked: Option<Asked>, refused: Refused);
}

/// A tunnel that was granted.
#[derive(Debug)]
pub struct Tunnel<S> {
    /// To whom.
    pub host: Host,
    /// At which port.
    pub port: u16,
    /// What comes from the client and goes to it.
    pub stream: Replayed<S>,
}

/// Serves a connection as a proxy, until it ends or asks for a tunnel.
pub async fn proxy<S>(stream: S, gate: Arc<dyn Gate>, limits: Limits) -> Option<Tunnel<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let proxied = Arc::new(Proxied { gate, last: Mutex::default(), granted: Mutex::default() });
    match serve_http1(stream, Answers::Proxied(Arc::clone(&proxied)), limits).await {
        Ended::Http(stream) => linger(stream).await,
        Ended::Upgraded { upgrade, read, stream } => {
            super::relay::relay(Replayed::new(read.freeze(), stream), *upgrade).await;
        }
        Ended::Tunnel { read, stream } => {
            let granted = proxied.granted.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (host, port) = granted?;
            return Some(Tunnel { host, port, stream: Replayed::new(read.freeze(), stream) });
        }
        Ended::Broken => {}
    }
    None
}

/// Whom a request was for, and how it got there.
type Last = (Site, Arc<dyn Session>, Arc<Upstreams>);

/// A connection on which any host may be named.
pub(super) struct Proxied {
    gate: Arc<dyn Gate>,
    /// Connections to the host that was named last.
    last: Mutex<Option<Last>>,
    granted: Mutex<Option<(Host, u16)>>,
}

impl Proxied {
    pub(super) async fn answer(
        &self,
        exchange: &Exchange,
        request: Request<Incoming>,
        in_flight: InFlight,
    ) -> Response<Body> {
        if request.method() == Method::CONNECT {
            return self.connect(exchange, request, in_flight).await;
        }
        let (parts, body) = request.into_parts();
        let expects = parts.headers.contains_key(EXPECT);
        let asked = match check(&parts, &Meant::Proxied) {
            Ok(asked) => asked,
            Err(refused) => {
                self.gate.tell(None, refused.clone());
                return exchange.refuse(body, expects, None, &refused).await;
            }
        };
        let site = Site { host: asked.host.clone(), port: asked.port, is_tls: false };
        match self.upstreams(&site) {
            Ok((session, upstreams)) => {
                let request = Request::from_parts(parts, body);
                exchange.answer(request, &Meant::Site(site), &upstreams, &session, in_flight).await
            }
            Err(refused) => exchange.refuse(body, expects, Some(&asked), &refused).await,
        }
    }

    fn upstreams(&self, site: &Site) -> Result<(Arc<dyn Session>, Arc<Upstreams>), Refused> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((own, session, upstreams)) = &*last
            && own == site
        {
            return Ok((Arc::clone(session), Arc::clone(upstreams)));
        }
        let session = self.gate.session(site)?;
        let upstreams = Upstreams::new(site.clone(), Arc::clone(&session));
        *last = Some((site.clone(), Arc::clone(&session), Arc::clone(&upstreams)));
        Ok((session, upstreams))
    }

    async fn connect(
        &self,
        exchange: &Exchange,
        request: Request<Incoming>,
        mut in_flight: InFlight,
    ) -> Response<Body> {
        let named = request.uri().authority().map(|authority| authority.as_str());
        let (host, port) = match named.and_then(read_authority) {
            Some((host, Some(port))) => (host, port),
            Some((_, None)) | None => {
                let refused = refusal::malformed("CONNECT names no host and port");
                self.gate.tell(None, refused.clone());
                return exchange.refuse(request.into_body(), false, None, &refused).await;
            }
        };
        match self.gate.tunnel(&host, port).await {
            Ok(()) => {
                in_flight.end_http();
                *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some((host, port));
                Response::new(full(Bytes::new()))
            }
            Err(refused) => {
                let asked = Asked {
                    host,
                    port,
                    is_tls: false,
                    method: "CONNECT".to_owned(),
                    path_and_query: String::new(),
                    is_websocket: false,
                    placeholders: Vec::new(),
                };
                exchange.refuse(request.into_body(), false, Some(&asked), &refused).await
            }
        }
    }
}
