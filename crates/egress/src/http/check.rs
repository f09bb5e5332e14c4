//! What hyper does not check of a request: whom it is for, and what it is.

use super::refusal::{self, Refused};
use super::session::{Asked, Site};
use crate::host::Host;
use crate::name::Name;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Version};

/// For whom requests of a connection may be.
#[derive(Debug, Clone)]
pub(super) enum Meant {
    /// One host.
    Site(Site),
    /// Whoever is named, if TLS was not meant for another. Nothing is sent there.
    Anybody { server_name: Option<Name>, port: u16, is_tls: bool },
    /// Whoever is named in the request's first line, as a proxy is asked.
    Proxied,
}

impl Meant {
    const fn is_tls(&self) -> bool {
        match self {
            Self::Site(site) => site.is_tls,
            Self::Anybody { is_tls, .. } => *is_tls,
            Self::Proxied => false,
        }
    }
}

/// What a request asks for, if it is one that can be decided.
pub(super) fn check(request: &Parts, meant: &Meant) -> Result<Asked, Refused> {
    let method = request.method.as_str();
    // A server answers these with what it was sent, secrets too.
    if ["TRACE", "TRACK"].iter().any(|other| other.eq_ignore_ascii_case(method)) {
        return Err(refusal::unsupported("the method TRACE is not sent on"));
    }
    if request.method == Method::CONNECT {
        return Err(refusal::unsupported("this is no proxy, so there is nothing to CONNECT to"));
    }
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    if path == "*" {
        return Err(refusal::unsupported("requests about a whole server are not sent on"));
    }
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refusal::malformed("the path of the request is not well-formed"));
    }
    let is_tls = meant.is_tls();
    let scheme = if is_tls { "https" } else { "http" };
    if request.uri.scheme_str().is_some_and(|named| named != scheme) {
        return Err(refusal::malformed(format!(
            "the request is not for {scheme}, as its connection"
        )));
    }
    let (host, port) = authority(request)?;
    let port = port.unwrap_or(if is_tls { 443 } else { 80 });
    match meant {
        Meant::Site(site) if site.host != host || site.port != port => {
            return Err(refusal::other_host(&host, port, site));
        }
        Meant::Anybody { server_name: Some(name), port: own, .. }
            if Host::Name(name.clone()) != host || port != *own =>
        {
            let site = Site { host: name.clone().into(), port: *own, is_tls };
            return Err(refusal::other_host(&host, port, &site));
        }
        Meant::Proxied if request.uri.authority().is_none() => {
            return Err(refusal::unsupported(
                "this is a proxy: the first line of a request names the whole address",
            ));
        }
        Meant::Site(_) | Meant::Anybody { .. } | Meant::Proxied => {}
    }
    Ok(Asked {
        host,
        port,
        is_tls,
        method: method.to_owned(),
        path_and_query: path.to_owned(),
        is_websocket: is_websocket(request),
        placeholders: Vec::new(),
    })
}

/// Whom the request names, which is one and the same in all places.
fn authority(request: &Parts) -> Result<(Host, Option<u16>), Refused> {
    let mut hosts = request.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let named = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    let is_http2 = request.version == Version::HTTP_2;
    let one = match (host.map(HeaderValue::as_bytes), named) {
        _ if second.is_some() => None,
        (Some(host), None) => Some((host, host)),
        (Some(host), Some(named)) => Some((host, named)),
        (None, Some(named)) if is_http2 => Some((named, named)),
        (None, _) => None,
    };
    let (host, named) =
        one.ok_or_else(|| refusal::malformed("the request has not exactly one Host header"))?;
    let read = |text: &[u8]| {
        let authority = std::str::from_utf8(text).ok().and_then(read_authority);
        authority.ok_or_else(|| refusal::malformed("the request names no host that could be one"))
    };
    let (host, named) = (read(host)?, read(named)?);
    let is_same = host == named;
    is_same.then_some(host).ok_or_else(refusal::two_hosts)
}

/// Reads `host` or `host:port`; nobody's name and password.
pub(super) fn read_authority(text: &str) -> Option<(Host, Option<u16>)> {
    let is_bare = text.ends_with(']') || !text.contains(':');
    if is_bare {
        return Some((Host::from_authority(text)?, None));
    }
    let (host, port) = text.rsplit_once(':')?;
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = is_number.then(|| port.parse().ok()).flatten().filter(|port| *port != 0)?;
    Some((Host::from_authority(host)?, Some(port)))
}

/// Whether it asks for a WebSocket, as RFC 6455 has it.
fn is_websocket(request: &Parts) -> bool {
    let headers = &request.headers;
    request.version == Version::HTTP_11
        && request.method == Method::GET
        && has_token(headers, &CONNECTION, "upgrade")
        && headers
            .get(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers.contains_key(SEC_WEBSOCKET_KEY)
        && headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
}

/// Whether a word is in the list of a header.
pub(super) fn has_token(headers: &HeaderMap, name: &hyper::header::HeaderName, word: &str) -> bool {
    super::headers::tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;
