//! Accepts TLS in the place of the host that it is meant for.

use super::{Authority, AuthorityError, H2};
use crate::host::Host;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// For a handshake, from its start to its end.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(15);

/// TLS that was opened.
#[derive(Debug)]
pub struct Opened<S> {
    /// What is in it.
    pub stream: TlsStream<S>,
    /// Whether the client goes on with HTTP/2.
    pub is_http2: bool,
}

/// Why TLS was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no certificate for the host.
    #[error(transparent)]
    Certificate(#[from] AuthorityError),
    /// The client went, or does not trust the certificate, or none of its ciphers is known.
    #[error(
        "the handshake of TLS failed; perhaps the program does not trust the sandbox's certificate authority"
    )]
    Handshake(#[source] io::Error),
    /// The client says nothing more.
    #[error("the handshake of TLS took too long")]
    TooSlow,
    /// It is meant for somebody else.
    #[error("TLS is meant for another host than the connection")]
    Name,
}

/// Accepts TLS with a certificate of `host`.
///
/// # Errors
///
/// See [`OpenError`].
pub async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    authority: &Authority,
    host: &Host,
) -> Result<Opened<S>, OpenError> {
    let acceptor = TlsAcceptor::from(authority.server(host)?);
    let accepted = timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await;
    let stream = accepted.map_err(|_| OpenError::TooSlow)?.map_err(OpenError::Handshake)?;
    let (_, connection) = stream.get_ref();
    let is_own = match (host, connection.server_name()) {
        (Host::Name(name), Some(asked)) => asked.eq_ignore_ascii_case(name.as_str()),
        // Clients name no addresses (RFC 6066, section 3).
        (Host::Name(_) | Host::Address(_), None) => true,
        (Host::Address(_), Some(_)) => false,
    };
    if !is_own {
        return Err(OpenError::Name);
    }
    let is_http2 = connection.alpn_protocol() == Some(H2);
    Ok(Opened { stream, is_http2 })
}
