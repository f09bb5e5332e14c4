//! Previews: ports of sandboxes, reached from outside as web sites of their own.
//!
//! | to know | read |
//! |---|---|
//! | how one is named | `address` |
//! | which headers pass | `headers` |
//! | how a sandbox is woken, and held while somebody looks | `room` |
//! | how a request goes to a port and back | `relay`, `pulse` |
//! | what becomes of a WebSocket | `tunnel` |
//! | what is answered where the sandbox does not | `refusal` |
//!
//! A request is one to a preview if its host is below the domain of previews, or if its
//! path begins with `/preview/`; no request is both one to a preview and one to the API.
//! By host, a preview has an origin of its own, as browsers see it. By path it shares the
//! server's, so that its pages get an origin that is nobody's, and no cookies.

pub(crate) mod address;
mod headers;
pub(crate) mod pulse;
mod refusal;
mod relay;
mod room;
mod tunnel;

pub(crate) use refusal::Refusal;

use crate::app::App;
use crate::error::Failure;
use address::Address;
use atoll_api::id::SandboxId;
use atoll_api::ports::{PREVIEW_TOKEN_HEADER, Preview, PreviewToken, Visibility};
use atoll_engine::Engine;
use atoll_engine::exposure::Exposure;
use axum::body::Body;
use headers::Came;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue, LOCATION};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode};
use prometheus_client::metrics::gauge::Gauge;
use relay::Visit;
use room::{Place, Rooms, Way};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// How the paths of previews begin.
const PATHS: &str = "/preview/";

/// Settings of previews.
#[derive(Debug, Clone)]
pub struct Previews {
    /// The domain below which each has a name of its own, without a port.
    pub domain: String,
    /// The port by which clients come; that of the listener where none is given.
    pub port: Option<u16>,
    /// Whether clients come by HTTPS, to a proxy in front of this server.
    pub is_https: bool,
    /// Requests and connections to one sandbox at once.
    pub streams_max: usize,
    /// How long a first request waits for a sandbox that has to be woken.
    pub wake_max: Duration,
    /// How long a request or a WebSocket may go on without a byte either way.
    pub idle: Duration,
}

impl Default for Previews {
    fn default() -> Self {
        Self {
            domain: "localhost".to_owned(),
            port: None,
            is_https: false,
            streams_max: 128,
            wake_max: Duration::from_secs(30),
            idle: Duration::from_secs(3600),
        }
    }
}

/// What the router of previews keeps.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) settings: Previews,
    /// Where the listener is; none if there is none for previews.
    listener: Option<SocketAddr>,
    rooms: Rooms,
    open: Gauge,
}

/// What a request is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meant {
    Api,
    /// A name below the domain of previews. No address if there can be no such preview.
    Host(Option<Address>),
    /// A path; the same.
    Path(Option<Address>),
    /// This server has no such name.
    Stranger,
}

/// One that goes on, for the metrics.
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Router {
    /// `streams_max` is for all sandboxes together.
    pub(crate) fn new(
        settings: Previews,
        listener: Option<SocketAddr>,
        streams_max: usize,
        open: Gauge,
    ) -> Self {
        let rooms = Rooms::new(settings.streams_max, streams_max);
        Self { settings, listener, rooms, open }
    }

    /// Decides what a request is meant for, by its host and its path. `names` are the ones
    /// that the server has beside its addresses.
    pub(crate) fn meant(&self, host: Option<&str>, path: &str, names: &[String]) -> Meant {
        let name = match host {
            // Browsers always say it.
            None => None,
            Some(host) => match address::name(host) {
                Some(name) => Some(name),
                None => return Meant::Stranger,
            },
        };
        let domain = self.settings.domain.as_str();
        if let Some(label) = name.as_deref().and_then(|name| address::label(name, domain)) {
            return Meant::Host(Address::parse(label));
        }
        let is_ours = |name: &str| {
            name == "localhost" || address::is_literal(name) || names.iter().any(|own| own == name)
        };
        if !name.as_deref().is_none_or(is_ours) {
            return Meant::Stranger;
        }
        match path.strip_prefix(PATHS) {
            Some(rest) => Meant::Path(Address::parse(rest.split('/').next().unwrap_or_default())),
            None => Meant::Api,
        }
    }

    /// Where an exposed port is; with its token only for whom it is meant. None if nothing
    /// listens for previews.
    pub(crate) fn preview(
        &self,
        id: SandboxId,
        port: u16,
        exposure: &Exposure,
        shows_token: bool,
    ) -> Option<Preview> {
        let listener = self.listener?;
        let token = exposure.token.filter(|_| shows_token);
        let address = Address { port, id, token };
        let scheme = self.scheme();
        let usual = if self.settings.is_https { 443 } else { 80 };
        let port_part = match self.settings.port.unwrap_or(listener.port()) {
            port if port == usual => String::new(),
            port => format!(":{port}"),
        };
        let domain = &self.settings.domain;
        let server = match listener.ip() {
            ip if ip.is_unspecified() => format!("localhost:{}", listener.port()),
            _ => listener.to_string(),
        };
        Some(Preview {
            port,
            visibility: exposure.visibility,
            url: format!("{scheme}://{address}.{domain}{port_part}/"),
            path_url: format!("http://{server}{}/", Came::by_path(address)),
            token,
            expires_at: exposure.expires_at,
        })
    }

    /// Whether anything listens for previews.
    pub(crate) fn is_reachable(&self) -> bool {
        self.listener.is_some()
    }

    /// Connects to a port for a client of the API, as for one of a preview.
    pub(crate) async fn connect(
        &self,
        engine: &Engine,
        id: SandboxId,
        port: u16,
    ) -> Result<(Place, Way), Failure> {
        // Its error is one of the API, and not that there is no such preview.
        engine.get(id)?;
        let place = self.rooms.enter(id);
        let place = place.map_err(|refusal| refusal.failure)?;
        let way = place.room.way(engine, port, self.settings.wake_max).await;
        Ok((place, way.map_err(|refusal| refusal.failure)?))
    }

    fn scheme(&self) -> &'static str {
        if self.settings.is_https { "https" } else { "http" }
    }
}

/// Answers a request to a preview.
pub(crate) async fn serve(
    app: Arc<App>,
    meant: Option<Address>,
    is_by_path: bool,
    from: IpAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let began_at = Instant::now();
    let (headers, method) = (request.headers().clone(), request.method().clone());
    let answered = answer(&app, meant, is_by_path, from, request).await;
    let response = answered.unwrap_or_else(|refusal| match meant {
        Some(address) => refusal.of_sandbox(address).answer(&headers),
        None => refusal.answer(&headers),
    });
    let status = response.status().as_u16();
    app.metrics.preview_answered(status);
    // Neither host nor path: tokens are in both.
    let took_us = u64::try_from(began_at.elapsed().as_micros()).unwrap_or(u64::MAX);
    if let Some(Address { id, port, .. }) = meant {
        let method = crate::request::known(method.as_str());
        tracing::debug!(sandbox_id = %id, port, method, status, took_us, "preview answered");
    }
    response
}

async fn answer(
    app: &Arc<App>,
    meant: Option<Address>,
    is_by_path: bool,
    from: IpAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let address = meant.ok_or_else(Refusal::unknown)?;
    let sent = request.headers().get(PREVIEW_TOKEN_HEADER);
    let sent: Option<PreviewToken> =
        sent.and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    let exposure = app.engine.exposure(address.id, address.port);
    if !exposure.is_some_and(|exposure| opens(&exposure, address.token, sent)) {
        return Err(Refusal::unknown());
    }
    let prefix = is_by_path.then(|| Came::by_path(address));
    let target = match &prefix {
        Some(prefix) => match below(prefix, request.uri().path_and_query()) {
            Some(target) => target,
            None => return Ok(with_slash(prefix, request.uri().query())),
        },
        None => request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")),
    };
    let host = host(&request).map_err(|()| Refusal::invalid("it names two hosts"))?;
    let host = host.and_then(|host| HeaderValue::try_from(host).ok());
    let host = host.ok_or_else(|| Refusal::invalid("it names no host"))?;
    request.headers_mut().insert(HOST, host.clone());
    let came = Came { from, host, scheme: app.previews.scheme(), prefix };
    let is_by_header = address.token.is_none() && sent.is_some();
    let visit = Visit { address, came, target, is_by_header };
    relay::relay(app, &visit, request).await
}

/// Whether an exposed port is opened by what came. A public one has one address too.
fn opens(exposure: &Exposure, named: Option<PreviewToken>, sent: Option<PreviewToken>) -> bool {
    match (exposure.visibility, &exposure.token) {
        (Visibility::Public, _) => named.is_none(),
        (Visibility::Private, Some(token)) => {
            named.or(sent).is_some_and(|tried| bool::from(tried.bytes().ct_eq(token.bytes())))
        }
        (Visibility::Private, None) => false,
    }
}

/// What is asked for below a preview's path; none if not even its slash is there.
fn below(prefix: &str, target: Option<&PathAndQuery>) -> Option<PathAndQuery> {
    let rest = target?.as_str().strip_prefix(prefix)?;
    rest.starts_with('/').then(|| rest.parse().ok())?
}

/// Sends the client to where the links of a page hold.
fn with_slash(prefix: &str, query: Option<&str>) -> Response<Body> {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let location = HeaderValue::try_from(format!("{prefix}/{query}"));
    response.headers_mut().insert(LOCATION, location.expect("it was part of an address"));
    response
}

/// The host that a request names, which must be one.
pub(crate) fn host<B>(request: &Request<B>) -> Result<Option<String>, ()> {
    let mut lines = request.headers().get_all(HOST).into_iter();
    let line = lines.next().map(|value| value.to_str().map(str::to_owned)).transpose();
    let line = line.map_err(drop)?;
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    if lines.next().is_some() {
        return Err(());
    }
    match (authority, line) {
        (Some(authority), Some(line)) if !authority.eq_ignore_ascii_case(&line) => Err(()),
        (authority, line) => Ok(authority.or(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::time::Timestamp;

    const LABEL: &str = "80-0001020304050607abff";

    fn router(settings: Previews) -> Router {
        Router::new(settings, Some("127.0.0.1:4000".parse().unwrap()), 9, Gauge::default())
    }

    #[test]
    fn a_host_below_the_domain_never_reaches_the_api_and_a_stranger_s_neither() {
        let router = router(Previews::default());
        let names = ["box".to_owned()];
        let address = Address::parse(LABEL);
        let by_host = format!("{LABEL}.LocalHost:4000");
        let by_path = format!("/preview/{LABEL}/x");
        for (host, path, meant) in [
            (Some("localhost:4000"), "/v1/sandboxes", Meant::Api),
            (Some("127.0.0.1:4000"), "/v1/sandboxes", Meant::Api),
            (Some("[::1]"), "/healthz", Meant::Api),
            (Some("box"), "/v1/sandboxes", Meant::Api),
            (None, "/v1/sandboxes", Meant::Api),
            (Some(&*by_host), "/v1/sandboxes", Meant::Host(address)),
            (Some(&*by_host), &*by_path, Meant::Host(address)),
            (Some("x.localhost"), "/v1/sandboxes", Meant::Host(None)),
            (Some("a.b.localhost"), "/v1/sandboxes", Meant::Host(None)),
            (Some("localhost"), &*by_path, Meant::Path(address)),
            (Some("localhost"), "/preview/", Meant::Path(None)),
            (Some("localhost"), "/previews", Meant::Api),
            (Some("evil.example"), "/v1/sandboxes", Meant::Stranger),
            (Some("evil.example"), &*by_path, Meant::Stranger),
            (Some("127.0.0.1.evil.example"), "/healthz", Meant::Stranger),
            (Some("a@localhost"), "/healthz", Meant::Stranger),
            (Some(""), "/healthz", Meant::Stranger),
        ] {
            assert_eq!(router.meant(host, path, &names), meant, "{host:?} {path}");
        }
    }

    #[test]
    fn a_preview_has_two_addresses_and_shows_its_token_to_whom_it_is_meant() {
        let id = "sbx_0001020304050607abff".parse().unwrap();
        let token = Some(PreviewToken::from_random([1; 16]));
        let exposure = Exposure { visibility: Visibility::Private, token, expires_at: None };
        let preview = router(Previews::default()).preview(id, 80, &exposure, true).unwrap();
        let text = "01".repeat(16);
        assert_eq!(preview.url, format!("http://{LABEL}-{text}.localhost:4000/"));
        assert_eq!(preview.path_url, format!("http://127.0.0.1:4000/preview/{LABEL}-{text}/"));
        let settings = Previews {
            domain: "preview.example".to_owned(),
            port: Some(443),
            is_https: true,
            ..Previews::default()
        };
        let preview = router(settings).preview(id, 80, &exposure, false).unwrap();
        assert_eq!(preview.url, format!("https://{LABEL}.preview.example/"));
        assert_eq!(preview.token, None);
    }

    #[test]
    fn a_token_opens_its_own_preview_only() {
        let token = |n| Some(PreviewToken::from_random([n; 16]));
        let exposure = |visibility, token| Exposure {
            visibility,
            token,
            expires_at: Some(Timestamp::UNIX_EPOCH),
        };
        let private = exposure(Visibility::Private, token(1));
        let public = exposure(Visibility::Public, None);
        for (exposure, named, sent, is_open) in [
            (&private, token(1), None, true),
            (&private, None, token(1), true),
            (&private, None, None, false),
            (&private, token(2), None, false),
            (&private, token(2), token(1), false),
            (&private, None, token(2), false),
            (&public, None, None, true),
            (&public, token(1), None, false),
            (&exposure(Visibility::Private, None), token(1), None, false),
        ] {
            assert_eq!(opens(exposure, named, sent), is_open, "{exposure:?}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        let request = |uri: &str, hosts: &[&str]| {
            let request = Request::builder().uri(uri);
            let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
            host(&request.body(()).unwrap())
        };
        assert_eq!(request("/", &["a"]), Ok(Some("a".to_owned())));
        assert_eq!(request("http://a/", &["A"]), Ok(Some("a".to_owned())));
        assert_eq!(request("/", &[]), Ok(None));
        assert_eq!(request("/", &["a", "a"]), Err(()));
        assert_eq!(request("http://a/", &["b"]), Err(()));
    }
}
