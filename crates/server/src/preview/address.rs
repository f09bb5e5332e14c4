//! How a preview is named: one label of a host name, or one part of a path.
//!
//! `PORT-ID` is a public one and `PORT-ID-TOKEN` a private one. The id is without its
//! prefix, whose underscore no host name may have. That makes 59 characters at most, of the
//! 63 that a label may have (RFC 1035, section 2.3.4).

use atoll_api::id::SandboxId;
use atoll_api::ports::PreviewToken;
use hyper::http::uri::Authority;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A port of a sandbox, and what opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) port: u16,
    pub(crate) id: SandboxId,
    pub(crate) token: Option<PreviewToken>,
}

impl Address {
    /// Reads the one spelling that there is.
    pub(crate) fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('-');
        let port = port(parts.next()?)?;
        let id = [SandboxId::PREFIX, parts.next()?].concat().parse().ok()?;
        let token = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { port, id, token })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.to_string();
        write!(f, "{}-{}", self.port, id.trim_start_matches(SandboxId::PREFIX))?;
        self.token.map_or(Ok(()), |token| write!(f, "-{token}"))
    }
}

/// A port as it is written in addresses and paths, in its one spelling.
pub(crate) fn port(text: &str) -> Option<u16> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_canonical)
}

/// The name in a `Host` or an `:authority`: lower case, without port and final dot.
pub(crate) fn name(host: &str) -> Option<String> {
    let authority = Authority::from_str(host).ok().filter(|_| !host.contains('@'))?;
    let mut name = authority.host().to_ascii_lowercase();
    if name.ends_with('.') {
        name.pop();
    }
    (!name.is_empty()).then_some(name)
}

/// The label of a name directly below `domain`; none if it is not below it, and an empty
/// one if it is further below.
pub(crate) fn label<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let label = name.strip_suffix(domain)?.strip_suffix('.')?;
    Some(if label.contains('.') { "" } else { label })
}

/// Whether a name is an address that was meant as one: no name server could have said so.
pub(crate) fn is_literal(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0001020304050607abff";
    const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn an_address_is_one_label_of_a_host_name() {
        let text = format!("65535-{ID}-{TOKEN}");
        let address = Address::parse(&text).unwrap();
        assert_eq!(address.to_string(), text);
        assert!(text.len() <= 63, "{}", text.len());
        let text = format!("80-{ID}");
        let public = Address::parse(&text).unwrap();
        assert_eq!((public.to_string(), public.token), (text, None));
    }

    #[test]
    fn it_has_one_spelling() {
        for wrong in [
            String::new(),
            "80".to_owned(),
            format!("0-{ID}"),
            format!("080-{ID}"),
            format!("+80-{ID}"),
            format!("65536-{ID}"),
            format!("80-{}", &ID[1..]),
            format!("80-{}", ID.to_uppercase()),
            format!("80-sbx_{ID}"),
            format!("80-{ID}-"),
            format!("80-{ID}-{}", &TOKEN[1..]),
            format!("80-{ID}-{TOKEN}-"),
            format!("80-{ID}-{TOKEN}-x"),
        ] {
            assert_eq!(Address::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_host_is_a_name_and_perhaps_a_port() {
        for (host, expected) in [
            ("localhost:4000", Some("localhost")),
            ("LocalHost", Some("localhost")),
            ("a.b.:80", Some("a.b")),
            ("[::1]:80", Some("[::1]")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("me@localhost", None),
            ("", None),
            (".", None),
            ("a b", None),
            ("a/b", None),
        ] {
            assert_eq!(name(host).as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn what_is_below_the_domain_is_a_preview_and_nothing_else_is() {
        for (name, expected) in [
            ("x.localhost", Some("x")),
            ("x.y.localhost", Some("")),
            (".localhost", Some("")),
            ("localhost", None),
            ("xlocalhost", None),
            ("x.localhost.example", None),
        ] {
            assert_eq!(label(name, "localhost"), expected, "{name}");
        }
        assert!(is_literal("127.0.0.1") && is_literal("[::1]") && is_literal("::1"));
        assert!(!is_literal("127.0.0.1.example") && !is_literal("localhost"));
    }
}
