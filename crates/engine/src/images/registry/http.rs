//! Requests to registries: HTTP/1.1, a connection for each.

use super::Outside;
use super::proxies::Proxies;
use atoll_egress::dial::Route;
use atoll_egress::host::Host;
use atoll_egress::tls::{Offer, Upstream};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// How long it may take to reach a registry, TLS included.
const CONNECT_WITHIN: Duration = Duration::from_secs(8);

/// How long a registry may take to begin an answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long a registry may be silent within an answer.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(20);

/// Most redirects that are followed for one request.
const REDIRECTS_MAX: usize = 5;

/// The ways to registries, and to object stores.
pub(crate) struct Roads {
    pub(crate) route: Route,
    pub(crate) proxies: Proxies,
    pub(crate) tls: Upstream,
}

/// A place that is spoken to by HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Url {
    is_plain: bool,
    authority: String,
    host: String,
    port: u16,
    path: String,
}

/// An answer whose body is still to be read.
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Incoming,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) reason: String,
    /// The next time it may be otherwise.
    pub(crate) may_pass: bool,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("{:?} is no address of it", text.chars().take(200).collect::<String>());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_plain = match uri.scheme_str() {
            Some("http") => true,
            Some("https") => false,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        if authority.as_str().contains('@') {
            return Err(bad());
        }
        let host = uri.host().ok_or_else(bad)?.to_owned();
        let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { is_plain, authority: authority.as_str().to_owned(), host, port, path })
    }
}

impl Failed {
    fn late() -> Self {
        Self { reason: "it does not answer".to_owned(), may_pass: false }
    }
}

impl Url {
    /// What goes into a request's `Host`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The path, without what may be secret in the query.
    pub(super) fn path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Where a redirect leads; never from TLS to none.
    fn join(&self, location: &str) -> Result<Self, String> {
        let scheme = if self.is_plain { "http" } else { "https" };
        let next: Self = if location.starts_with("//") {
            format!("{scheme}:{location}").parse()?
        } else if location.starts_with('/') {
            format!("{scheme}://{}{location}", self.authority).parse()?
        } else {
            location.parse()?
        };
        if next.is_plain && !self.is_plain {
            return Err("it sends us to a place without TLS".to_owned());
        }
        Ok(next)
    }

    fn is_same_place(&self, other: &Self) -> bool {
        (self.is_plain, &self.host, self.port) == (other.is_plain, &other.host, other.port)
    }
}

impl Fetched {
    /// After how long it may be asked again, if it says so in seconds.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}

impl Roads {
    /// Those that there are now.
    pub(crate) fn of(outside: &Outside) -> Self {
        let route = Route::default();
        route.lookups().set((outside.resolver)());
        Self { route, proxies: outside.proxies.clone(), tls: Upstream::new((outside.roots)()) }
    }

    /// Gets something, redirects followed: who we are is said to nobody but the first.
    pub(super) async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<Fetched, Failed> {
        let (mut at, mut headers) = (url.clone(), headers.clone());
        for _ in 0..=REDIRECTS_MAX {
            let fetched = self.get_once(&at, &headers).await?;
            let is_redirect = matches!(fetched.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            let location = fetched.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let (true, Some(location)) = (is_redirect, location) else { return Ok(fetched) };
            let next = at.join(location).map_err(|reason| Failed { reason, may_pass: false })?;
            if !next.is_same_place(url) {
                headers.remove(AUTHORIZATION);
            }
            at = next;
        }
        Err(Failed { reason: "it sends us on and on".to_owned(), may_pass: false })
    }

    /// A connection to it, on which one request can be made.
    pub(crate) async fn open<B>(&self, url: &Url) -> Result<http1::SendRequest<B>, Failed>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = host(&url.host).ok_or_else(|| Failed {
            reason: format!("{:?} is no host", url.host),
            may_pass: false,
        })?;
        let connect = async {
            let via = self.proxies.via(&url.host, url.is_plain);
            let reached = self.route.reach(&via, &host, url.port).await;
            let stream = reached.map_err(|error| failed(&error))?;
            if url.is_plain {
                return begin(stream).await;
            }
            let secured = self.tls.connect(stream, &host, Offer::Http1).await;
            let (secured, _) = secured.map_err(|error| failed(&error))?;
            begin(secured).await
        };
        timeout(CONNECT_WITHIN, connect).await.map_err(|_| Failed::late())?
    }

    async fn get_once(&self, url: &Url, headers: &HeaderMap) -> Result<Fetched, Failed> {
        let mut sender = self.open(url).await?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = url.path.parse().unwrap_or_default();
        *request.headers_mut() = headers.clone();
        let authority = HeaderValue::try_from(&url.authority);
        let headers = request.headers_mut();
        headers.insert(HOST, authority.unwrap_or(HeaderValue::from_static("localhost")));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("atoll/", env!("CARGO_PKG_VERSION"))),
        );
        let answer = timeout(ANSWER_WITHIN, sender.send_request(request)).await;
        let answer = answer.map_err(|_| Failed::late())?;
        let (parts, body) = answer.map_err(|error| failed(&error))?.into_parts();
        Ok(Fetched { status: parts.status, headers: parts.headers, body })
    }
}

async fn begin<S, B>(stream: S) -> Result<http1::SendRequest<B>, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| failed(&error))?;
    tokio::spawn(async move {
        // What is wrong with it, whoever reads from it is told.
        connection.await.ok();
    });
    Ok(sender)
}

fn failed(error: &dyn std::error::Error) -> Failed {
    Failed { reason: crate::error::chain(error), may_pass: true }
}

/// The host of a name or an address; of this machine, its address.
fn host(text: &str) -> Option<Host> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    Host::from_authority(text)
}

/// Reads a whole body, if it is no longer than that.
pub(super) async fn body(mut body: Incoming, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(data) = next(&mut body).await? {
        if bytes.len() as u64 + data.len() as u64 > bytes_max {
            return Err(format!("its answer has more than {bytes_max} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// The next piece of a body.
pub(super) async fn next(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        let frame = timeout(SILENT_MAX, body.frame()).await;
        match frame.map_err(|_| "it says nothing more".to_owned())? {
            None => return Ok(None),
            Some(Err(error)) => return Err(crate::error::chain(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_on_but_never_out_of_tls() {
        let from = |text: &str| text.parse::<Url>().unwrap();
        let secure = from("https://r.example/v2/a");
        let joined = |location: &str| secure.join(location).map(|url| (url.authority, url.path));
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(joined("/x?y"), pair("r.example", "/x?y"));
        assert_eq!(joined("//c.example/x"), pair("c.example", "/x"));
        assert_eq!(joined("https://c.example:8443/x"), pair("c.example:8443", "/x"));
        assert!(joined("http://c.example/x").is_err());
        assert!(from("http://r.example/").join("http://c.example/x").is_ok());
        for bad in ["ftp://a/b", "https://u:p@a/b", "a/b", ""] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
        assert!(secure.is_same_place(&from("https://r.example:443/other")));
        assert!(!secure.is_same_place(&from("https://r.example:444/")));
    }
}
