//! TLS towards the true host.

use super::{H2, HTTP1, provider};
use crate::host::Host;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// For a handshake, from its start to its end.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(15);

/// Whom true hosts are verified by. No file is read for it.
pub struct Upstream {
    roots_pem: Vec<u8>,
    /// None where there is nobody to trust.
    configs: OnceLock<Result<Option<Configs>, rustls::Error>>,
}

struct Configs {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

/// Which versions of HTTP are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/2 before HTTP/1.1.
    Any,
    /// HTTP/1.1, which alone can be upgraded.
    Http1,
}

/// Why there is no TLS to a host.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody is trusted.
    #[error("no certificate authority is known that the host could be verified by")]
    NoRoots,
    /// The library refuses its own configuration.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
    /// No certificate is about such a name.
    #[error("the host has a name that no certificate can have")]
    Name,
    /// It is not who it should be, or speaks no TLS, or went.
    #[error("the handshake of TLS with the host failed: {0}")]
    Handshake(#[source] io::Error),
    /// It says nothing more.
    #[error("the handshake of TLS with the host took too long")]
    TooSlow,
}

impl Upstream {
    /// Verifies by these certificates, which are read when they are needed first.
    #[must_use]
    pub const fn new(roots_pem: Vec<u8>) -> Self {
        Self { roots_pem, configs: OnceLock::new() }
    }

    /// Connects to `host`, which must prove to be it. Whether HTTP/2 is spoken comes with it.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        host: &Host,
        offer: Offer,
    ) -> Result<(TlsStream<S>, bool), ConnectError> {
        let configs = match self.configs.get_or_init(|| Configs::new(&self.roots_pem)) {
            Ok(Some(configs)) => configs,
            Ok(None) => return Err(ConnectError::NoRoots),
            Err(error) => return Err(ConnectError::Setup(error.clone())),
        };
        let name = server_name(host)?;
        let config = match offer {
            Offer::Any => &configs.any,
            Offer::Http1 => &configs.http1,
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let connected = timeout(HANDSHAKE_WITHIN, connector.connect(name, stream)).await;
        let stream =
            connected.map_err(|_| ConnectError::TooSlow)?.map_err(ConnectError::Handshake)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok((stream, is_http2))
    }
}

impl Configs {
    fn new(roots_pem: &[u8]) -> Result<Option<Self>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(roots_pem).flatten());
        if roots.is_empty() {
            return Ok(None);
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Some(Self { any: offering(&[H2, HTTP1]), http1: offering(&[HTTP1]) }))
    }
}

fn server_name(host: &Host) -> Result<ServerName<'static>, ConnectError> {
    match host {
        Host::Name(name) => name.as_str().to_owned().try_into().map_err(|_| ConnectError::Name),
        Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}
