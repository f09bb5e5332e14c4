//! Names of a server and of its previews, as clients write them in `Host`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Longest name, in bytes (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Longest part of one between dots.
const LABEL_BYTES_MAX: usize = 63;

/// A DNS name, in lower case and without a final dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsName(String);

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("a server answers to its addresses anyhow")]
    Address,
    #[error("write a DNS name, as in sandboxes.example.com, without scheme, port or *")]
    NotAName,
}

impl FromStr for DnsName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(NameError::Address);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(is_inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) {
            return Err(NameError::NotAName);
        }
        Ok(Self(name))
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DnsName {
    /// Whether it is directly or further below another one.
    pub(super) fn is_below(&self, domain: &Self) -> bool {
        self.0.strip_suffix(&domain.0).is_some_and(|rest| rest.ends_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_scheme_and_no_port() {
        for (text, name) in [
            ("localhost", "localhost"),
            ("Box.Example.com.", "box.example.com"),
            ("a-1_b", "a-1_b"),
        ] {
            assert_eq!(text.parse::<DnsName>().unwrap().to_string(), name);
        }
        let long = "x".repeat(64);
        for text in
            ["", ".", "a..b", "-a", "a-", "*.a", "http://a", "a:80", "a/b", "a b", "ü", &long]
        {
            assert_eq!(text.parse::<DnsName>(), Err(NameError::NotAName), "{text:?}");
        }
        for text in ["127.0.0.1", "::1", "[::1]"] {
            assert_eq!(text.parse::<DnsName>(), Err(NameError::Address), "{text:?}");
        }
    }

    #[test]
    fn what_is_below_a_domain_is_told_by_whole_labels() {
        let name = |text: &str| text.parse::<DnsName>().unwrap();
        assert!(name("api.example.com").is_below(&name("example.com")));
        for other in ["example.com", "notexample.com", "com", "example.com.org"] {
            assert!(!name(other).is_below(&name("example.com")), "{other}");
        }
    }
}
