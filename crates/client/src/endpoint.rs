//! Where a server is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket of this machine.
    Unix(PathBuf),
    /// A host, by its name or address, and a port.
    Tcp {
        /// The host; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// What is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It begins with something else.
    #[error("{text:?} is neither unix:///PATH nor http://HOST:PORT")]
    Scheme {
        /// What it is.
        text: String,
    },
    /// A path that depends on where one is.
    #[error("{text:?} names no absolute path")]
    Relative {
        /// What it is.
        text: String,
    },
    /// No host, no port, or more than that.
    #[error("{text:?} is not http://HOST:PORT")]
    Host {
        /// What it is.
        text: String,
    },
    /// Encryption is for what stands in front of a server.
    #[error("{text:?}: https is not spoken; have a tunnel end on this machine")]
    Https {
        /// What it is.
        text: String,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let owned = || text.to_owned();
        if let Some(path) = text.strip_prefix("unix://") {
            let path = Path::new(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path.to_owned()))
            } else {
                Err(EndpointError::Relative { text: owned() })
            };
        }
        if text.starts_with("https://") {
            return Err(EndpointError::Https { text: owned() });
        }
        let rest = text.strip_prefix("http://");
        let rest = rest.ok_or_else(|| EndpointError::Scheme { text: owned() })?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let wrong = || EndpointError::Host { text: owned() };
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_name(host),
        };
        if !is_host {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: bracketed.unwrap_or(host).to_owned(), port })
    }
}

/// A host's name or IPv4 address: nothing in it can be taken for something else.
fn is_name(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty() && !host.starts_with('-') && host.bytes().all(is_plain)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "http://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "http://{host}:{port}"),
        }
    }
}

impl Endpoint {
    /// What a request says in its `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Unix(_) => "atoll".to_owned(),
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_reads_back() {
        for text in [
            "unix:///run/atoll/atoll.sock",
            "http://127.0.0.1:7070",
            "http://[::1]:7070",
            "http://build-1.example:80",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        let slash: Endpoint = "http://localhost:1/".parse().unwrap();
        assert_eq!(slash.to_string(), "http://localhost:1");
    }

    #[test]
    fn what_is_none_is_told_apart() {
        let error = |text: &str| text.parse::<Endpoint>().unwrap_err();
        for text in ["", "/run/atoll.sock", "127.0.0.1:7070", "ftp://a:1"] {
            assert!(matches!(error(text), EndpointError::Scheme { .. }), "{text}");
        }
        for text in ["unix://", "unix://atoll.sock"] {
            assert!(matches!(error(text), EndpointError::Relative { .. }), "{text}");
        }
        for text in [
            "http://a",
            "http://:1",
            "http://a:0",
            "http://a:65536",
            "http://a:1/v1",
            "http://u@a:1",
            "http://a b:1",
            "http://-a:1",
            "http://::1:7070",
            "http://[a]:1",
        ] {
            assert!(matches!(error(text), EndpointError::Host { .. }), "{text}");
        }
        assert!(matches!(error("https://a:1"), EndpointError::Https { .. }));
    }
}
