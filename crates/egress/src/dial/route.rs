//! From a host that is allowed to a connection to it.

use super::connect::connect;
use super::lookup::{LookupError, Lookups};
use super::proxy::ProxyError;
use crate::control::Via;
use crate::host::Host;
use crate::name::Name;
use crate::policy::{Policy, Refusal};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;

/// How everything outside is reached, for all sandboxes.
#[derive(Debug, Default)]
pub struct Route {
    lookups: Lookups,
    via: Mutex<Arc<Via>>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name was not found.
    #[error("the name could not be looked up")]
    Lookup(#[source] LookupError),
    /// No rule allows any of its addresses.
    #[error("none of its addresses may be reached")]
    Refused(#[source] Refusal),
    /// Nobody answers there.
    #[error("the host could not be connected to")]
    Connect(#[source] io::Error),
    /// The proxy did not do it.
    #[error("the upstream proxy did not connect")]
    Proxy(#[source] ProxyError),
}

impl DialError {
    /// The reason's stable word.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Lookup(_) => "lookup-failed",
            Self::Refused(refusal) => refusal.reason.as_str(),
            Self::Connect(_) | Self::Proxy(_) => "connect-failed",
        }
    }
}

impl Route {
    /// Where names are looked up.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Reaches everything this way from now on.
    pub fn set_via(&self, via: Via) {
        *self.via.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(via);
    }

    /// Connects to a host that `policy` allows.
    ///
    /// Of the addresses of a name only those are tried that the policy allows to be dialled: the
    /// address that is judged is the one that is connected to. Where everything goes by a proxy,
    /// it is the proxy that looks names up, and what it dials is not seen.
    ///
    /// # Errors
    ///
    /// See [`DialError`].
    pub async fn connect(
        &self,
        policy: &Policy,
        host: &Host,
        port: u16,
        ipv6: bool,
    ) -> Result<TcpStream, DialError> {
        let via = self.via.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let addresses = match (host, &*via) {
            (Host::Address(address), _) => vec![*address],
            (Host::Name(name), Via::Direct) => {
                self.lookups.addresses(name, ipv6).await.map_err(DialError::Lookup)?
            }
            (Host::Name(_), Via::Http { .. } | Via::Socks5 { .. }) => Vec::new(),
        };
        let mut refused = None;
        let allowed = |address: &IpAddr| match policy.dial(*address, port) {
            Ok(()) => true,
            Err(refusal) => {
                refused = Some(refusal);
                false
            }
        };
        let addresses: Vec<IpAddr> = addresses.into_iter().filter(allowed).collect();
        if let (true, Some(refusal)) = (addresses.is_empty(), refused) {
            return Err(DialError::Refused(refusal));
        }
        match &*via {
            Via::Direct => connect(&addresses, port).await.map_err(DialError::Connect),
            Via::Http { .. } | Via::Socks5 { .. } => self.reach(&via, host, port).await,
        }
    }

    /// Connects to a host that the user named, which may be anywhere, in this way.
    ///
    /// # Errors
    ///
    /// See [`DialError`]; never that something is refused.
    pub async fn reach(&self, via: &Via, host: &Host, port: u16) -> Result<TcpStream, DialError> {
        match via {
            Via::Direct => {
                let addresses = match host {
                    Host::Address(address) => vec![*address],
                    Host::Name(name) => {
                        self.lookups.addresses(name, true).await.map_err(DialError::Lookup)?
                    }
                };
                connect(&addresses, port).await.map_err(DialError::Connect)
            }
            Via::Http { host: proxy, port: at, login } => {
                let stream = self.proxy(proxy, *at).await?;
                super::proxy::http(stream, host, port, login.as_ref())
                    .await
                    .map_err(DialError::Proxy)
            }
            Via::Socks5 { host: proxy, port: at, login } => {
                let stream = self.proxy(proxy, *at).await?;
                super::proxy::socks5(stream, host, port, login.as_ref())
                    .await
                    .map_err(DialError::Proxy)
            }
        }
    }

    /// A connection to the proxy, which the user named: it may be anywhere.
    async fn proxy(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        let failed = |error| DialError::Proxy(ProxyError::Unreachable(error));
        let addresses = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let name: Name = host.parse().map_err(|error| failed(io::Error::other(error)))?;
                self.lookups.addresses(&name, true).await.map_err(DialError::Lookup)?
            }
        };
        connect(&addresses, port).await.map_err(failed)
    }
}
