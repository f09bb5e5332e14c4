//! One request: decided, written anew, sent, and its answer.

use super::body::{Body, Cover, Cut, Download, Patience, Upload, full};
use super::check::{Meant, check};
use super::guarded::{Desk, InFlight};
use super::headers;
use super::refusal::{self, Refused, Retry};
use super::serve::{Limits, Why};
use super::session::{Asked, Passage, Session, Site, Told};
use super::upstream::{Connected, Lease, Upstreams};
use crate::secret::{Injection, Patterns, Secret, Secrets, basic, inject};
use crate::tls::Offer;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes of a refused request that are read, so that its client reads the answer.
const DRAINED_MAX: usize = 256 * 1024;
const DRAINED_WITHIN: Duration = Duration::from_secs(1);

/// What goes on after HTTP.
pub(super) struct Upgrade {
    pub(super) upgraded: OnUpgrade,
    pub(super) cover: Cover,
    pub(super) session: Arc<dyn Session>,
    pub(super) _in_flight: InFlight,
}

/// What the requests of one connection share.
pub(super) struct Exchange {
    pub(super) limits: Limits,
    pub(super) desk: Arc<Desk>,
    pub(super) upgrade: Mutex<Option<Upgrade>>,
    /// What was looked for in the last answer, which mostly is the same in the next.
    looked_for: Mutex<(Vec<Arc<Secret>>, Arc<Patterns>)>,
}

/// One request on its way.
struct Going<'a> {
    exchange: &'a Exchange,
    upstreams: &'a Arc<Upstreams>,
    session: &'a Arc<dyn Session>,
    asked: Arc<Asked>,
    passage: Passage,
    /// Secrets that are put in or covered.
    patterns: Arc<Patterns>,
}

impl Exchange {
    pub(super) fn new(limits: Limits, desk: Arc<Desk>) -> Self {
        Self { limits, desk, upgrade: Mutex::default(), looked_for: Mutex::default() }
    }

    /// Answers a request for one site.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        meant: &Meant,
        upstreams: &Arc<Upstreams>,
        session: &Arc<dyn Session>,
        in_flight: InFlight,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let expects = parts.headers.contains_key(EXPECT);
        let asked = match check(&parts, meant) {
            Ok(asked) => asked,
            Err(refused) => {
                session.tell(Told::Refused { asked: None, refused: refused.clone() });
                return self.refuse(body, expects, None, &refused).await;
            }
        };
        match decide(&parts, asked, session).await {
            Ok((asked, passage)) => {
                let going = self.going(upstreams, session, asked, passage);
                let asked = Arc::clone(&going.asked);
                match going.go(parts, body, has_body, in_flight).await {
                    Ok(response) => response,
                    Err(refused) => {
                        let refused = self.blamed(refused);
                        let told = Some((*asked).clone());
                        session.tell(Told::Refused { asked: told, refused: refused.clone() });
                        respond(&refused, Some(&asked))
                    }
                }
            }
            Err(refusal) => {
                let (asked, refused) = *refusal;
                self.refuse(body, expects, Some(&asked), &refused).await
            }
        }
    }

    /// Answers a request that nobody is asked about.
    pub(super) async fn explain(
        &self,
        request: Request<Incoming>,
        meant: &Meant,
        why: &Why,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let expects = parts.headers.contains_key(EXPECT);
        match check(&parts, meant) {
            Ok(asked) => self.refuse(body, expects, Some(&asked), &why(&asked)).await,
            Err(refused) => self.refuse(body, expects, None, &refused).await,
        }
    }

    /// The client is to blame where it was its body that broke off.
    fn blamed(&self, refused: Refused) -> Refused {
        match self.desk.fault() {
            Some(fault) => refusal::malformed(fault.to_string()),
            None => refused,
        }
    }

    /// Answers a request that goes nowhere. What its client is about to send is read first, as
    /// far as that is little: it may read the answer only then.
    pub(super) async fn refuse(
        &self,
        mut body: Incoming,
        expects: bool,
        asked: Option<&Asked>,
        refused: &Refused,
    ) -> Response<Body> {
        // Where it waits for our word, none is as good as a no.
        if !expects {
            let drain = async {
                let mut left = DRAINED_MAX;
                while let Some(Ok(frame)) = body.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(length) {
                        Some(rest) => left = rest,
                        None => break,
                    }
                }
            };
            drop(timeout(DRAINED_WITHIN, drain).await);
        }
        respond(refused, asked)
    }

    /// How the secrets of an answer are found.
    fn patterns(&self, secrets: Vec<Arc<Secret>>) -> Arc<Patterns> {
        let mut last = self.looked_for.lock().unwrap_or_else(PoisonError::into_inner);
        if !are_same(&last.0, &secrets) {
            let patterns = Arc::new(Patterns::new(&secrets));
            *last = (secrets, patterns);
        }
        Arc::clone(&last.1)
    }

    fn going<'a>(
        &'a self,
        upstreams: &'a Arc<Upstreams>,
        session: &'a Arc<dyn Session>,
        asked: Asked,
        passage: Passage,
    ) -> Going<'a> {
        let own = passage.injections.iter().map(Injection::secret);
        let patterns = self.patterns(own.chain(&passage.redactions).cloned().collect());
        Going { exchange: self, upstreams, session, asked: Arc::new(asked), passage, patterns }
    }
}

/// Whether both are the same secrets, in the same order.
fn are_same(some: &[Arc<Secret>], others: &[Arc<Secret>]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// A refusal as an answer.
pub(super) fn respond(refused: &Refused, asked: Option<&Asked>) -> Response<Body> {
    refused.response(asked).map(full)
}

/// Decides a request, and whether its placeholders may be in it.
async fn decide(
    parts: &Parts,
    mut asked: Asked,
    session: &Arc<dyn Session>,
) -> Result<(Asked, Passage), Box<(Asked, Refused)>> {
    let secrets = session.secrets();
    let found = found(&secrets, parts);
    asked.placeholders = found.iter().map(|secret| secret.name().to_owned()).collect();
    let refused = |asked: Asked, refused: Refused| {
        session.tell(Told::Refused { asked: Some(asked.clone()), refused: refused.clone() });
        Err(Box::new((asked, refused)))
    };
    if let Some(secret) = found.first().filter(|_| !asked.is_tls) {
        return refused(asked, refusal::secret_over_http(secret.name()));
    }
    let mut passage = match session.decide(&asked).await {
        Ok(passage) => passage,
        Err(refused) => return Err(Box::new((asked, refused))),
    };
    if !asked.is_tls {
        passage.injections.clear();
    }
    let is_for = |secret: &Arc<Secret>| {
        passage.injections.iter().any(|injection| injection.secret().name() == secret.name())
    };
    if let Some(secret) = found.iter().find(|secret| !is_for(secret)) {
        let elsewhere = refusal::placeholder_elsewhere(secret.name(), &asked);
        return refused(asked, elsewhere);
    }
    Ok((asked, passage))
}

/// The secrets whose placeholders are in the head of a request.
fn found(secrets: &Secrets, parts: &Parts) -> Vec<Arc<Secret>> {
    let mut all: Vec<Arc<Secret>> = Vec::new();
    let mut search = |text: &[u8]| {
        for secret in secrets.found_in(text) {
            if !all.iter().any(|other| Arc::ptr_eq(other, secret)) {
                all.push(Arc::clone(secret));
            }
        }
    };
    search(parts.uri.to_string().as_bytes());
    for value in parts.headers.values() {
        search(value.as_bytes());
        if let Some(pair) = basic(value.as_bytes()) {
            search(&pair);
        }
    }
    all
}

impl Going<'_> {
    async fn go(
        self,
        mut parts: Parts,
        body: Incoming,
        has_body: bool,
        in_flight: InFlight,
    ) -> Result<Response<Body>, Refused> {
        let is_websocket = self.asked.is_websocket && in_flight.is_held() && !has_body;
        let takes_trailers =
            headers::to_host(&mut parts.headers, is_websocket, !self.patterns.is_empty());
        let mut path = Cow::Borrowed(self.asked.path_and_query.as_str());
        let used = inject(&self.passage.injections, &mut path, &mut parts.headers);
        let names: Vec<String> =
            used.iter().map(|injection| injection.secret().name().to_owned()).collect();
        let ours = used.iter().filter_map(|injection| injection.header_name()).collect();
        if takes_trailers {
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let cut = Cut::default();
        let length = body.size_hint().exact();
        let framing = length.map_or(Framing::Chunked, Framing::Length);
        let framing = if has_body { framing } else { Framing::None };
        let head =
            Head { method: parts.method, path: path.into_owned(), headers: parts.headers, framing };
        let body = has_body.then(|| self.upload(body, ours, &cut));
        let sent = self.send(head, body, is_websocket).await;
        if sent.as_ref().err().is_none_or(|refused| refused.retry != Retry::Safe) {
            for secret in names {
                self.session.tell(Told::Used { secret, asked: (*self.asked).clone() });
            }
        }
        let (response, lease) = sent.map_err(|refused| cut.take().unwrap_or(refused))?;
        self.answered(response, lease, is_websocket, in_flight)
    }

    fn upload(&self, inner: Incoming, ours: Vec<HeaderName>, cut: &Cut) -> Body {
        let patience = Patience::new(self.exchange.limits.body_stalls);
        let (session, cut) = (Arc::clone(self.session), cut.clone());
        Upload { inner, session, ours, patience, cut }.boxed_unsync()
    }

    /// Sends it, once more if surely nothing came of the first time.
    async fn send(
        &self,
        head: Head,
        body: Option<Body>,
        is_websocket: bool,
    ) -> Result<(Response<Incoming>, Option<Lease>), Refused> {
        let connected = match is_websocket {
            true => self.upstreams.new_one(Offer::Http1).await?,
            false => self.upstreams.any().await?,
        };
        let is_repeatable = body.is_none() && head.is_safe();
        let Connected { sender, is_used } = connected;
        let site = self.upstreams.site();
        let again = head.clone();
        let request =
            head.request(site, sender.is_http2(), body.unwrap_or_else(|| full(Bytes::new())))?;
        let mut error = match sender.send(request, self.upstreams).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let unsent = error.take_message();
        let is_unsent = unsent.is_some();
        let error = error.into_error();
        // A host may close a connection just when it is used once more.
        let body = match unsent {
            Some(request) if is_used => request.into_body(),
            None if is_used && is_repeatable && is_gone(&error) => full(Bytes::new()),
            Some(_) | None => return Err(failed(&error, is_unsent)),
        };
        let Connected { sender, .. } = self.upstreams.new_one(Offer::Any).await?;
        let request = again.request(site, sender.is_http2(), body)?;
        let sent = sender.send(request, self.upstreams).await;
        sent.map_err(|error| {
            let is_unsent = error.message().is_some();
            failed(error.error(), is_unsent)
        })
    }

    fn answered(
        self,
        response: Response<Incoming>,
        lease: Option<Lease>,
        is_websocket: bool,
        in_flight: InFlight,
    ) -> Result<Response<Body>, Refused> {
        let status = response.status();
        self.session.tell(Told::Answered { asked: (*self.asked).clone(), status: status.as_u16() });
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return self.upgraded(response, is_websocket, in_flight);
        }
        let (mut parts, inner) = response.into_parts();
        if headers::is_packed_on_its_way(&parts.headers) {
            let message =
                "the host sent its answer in a transfer encoding that nobody had asked for";
            return Err(refusal::upstream(message.to_owned(), Retry::Unsafe));
        }
        let is_packed = headers::is_packed(&parts.headers) && !inner.is_end_stream();
        if is_packed && !self.patterns.is_empty() {
            let message = "the host packed its answer though it was asked not to, so that a secret in it \
                           could not be found";
            return Err(refusal::upstream(message.to_owned(), Retry::Unsafe));
        }
        headers::from_host(&mut parts.headers);
        // The length is of the body that comes, or of the one that would.
        let is_of_none = self.asked.method == "HEAD" || status == StatusCode::NOT_MODIFIED;
        if !is_of_none {
            parts.headers.remove(CONTENT_LENGTH);
        }
        let mut cover = self.cover();
        cover.headers(&mut parts.headers, &**self.session);
        let mut response = Response::new(());
        (*response.status_mut(), *response.headers_mut()) = (status, parts.headers);
        let body = Download {
            inner,
            cover,
            session: Arc::clone(self.session),
            lease,
            trailers: None,
            is_ended: false,
            _in_flight: in_flight,
        };
        // A host may send a body all the same, which HTTP/2 would send on.
        let body = if is_of_none { full(Bytes::new()) } else { body.boxed_unsync() };
        Ok(response.map(|()| body))
    }

    fn cover(&self) -> Cover {
        Cover::new(&self.patterns, &self.asked)
    }

    /// From here on it is a WebSocket, whose bytes go through once the answer is written.
    fn upgraded(
        self,
        mut response: Response<Incoming>,
        is_websocket: bool,
        in_flight: InFlight,
    ) -> Result<Response<Body>, Refused> {
        if !is_websocket {
            let message = "the host changed to another protocol though nobody had asked";
            return Err(refusal::upstream(message.to_owned(), Retry::Unsafe));
        }
        let upgraded = hyper::upgrade::on(&mut response);
        let (mut parts, _) = response.into_parts();
        headers::from_host(&mut parts.headers);
        parts.headers.remove(CONTENT_LENGTH);
        let mut cover = self.cover();
        cover.headers(&mut parts.headers, &**self.session);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let upgrade =
            Upgrade { upgraded, cover, session: Arc::clone(self.session), _in_flight: in_flight };
        *self.exchange.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = parts.headers;
        Ok(response)
    }
}

/// A request but for its body.
#[derive(Clone)]
struct Head {
    method: Method,
    path: String,
    headers: HeaderMap,
    framing: Framing,
}

/// How the length of a body is said.
#[derive(Clone, Copy)]
enum Framing {
    None,
    Length(u64),
    Chunked,
}

impl Head {
    /// Whether it may be sent twice, whatever came of the first time.
    fn is_safe(&self) -> bool {
        [Method::GET, Method::HEAD, Method::OPTIONS].contains(&self.method)
    }

    /// Written for a site.
    fn request(
        mut self,
        site: &Site,
        is_http2: bool,
        body: Body,
    ) -> Result<Request<Body>, Refused> {
        let default_port = if site.is_tls { 443 } else { 80 };
        let authority = match site.port == default_port {
            true => site.host.to_string(),
            false => format!("{}:{}", site.host, site.port),
        };
        let uri = match is_http2 {
            true => format!("https://{authority}{}", self.path),
            false => self.path,
        };
        let malformed = || refusal::malformed("the address of the request is not well-formed");
        let uri = Uri::try_from(uri).map_err(|_| malformed())?;
        if is_http2 {
            // These are of HTTP/1.1 alone.
            self.headers.remove(HOST);
        } else {
            let host = HeaderValue::try_from(authority).map_err(|_| malformed())?;
            self.headers.insert(HOST, host);
            self.headers.remove(TE);
            // hyper sends no body with a GET if it is not said that there is one.
            match self.framing {
                Framing::None => {}
                Framing::Length(length) => drop(self.headers.insert(CONTENT_LENGTH, length.into())),
                Framing::Chunked => {
                    let chunked = HeaderValue::from_static("chunked");
                    self.headers.insert(TRANSFER_ENCODING, chunked);
                }
            }
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.version_mut() = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        *request.headers_mut() = self.headers;
        Ok(request)
    }
}

/// Whether a connection was closed before an answer began.
fn is_gone(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed()
}

fn failed(error: &hyper::Error, is_unsent: bool) -> Refused {
    let retry = if is_unsent { Retry::Safe } else { Retry::Unsafe };
    refusal::upstream(format!("the host did not answer as HTTP has it: {error}"), retry)
}
