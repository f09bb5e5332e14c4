//! A gateway for one site, on loopback, and the host behind it.

use atoll_egress::host::Host;
use atoll_egress::http::{
    Asked, BoxFuture, Limits, Passage, Refused, Retry, Session, Site, Speaks, Told, serve,
};
use atoll_egress::secret::{Injection, Secret, Secrets};
use atoll_egress::tls::{Authority, First, HelloLimits, Offer, Replayed, Upstream, first, open};
use bytes::Bytes;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};

pub(crate) const NAME: &str = "api.example.org";
pub(crate) const VALUE: &str = "ghp_S3cr3t/With+Odd=Letters";
pub(crate) const PLACEHOLDER: &str = "atoll_TOKEN_0123456789abcdef01";
pub(crate) const OTHER_PLACEHOLDER: &str = "atoll_OTHER_0123456789abcdef01";

/// What a test decides of a request.
#[derive(Clone)]
pub(crate) enum Decided {
    Allow,
    Refuse(Refused),
    /// Somebody is asked who never answers.
    Hold,
}

type Decide = Arc<dyn Fn(&Asked) -> Decided + Send + Sync>;

/// Everything that a session knows.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) site: Site,
    pub(crate) upstream: SocketAddr,
    pub(crate) roots: Arc<Upstream>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) injections: Vec<Injection>,
    pub(crate) decide: Decide,
    pub(crate) seen: Arc<Seen>,
    pub(crate) bytes_max: u64,
}

/// What a session saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) told: Mutex<Vec<Told>>,
    pub(crate) dialled: Mutex<usize>,
    /// Decisions that are waited for, and those whose wait was given up.
    pub(crate) held: Mutex<(usize, usize)>,
    pub(crate) bytes: Mutex<(u64, u64)>,
}

impl Seen {
    pub(crate) fn codes(&self) -> Vec<&'static str> {
        let told = self.told.lock().unwrap();
        let codes = told.iter().filter_map(|told| match told {
            Told::Refused { refused, .. } => Some(refused.code),
            _ => None,
        });
        codes.collect()
    }

    pub(crate) fn used(&self) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|told| matches!(told, Told::Used { .. })).count()
    }

    pub(crate) fn redacted(&self) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|told| matches!(told, Told::Redacted { .. })).count()
    }
}

struct Held(Arc<Seen>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.lock().unwrap().1 += 1;
    }
}

impl Session for Fake {
    fn decide<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<Passage, Refused>> {
        Box::pin(async move {
            self.seen.asked.lock().unwrap().push(asked.clone());
            match (self.decide)(asked) {
                Decided::Allow => {
                    Ok(Passage { injections: self.injections.clone(), redactions: Vec::new() })
                }
                Decided::Refuse(refused) => Err(refused),
                Decided::Hold => {
                    self.seen.held.lock().unwrap().0 += 1;
                    let _held = Held(Arc::clone(&self.seen));
                    std::future::pending().await
                }
            }
        })
    }

    fn dial(&self) -> BoxFuture<'_, Result<TcpStream, Refused>> {
        Box::pin(async {
            *self.seen.dialled.lock().unwrap() += 1;
            TcpStream::connect(self.upstream)
                .await
                .map_err(|error| refused("connect-failed", &error.to_string()))
        })
    }

    fn tls(&self) -> Arc<Upstream> {
        Arc::clone(&self.roots)
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets)
    }

    fn tell(&self, told: Told) {
        self.seen.told.lock().unwrap().push(told);
    }

    fn count(&self, sent: u64, received: u64) -> Result<(), Refused> {
        let mut bytes = self.seen.bytes.lock().unwrap();
        *bytes = (bytes.0 + sent, bytes.1 + received);
        let is_over = bytes.0 + bytes.1 > self.bytes_max;
        if is_over { Err(refused("budget-bytes", "too many bytes")) } else { Ok(()) }
    }
}

pub(crate) fn refused(code: &'static str, message: &str) -> Refused {
    Refused {
        status: if code == "connect-failed" { 502 } else { 403 },
        code,
        message: message.to_owned(),
        rule: Some("deny evil".to_owned()),
        retry: Retry::After,
        next_step: "ask".to_owned(),
    }
}

/// A runtime in a thread of its own, and what it serves.
pub(crate) struct Lab {
    /// Ends the thread when it is dropped.
    _stop: tokio::sync::oneshot::Sender<()>,
    handle: Handle,
    pub(crate) is_tls: bool,
    /// Whom all is about.
    name: Host,
    pub(crate) authority: Arc<Authority>,
    pub(crate) upstream_authority: Arc<Authority>,
}

impl Lab {
    pub(crate) fn new(is_tls: bool) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
            tell.send(runtime.handle().clone()).unwrap();
            drop(runtime.block_on(stopped));
        });
        Self {
            _stop: stop,
            handle: told.recv().unwrap(),
            is_tls,
            name: name(),
            authority: Arc::new(Authority::generate("sandbox").unwrap()),
            upstream_authority: Arc::new(Authority::generate("the world").unwrap()),
        }
    }

    /// One for `localhost`, at whatever port its gateway gets: for clients that cannot be told
    /// where to connect.
    pub(crate) fn local() -> Self {
        Self { name: Host::from_authority("localhost").unwrap(), ..Self::new(true) }
    }

    /// A file with what the sandbox trusts.
    pub(crate) fn trusted(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.authority.certificate_pem()).unwrap();
        file
    }

    pub(crate) fn on<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            tell.send(future.await).ok();
        });
        told.recv_timeout(Duration::from_secs(60)).expect("it ends in time")
    }

    pub(crate) fn listen<F>(&self, each: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.handle.clone();
        self.on(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            handle.spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(each(stream));
                }
            });
            address
        })
    }

    /// A host that answers each request by a function, in whatever HTTP it is asked.
    pub(crate) fn host(&self, answer: Answer) -> SocketAddr {
        let (authority, is_tls) = (Arc::clone(&self.upstream_authority), self.is_tls);
        let name = self.name.clone();
        self.listen(move |stream| {
            let (authority, answer) = (Arc::clone(&authority), Arc::clone(&answer));
            let name = name.clone();
            async move {
                if !is_tls {
                    return speak(stream, false, answer).await;
                }
                if let Ok(opened) = open(stream, &authority, &name).await {
                    speak(opened.stream, opened.is_http2, answer).await;
                }
            }
        })
    }

    /// A host that does with each connection, of which nothing was read, what a test likes.
    pub(crate) fn raw_host<F>(
        &self,
        each: impl Fn(Stream) -> F + Send + Sync + 'static,
    ) -> SocketAddr
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (authority, is_tls, each) =
            (Arc::clone(&self.upstream_authority), self.is_tls, Arc::new(each));
        self.listen(move |stream| {
            let (authority, each) = (Arc::clone(&authority), Arc::clone(&each));
            async move {
                if !is_tls {
                    return each(Box::new(stream)).await;
                }
                let config = authority.server(&name()).unwrap();
                // Without HTTP/2, which a test would have to write by hand.
                let mut config = (*config).clone();
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
                if let Ok(stream) = acceptor.accept(stream).await {
                    each(Box::new(stream)).await;
                }
            }
        })
    }

    pub(crate) fn session(&self, upstream: SocketAddr) -> Fake {
        let roots = self.upstream_authority.certificate_pem().into_bytes();
        Fake {
            site: Site {
                host: self.name.clone(),
                port: if self.is_tls { 443 } else { 80 },
                is_tls: self.is_tls,
            },
            upstream,
            roots: Arc::new(Upstream::new(roots)),
            secrets: Arc::default(),
            injections: Vec::new(),
            decide: Arc::new(|_| Decided::Allow),
            seen: Arc::default(),
            bytes_max: u64::MAX,
        }
    }

    /// A session that puts a secret in, and knows of another that is for somebody else.
    pub(crate) fn with_secret(&self, upstream: SocketAddr, form: &str) -> Fake {
        let secret = Secret::new("TOKEN", VALUE.as_bytes().to_vec(), PLACEHOLDER).unwrap();
        let other = Secret::new("OTHER", b"another value".to_vec(), OTHER_PLACEHOLDER).unwrap();
        let (secret, other) = (Arc::new(secret), Arc::new(other));
        let injection = Injection::new(Arc::clone(&secret), form.parse().unwrap()).unwrap();
        Fake {
            secrets: Arc::new(Secrets::new(vec![secret, other])),
            injections: vec![injection],
            ..self.session(upstream)
        }
    }

    /// The gateway for one session.
    pub(crate) fn gateway(&self, session: &Fake) -> SocketAddr {
        self.gateway_with(session, Limits::default())
    }

    pub(crate) fn gateway_with(&self, session: &Fake, limits: Limits) -> SocketAddr {
        let (authority, session) = (Arc::clone(&self.authority), session.clone());
        self.listen(move |stream| {
            let mut session = session.clone();
            if session.site.host.to_string() == "localhost" {
                session.site.port = stream.local_addr().unwrap().port();
            }
            captured(stream, Arc::clone(&authority), session, limits)
        })
    }

    /// What comes of raw bytes sent to an address, until it closes or is silent for a while.
    pub(crate) fn raw(&self, address: SocketAddr, bytes: impl Into<Vec<u8>>) -> String {
        let (bytes, is_tls) = (bytes.into(), self.is_tls);
        let roots = self.authority.certificate_pem().into_bytes();
        self.on(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            let stream: Stream = match is_tls {
                false => Box::new(stream),
                true => {
                    let roots = Upstream::new(roots);
                    Box::new(roots.connect(stream, &name(), Offer::Http1).await.unwrap().0)
                }
            };
            say(stream, bytes).await
        })
    }
}

/// Goes on with a connection as with one that was captured.
pub(crate) async fn captured(
    mut stream: impl Both + 'static,
    authority: Arc<Authority>,
    session: Fake,
    limits: Limits,
) {
    let Ok(told) = first(&mut stream, &HelloLimits::default()).await else { return };
    let site = session.site.clone();
    match told {
        First::Tls { bytes, .. } => {
            let stream = Replayed::new(bytes, stream);
            let Ok(opened) = open(stream, &authority, &site.host).await else { return };
            let speaks = Speaks::agreed(opened.is_http2);
            serve(opened.stream, speaks, site, Arc::new(session), limits).await;
        }
        First::Other { bytes } => {
            let stream = Replayed::new(bytes, stream);
            serve(stream, Speaks::Either, site, Arc::new(session), limits).await;
        }
        First::Silent => {}
    }
}

pub(crate) trait Both: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Both for T {}
pub(crate) type Stream = Box<dyn Both>;

/// Sends bytes and reads to the end. The bytes ask for the end themselves.
async fn say(mut stream: Stream, bytes: Vec<u8>) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    stream.write_all(&bytes).await.unwrap();
    stream.flush().await.unwrap();
    let mut text = Vec::new();
    // A close without a last word is an end too.
    drop(stream.read_to_end(&mut text).await);
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn name() -> Host {
    Host::from_authority(NAME).unwrap()
}

/// Waits for something to be so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}

pub(crate) type Reply = hyper::Response<Pieces>;
pub(crate) type Answer = Arc<dyn Fn(Request) -> Reply + Send + Sync>;

/// A request as a host got it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authority: Option<String>,
    pub(crate) version: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(own, _)| own == name);
        header.map(|(_, value)| value.as_str())
    }
}

/// A body in pieces, each in a frame of its own.
pub(crate) struct Pieces {
    pub(crate) pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    pub(crate) length: Option<u64>,
    pub(crate) trailers: Option<hyper::HeaderMap>,
}

pub(crate) fn whole(text: impl Into<Bytes>) -> Pieces {
    let text = text.into();
    let length = Some(text.len() as u64);
    Pieces { pieces: Box::new(std::iter::once(text)), length, trailers: None }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = this.pieces.next().map(hyper::body::Frame::data);
        let frame = frame.or_else(|| this.trailers.take().map(hyper::body::Frame::trailers));
        std::task::Poll::Ready(frame.map(Ok))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.length.map(hyper::body::SizeHint::with_exact).unwrap_or_default()
    }
}

async fn speak(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
    answer: Answer,
) {
    use http_body_util::BodyExt as _;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let service =
        hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let answer = Arc::clone(&answer);
            async move {
                let (parts, body) = request.into_parts();
                let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
                    let mut broken = hyper::Response::new(whole("the body broke off"));
                    *broken.status_mut() = hyper::StatusCode::BAD_REQUEST;
                    return Ok(broken);
                };
                let text = |value: &hyper::header::HeaderValue| {
                    String::from_utf8_lossy(value.as_bytes()).into_owned()
                };
                let request = Request {
                    method: parts.method.to_string(),
                    path: parts.uri.path_and_query().map_or("", |path| path.as_str()).to_owned(),
                    authority: parts.uri.authority().map(ToString::to_string),
                    version: format!("{:?}", parts.version),
                    headers: parts
                        .headers
                        .iter()
                        .map(|(name, value)| (name.to_string(), text(value)))
                        .collect(),
                    body,
                };
                let is_head = request.method == "HEAD";
                let mut response = answer(request);
                if is_head {
                    let length = response.body().length.unwrap_or_default();
                    response.headers_mut().insert("content-length", length.into());
                    *response.body_mut() = whole("");
                }
                Ok::<_, Infallible>(response)
            }
        });
    match is_http2 {
        true => {
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(http.serve_connection(TokioIo::new(stream), service).await);
        }
        false => {
            let http = hyper::server::conn::http1::Builder::new();
            drop(http.serve_connection(TokioIo::new(stream), service).await);
        }
    }
}

/// Writes down what it was asked, as lines.
pub(crate) fn echo() -> Answer {
    Arc::new(|request| {
        let mut text = format!("{} {} {}\n", request.method, request.path, request.version);
        if let Some(authority) = &request.authority {
            text += &format!(":authority: {authority}\n");
        }
        for (name, value) in &request.headers {
            text += &format!("{name}: {value}\n");
        }
        text += &format!("\n{}", String::from_utf8_lossy(&request.body));
        hyper::Response::new(whole(text))
    })
}
