//! What becomes of one connection.
//!
//! What it is meant for is told by the address that it was made to, and must be said again by
//! what is in it: by the name in TLS, or by the host of a request. Nothing is dialled before
//! that.

use super::addresses::{Meaning, PROXY_PORT, meaning};
use super::explain::{self, Begun};
use super::names;
use super::proxy;
use super::refusal::{Ask, Refused, Wanted};
use super::sandbox::{Sandbox, Settings};
use super::session::Requests;
use crate::control::Protocol;
use crate::host::Host;
use crate::http::{self, Limits, Site, Speaks};
use crate::policy::{Action, Connection, Reason, Verdict};
use crate::relay::{End, relay, reset};
use crate::tls::{First, FirstError, HelloLimits, open};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The port of DNS; questions on it are answered whatever address they were sent to.
const DNS_PORT: u16 = 53;

/// How long a connection waits for an approval: programs give up on a silent handshake soon, some
/// after five seconds.
const HOLD: Duration = Duration::from_secs(4);

/// A connection of a sandbox to a host.
pub(super) struct Way {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
}

impl Way {
    /// As it is told.
    pub(super) fn wanted<'a>(&self, host: &'a str) -> Wanted<'a> {
        Wanted { host, port: self.port, protocol: self.protocol, method: None, path: None }
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(sandbox: &Arc<Sandbox>, stream: TcpStream) {
    let Ok(to) = stream.local_addr() else { return reset(stream) };
    // What is small is not to wait for more; else it is slower, and nothing more.
    stream.set_nodelay(true).ok();
    let port = to.port();
    match meaning(to.ip()) {
        Meaning::Own => reset(stream),
        Meaning::Gateway | Meaning::Explain | Meaning::Host(_) if port == DNS_PORT => {
            names::over_tcp(sandbox, stream).await;
        }
        Meaning::Gateway if port == PROXY_PORT => proxy::serve(sandbox, stream).await,
        Meaning::Gateway => reset(stream),
        Meaning::Explain => explain::name(sandbox, stream, port).await,
        Meaning::Host(address) => {
            let way = Way { host: sandbox.host(address), port, protocol: Protocol::Tcp };
            pass(sandbox, Begun::nothing(stream), way).await;
        }
    }
}

/// Where servers of SSH listen, which git comes by unless it is told otherwise.
const SSH_PORT: u16 = 22;

/// Serves a connection that is meant for a host.
pub(super) async fn pass(sandbox: &Arc<Sandbox>, begun: Begun, way: Way) {
    match sandbox.settings().connection(&way.host, way.port) {
        Connection::Refuse(refusal) => {
            let host = way.host.to_string();
            let mut refused = Refused::by_policy(refusal, &host);
            if refusal.reason == Reason::Port && way.port == SSH_PORT {
                refused.next_step = format!(
                    "take https://{host}/ for git, not SSH; or ask the user to allow \
                     tcp://{host}:{SSH_PORT}"
                )
                .into();
                refused = refused.asking(Ask::Rule(format!("tcp://{host}:{SSH_PORT}")));
            }
            explain::refuse(sandbox, begun, &way, refused).await;
        }
        Connection::Pass(verdict) => through(sandbox, begun, way, &verdict, still_passes).await,
        Connection::Look { opens_tls } => look(sandbox, begun, way, opens_tls).await,
    }
}

/// Serves a connection for which rules are about what is spoken.
async fn look(sandbox: &Arc<Sandbox>, mut begun: Begun, way: Way, opens_tls: bool) {
    let refuse = async |begun, way: Way, refused| {
        explain::refuse(sandbox, begun, &way, refused).await;
    };
    match begun.first(&HelloLimits::default()).await {
        Ok(First::Tls { server_name, .. }) => {
            let way = Way { protocol: Protocol::Tls, ..way };
            let name = server_name.map(Host::Name);
            match (name, &way.host) {
                (Some(name), host) if name == *host => {}
                // Nobody names an address in TLS (RFC 6066, section 3).
                (None, Host::Address(_)) => {}
                (None, Host::Name(_)) => return refuse(begun, way, no_name()).await,
                (Some(name), host) => {
                    let refused = other_name(&name, host);
                    return refuse(begun, way, refused).await;
                }
            }
            match (opens_tls, sandbox.authority()) {
                (false, _) => {
                    let verdict = sandbox.settings().policy.tls(way.host.as_policy(), way.port);
                    through(sandbox, begun, way, &verdict, still_tls).await;
                }
                (true, Some(authority)) => {
                    match open(begun.replayed(), &authority, &way.host).await {
                        Ok(opened) => {
                            let site = Site { host: way.host, port: way.port, is_tls: true };
                            requests(sandbox, opened.stream, Speaks::agreed(opened.is_http2), site)
                                .await;
                        }
                        Err(error) => sandbox.deny(
                            &Refused::new("tls-malformed", error.to_string(), UNTRUSTED),
                            &way.wanted(&way.host.to_string()),
                        ),
                    }
                }
                (true, None) => refuse(begun, way, cannot_open()).await,
            }
        }
        Ok(First::Other { bytes }) if is_http(&bytes) => {
            let site = Site { host: way.host, port: way.port, is_tls: false };
            requests(sandbox, begun.replayed(), Speaks::Either, site).await;
        }
        Ok(First::Other { .. }) => refuse(begun, way, not_known()).await,
        Ok(First::Silent) => refuse(begun, way, silent()).await,
        Err(FirstError::Closed | FirstError::Io(_)) => {}
        Err(error) => {
            let refused =
                Refused::new("tls-malformed", error.to_string(), "speak TLS or HTTP there");
            refuse(begun, way, refused).await;
        }
    }
}

/// Relays a connection without looking into it, if the verdict allows it. `is_still` judges
/// once more when the policy changes.
async fn through(
    sandbox: &Arc<Sandbox>,
    begun: Begun,
    way: Way,
    verdict: &Verdict,
    is_still: fn(&Settings, &Way) -> bool,
) {
    let host = way.host.to_string();
    let permitted = async {
        sandbox.permit(verdict, &way.wanted(&host), HOLD).await?;
        sandbox.begin(&host, way.port, false)?;
        sandbox.dial(&way.host, way.port).await
    };
    let outside = match permitted.await {
        Ok(outside) => outside,
        Err(refused) => return explain::refuse(sandbox, begun, &way, refused).await,
    };
    let (bytes, inside) = begun.into_parts();
    let meter = sandbox.meter(&host);
    let relayed = relay(inside, outside, &bytes, &meter, &sandbox.outside.pipes);
    tokio::select! {
        // First, so that nothing leaves if it is no longer allowed.
        biased;
        // What was relayed is reset.
        () = sandbox.until_not(|settings| is_still(settings, &way)) => {}
        end = relayed => if matches!(end, End::Spent) {
            let refused = Refused::new(
                "budget-bytes",
                "the policy allows no more bytes, and the connection was broken off",
                "ask the user for a larger budget",
            )
            .asking(Ask::Policy);
            sandbox.deny(&refused, &way.wanted(&host));
        },
    }
}

/// Serves the requests on a connection, as long as any can be for its host.
async fn requests<S>(sandbox: &Arc<Sandbox>, stream: S, speaks: Speaks, site: Site)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let way = Way { host: site.host.clone(), port: site.port, protocol: Protocol::Http };
    let session = Arc::new(Requests::new(sandbox.clone(), site.clone()));
    tokio::select! {
        () = http::serve(stream, speaks, site, session, Limits::default()) => {}
        () = sandbox.until_not(|settings| still_looks(settings, &way)) => {}
    }
}

fn still_passes(settings: &Settings, way: &Way) -> bool {
    match settings.connection(&way.host, way.port) {
        Connection::Pass(verdict) => verdict.action != Action::Deny,
        Connection::Refuse(_) | Connection::Look { .. } => false,
    }
}

/// Where TLS is to be opened now, what was passed through is not as it should be.
fn still_tls(settings: &Settings, way: &Way) -> bool {
    match settings.connection(&way.host, way.port) {
        Connection::Look { opens_tls: false } => {
            settings.policy.tls(way.host.as_policy(), way.port).action != Action::Deny
        }
        Connection::Pass(verdict) => verdict.action != Action::Deny,
        Connection::Refuse(_) | Connection::Look { opens_tls: true } => false,
    }
}

fn still_looks(settings: &Settings, way: &Way) -> bool {
    !matches!(settings.connection(&way.host, way.port), Connection::Refuse(_))
}

/// Longest method that is taken for one.
const METHOD_BYTES_MAX: usize = 32;

/// Whether it can be a request, which begins with a method: a word in capitals.
pub(super) fn is_http(bytes: &[u8]) -> bool {
    let method = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_of_method = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
    (1..=METHOD_BYTES_MAX).contains(&method.len()) && method.iter().all(is_of_method)
}

const UNTRUSTED: &str =
    "have the program trust the certificates of the system, or of SSL_CERT_FILE";

fn no_name() -> Refused {
    Refused::new(
        "tls-no-sni",
        "TLS begins without the name of the host, so that nobody can tell whom it is for",
        "use a client that sends the name (SNI), or ask the user for a rule of the form tcp://HOST:PORT",
    )
    .asking(Ask::Policy)
}

fn other_name(name: &Host, host: &Host) -> Refused {
    Refused::new(
        "tls-name-mismatch",
        format!("TLS is for {name}, and the connection for {host}"),
        "connect to the host that is meant",
    )
}

fn cannot_open() -> Refused {
    Refused::new(
        "tls-cannot-be-opened",
        "rules for this host are about requests, and TLS cannot be opened here",
        "ask the user for a rule without a method and a path",
    )
    .asking(Ask::Policy)
}

fn not_known() -> Refused {
    Refused::new(
        "not-tls",
        "what is spoken is neither TLS nor HTTP, and no rule allows anything else there",
        "ask the user for a rule of the form tcp://HOST:PORT",
    )
    .asking(Ask::Policy)
}

fn silent() -> Refused {
    Refused::new(
        "protocol-not-allowed",
        "nothing was said, as by programs that wait for the server, and rules allow TLS or HTTP alone",
        "ask the user for a rule of the form tcp://HOST:PORT",
    )
    .asking(Ask::Policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_from_other_protocols() {
        for http in ["GET / HTTP/1.1\r\n", "G", "M-SEARCH * HTTP/1.1", "PRI * HTTP/2.0"] {
            assert!(is_http(http.as_bytes()), "{http}");
        }
        let long = "A".repeat(100);
        for other in ["", "SSH-2.0-x\r\n", "x", "\0\0\0\x08", " GET", "220 mail", &long] {
            assert!(!is_http(other.as_bytes()), "{other}");
        }
    }
}
