//! What somebody wants to reach, as it is written on a command line.

use crate::error::CliError;
use atoll_egress::name::Name;
use atoll_egress::policy::{Host, Method};
use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;

/// A host with a port, and what is asked of it.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(super) scheme: Scheme,
    to: To,
    pub(super) port: u16,
    pub(super) method: String,
    /// With its query.
    pub(super) path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Https,
    Http,
    Tcp,
    /// A host and a port, and nothing about what is spoken there.
    Unsaid,
}

#[derive(Debug)]
enum To {
    Name(Name),
    Address(IpAddr),
}

impl Destination {
    /// Understands a URL or `HOST:PORT`; nothing else is one. A `HOST:PORT` may be the name of a
    /// file too: then it is the file that is meant.
    pub(crate) fn parse(
        text: &OsStr,
        method: Option<&str>,
        is_file: bool,
    ) -> Result<Option<Self>, CliError> {
        let Some(text) = text.to_str() else { return Ok(None) };
        let (scheme, rest) = match text.split_once("://") {
            Some((word, rest)) => (scheme(word)?, rest),
            None if is_file => return Ok(None),
            None => (Scheme::Unsaid, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(end);
        let is_url = scheme != Scheme::Unsaid;
        let Some((host, port)) = split(place) else {
            return if is_url {
                Err(CliError::new(format!("{place:?} is no host")))
            } else {
                Ok(None)
            };
        };
        let to = match (host.parse::<IpAddr>(), host.parse::<Name>()) {
            (Ok(address), _) => To::Address(address),
            (Err(_), Ok(name)) => To::Name(name),
            (Err(_), Err(_)) if !is_url => return Ok(None),
            (Err(_), Err(error)) => {
                let login = "leave the user and the password out; they are not looked at";
                let told = CliError::new(format!("{host:?} is no host")).because(error);
                return Err(if host.contains('@') { told.hint(login) } else { told });
            }
        };
        let port = match (port, scheme) {
            (Some(port), _) => {
                let number = port.parse().ok().filter(|number| *number != 0);
                match number {
                    Some(number) => number,
                    None if !is_url => return Ok(None),
                    None => return Err(CliError::new(format!("{port:?} is no port"))),
                }
            }
            (None, Scheme::Https) => 443,
            (None, Scheme::Http) => 80,
            (None, Scheme::Tcp) => {
                return Err(CliError::new("tcp needs a port").hint(format!("as in {text}:5432")));
            }
            (None, Scheme::Unsaid) => return Ok(None),
        };
        if !is_url && !path.is_empty() {
            return Ok(None);
        }
        let method = method.unwrap_or("GET");
        method.parse::<Method>().map_err(|error| CliError::new(error.to_string()))?;
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let (method, path) = (method.to_owned(), format!("{slash}{path}"));
        Ok(Some(Self { scheme, to, port, method, path }))
    }

    pub(super) fn host(&self) -> Host<'_> {
        match &self.to {
            To::Name(name) => Host::Name(name),
            To::Address(address) => Host::Address(*address),
        }
    }

    pub(super) fn host_text(&self) -> String {
        match &self.to {
            To::Name(name) => name.to_string(),
            To::Address(address) => address.to_string(),
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        match self.scheme {
            Scheme::Https => true,
            Scheme::Http | Scheme::Tcp => false,
            Scheme::Unsaid => self.port != 80,
        }
    }

    pub(super) fn shows_method(&self) -> bool {
        matches!(self.scheme, Scheme::Https | Scheme::Http)
    }

    /// Texts of rules that may allow it, the widest first.
    pub(super) fn rules(&self) -> Vec<String> {
        let (method, port, path) =
            (&self.method, self.port, self.path.split('?').next().unwrap_or_default());
        let host = match &self.to {
            To::Address(IpAddr::V6(address)) => format!("[{address}]"),
            To::Name(_) | To::Address(_) => self.host_text(),
        };
        match self.scheme {
            Scheme::Tcp => vec![format!("tcp://{host}:{port}")],
            Scheme::Unsaid if port == 443 || port == 80 => {
                vec![host.clone(), format!("{host}:{port}")]
            }
            Scheme::Unsaid => vec![format!("tcp://{host}:{port}")],
            Scheme::Https | Scheme::Http => {
                let (word, usual) = if self.is_tls() { ("https", 443) } else { ("http", 80) };
                let place = if port == usual { host } else { format!("{host}:{port}") };
                let exact = format!("{word}://{method}@{place}{path}");
                vec![format!("{word}://{place}"), format!("{word}://{place}{path}"), exact]
            }
        }
    }
}

fn scheme(word: &str) -> Result<Scheme, CliError> {
    match word {
        "https" | "wss" => Ok(Scheme::Https),
        "http" | "ws" => Ok(Scheme::Http),
        "tcp" => Ok(Scheme::Tcp),
        word => Err(CliError::new(format!("{word:?} is no protocol that rules are about"))
            .hint("write https, http, or tcp with a port")),
    }
}

/// A host and perhaps a port; IPv6 is in brackets.
fn split(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((address, Some(port))),
            None => rest.is_empty().then_some((address, None)),
        };
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        Some(_) | None => (place, None),
    };
    (!host.is_empty()).then_some((host, port))
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.to {
            To::Address(IpAddr::V6(address)) => format!("[{address}]"),
            To::Name(_) | To::Address(_) => self.host_text(),
        };
        let (word, usual, path) = match self.scheme {
            Scheme::Https => ("https://", 443, &*self.path),
            Scheme::Http => ("http://", 80, &*self.path),
            Scheme::Tcp => ("tcp://", 0, ""),
            Scheme::Unsaid => ("", 0, ""),
        };
        match self.port == usual {
            true => write!(f, "{word}{host}{path}"),
            false => write!(f, "{word}{host}:{}{path}", self.port),
        }
    }
}
