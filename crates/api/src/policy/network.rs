//! Words and values of `[network]`.
//!
//! Rules are kept as they were written: what they mean is the gateway's to know, and whoever
//! puts a policy into force has it understand them.

use super::document::{List, Located};
use super::value::{Bytes, Limit, ValueError, word_error};
use crate::secret::SecretName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What the sandbox may reach. The order is from widest to strictest.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// What rules allow, through the gateway.
    Rules,
    /// Loopback inside, nothing else.
    None,
}

impl NetworkMode {
    const ALL: [Self; 2] = [Self::None, Self::Rules];

    /// The word for it in documents and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::None => "none",
        }
    }
}

impl FromStr for NetworkMode {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| word_error(text, Self::ALL.into_iter().map(Self::as_str)))
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The list that something about the network stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleList {
    /// Names of presets, which are lists of what is allowed.
    Presets,
    /// What may be reached.
    Allow,
    /// What a person is asked about.
    Ask,
    /// What is refused.
    Deny,
}

impl RuleList {
    /// Its table and key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Presets => "network.presets",
            Self::Allow => "network.allow",
            Self::Ask => "network.ask",
            Self::Deny => "network.deny",
        }
    }
}

/// One item of the lists about the network, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetworkRule {
    /// The list that it stands in.
    pub list: RuleList,
    /// The rule, or the name of the preset.
    pub text: String,
}

/// `[network]`: what may be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSection {
    /// `mode`
    pub mode: Option<Located<NetworkMode>>,
    /// `presets`: names of lists of what is allowed.
    pub presets: Option<List<String>>,
    /// `allow`: rules.
    pub allow: Option<List<String>>,
    /// `ask`: rules.
    pub ask: Option<List<String>>,
    /// `deny`: rules.
    pub deny: Option<List<String>>,
    /// `explain`
    pub explain: Option<Located<bool>>,
    /// `proxy_variables`
    pub proxy_variables: Option<Located<bool>>,
    /// `stand_in`: a network in CIDR form.
    pub stand_in: Option<Located<String>>,
    /// `ipv6`
    pub ipv6: Option<Located<bool>>,
    /// `upstream_proxy`, or nothing when it was taken back.
    pub upstream_proxy: Option<Located<Option<UpstreamProxy>>>,
    /// The four limits.
    pub budgets: BudgetsSection,
    /// `[network.secret.NAME]`, in the order of their names.
    pub secrets: Vec<(SecretName, Located<SecretBinding>)>,
}

/// The limits in `[network]`, each for the whole life of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetsSection {
    /// `requests_max`
    pub requests_max: Option<Located<Limit<u64>>>,
    /// `bytes_max`
    pub bytes_max: Option<Located<Limit<Bytes>>>,
    /// `requests_per_host_max`
    pub requests_per_host_max: Option<Located<Limit<u64>>>,
    /// `bytes_per_host_max`
    pub bytes_per_host_max: Option<Located<Limit<Bytes>>>,
}

impl NetworkSection {
    /// The lists that are written, in the order in which they are shown.
    pub fn lists(&self) -> impl Iterator<Item = (RuleList, &List<String>)> {
        let lists = [
            (RuleList::Presets, &self.presets),
            (RuleList::Allow, &self.allow),
            (RuleList::Ask, &self.ask),
            (RuleList::Deny, &self.deny),
        ];
        lists.into_iter().filter_map(|(list, items)| Some((list, items.as_ref()?)))
    }
}

/// A proxy that the gateway itself goes through.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    /// SOCKS5, or else HTTP with CONNECT.
    pub is_socks5: bool,
    /// Its name or address; IPv6 without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password, as in `ada:secret`.
    pub login: Option<String>,
}

impl FromStr for UpstreamProxy {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (word, rest) = text.split_once("://").ok_or(ValueError::Proxy)?;
        let is_socks5 = match word {
            "http" => false,
            // Names are always looked up by the proxy.
            "socks5" | "socks5h" => true,
            _ => return Err(ValueError::Proxy),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(decode(login).ok_or(ValueError::Proxy)?), place),
            None => (None, rest),
        };
        let (host, port) = place.rsplit_once(':').ok_or(ValueError::Proxy)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                !host.is_empty() && host.bytes().all(is_part)
            }
        };
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0);
        match (is_host, port) {
            (true, Some(port)) => {
                Ok(Self { is_socks5, host: inner.unwrap_or(host).to_owned(), port, login })
            }
            _ => Err(ValueError::Proxy),
        }
    }
}

/// Text with its `%XX` replaced.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits =
                    std::str::from_utf8(&digits).ok().filter(|text| !text.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => byte,
        };
        // A line end would end a header.
        decoded.push(Some(byte).filter(|byte| *byte >= b' ')?);
    }
    String::from_utf8(decoded).ok()
}

impl fmt::Display for UpstreamProxy {
    /// Without the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_socks5 { "socks5" } else { "http" };
        let login = if self.login.is_some() { "***@" } else { "" };
        match self.host.contains(':') {
            true => write!(f, "{word}://{login}[{}]:{}", self.host, self.port),
            false => write!(f, "{word}://{login}{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for UpstreamProxy {
    /// Without the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where files with secrets may be: a place of the sandbox's own, which is gone with its processes and
/// was never on a disk.
pub const SECRET_FILES: &str = "/run/secrets";

/// Whether a file with a secret may be there.
#[must_use]
pub fn is_place_of_secrets(path: &Path) -> bool {
    path.strip_prefix(SECRET_FILES).is_ok_and(|rest| rest != Path::new(""))
}

/// What becomes of a stored secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretBinding {
    /// A placeholder is inside; the gateway puts the value into requests.
    Injected {
        /// Hosts, as rules.
        at: Vec<Located<String>>,
        /// Where in a request.
        used_as: SecretUse,
        /// The variable inside that holds the placeholder.
        env: Option<String>,
    },
    /// The value itself is inside, as a file.
    File(PathBuf),
}

/// Where in a request of HTTP the gateway puts a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretUse {
    /// `authorization: Bearer …`
    Bearer,
    /// `authorization: Basic …` with this user.
    Basic {
        /// The user's name.
        user: String,
    },
    /// A header of this name.
    Header {
        /// Its name, in lower case.
        name: String,
    },
    /// A parameter of the query.
    Query {
        /// Its name.
        name: String,
    },
}

impl FromStr for SecretUse {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let error = || ValueError::SecretUse { text: text.to_owned() };
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        // RFC 9110, section 5.6.2.
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        match (word, rest) {
            ("bearer", None) => Ok(Self::Bearer),
            // The password begins behind the first colon (RFC 7617).
            ("basic", Some(user))
                if !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                match user.contains(':') {
                    true => Err(error()),
                    false => Ok(Self::Basic { user: user.to_owned() }),
                }
            }
            ("header", Some(name)) if !name.is_empty() && name.bytes().all(is_token) => {
                Ok(Self::Header { name: name.to_ascii_lowercase() })
            }
            ("query", Some(name))
                if !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) =>
            {
                Ok(Self::Query { name: name.to_owned() })
            }
            _ => Err(error()),
        }
    }
}

impl fmt::Display for SecretUse {
    /// As it is written; it parses back to the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer => f.write_str("bearer"),
            Self::Basic { user } => write!(f, "basic:{user}"),
            Self::Header { name } => write!(f, "header:{name}"),
            Self::Query { name } => write!(f, "query:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_secret_goes_reads_back() {
        for text in ["bearer", "basic:x-access-token", "header:x-api-key", "query:key"] {
            assert_eq!(text.parse::<SecretUse>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "Bearer",
            "bearer:",
            "basic",
            "basic:a:b",
            "basic:a b",
            "header:",
            "header:a b",
            "header:a\r\nb",
            "query:a=b",
            "query:",
            "cookie:x",
        ] {
            assert!(text.parse::<SecretUse>().is_err(), "{text:?}");
        }
        assert_eq!("header:X-Api-Key".parse(), Ok(SecretUse::Header { name: "x-api-key".into() }));
    }

    #[test]
    fn proxies_are_read_and_their_passwords_not_shown() {
        for (text, shown, login) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128", None),
            ("http://10.0.0.1:80/", "http://10.0.0.1:80", None),
            ("socks5h://[::1]:1080", "socks5://[::1]:1080", None),
            ("http://ada:p%40%3Ass@p:1", "http://***@p:1", Some("ada:p@:ss")),
        ] {
            let proxy: UpstreamProxy = text.parse().unwrap();
            assert_eq!((proxy.to_string().as_str(), proxy.login.as_deref()), (shown, login));
            assert_eq!(format!("{proxy:?}"), shown);
        }
        for text in [
            "",
            "proxy:3128",
            "https://p:1",
            "http://p",
            "http://p:0",
            "http://p:x",
            "http://p:+1",
            "http://:1",
            "http://p:1/x",
            "http://[::1:1",
            "http://[x]:1",
            "http://a b:1",
            "http://u%0d%0a:x@p:1",
            "http://u%4:x@p:1",
            "http://u%+1@p:1",
        ] {
            let error = text.parse::<UpstreamProxy>().unwrap_err();
            assert!(text.is_empty() || !error.to_string().contains(text), "{text}");
        }
    }
}
