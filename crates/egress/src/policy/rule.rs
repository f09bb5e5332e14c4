//! One line of a policy about the network.

use super::path::{PathError, PathPattern};
use crate::name::{Name, NameError};
use ipnet::{AddrParseError, IpNet};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A rule: what it is about, and what is to be done.
///
/// Its text form is `[PROTOCOL://][METHOD[,METHOD]@]HOST[:PORT[,PORT]][/PATH]`, as in `pypi.org`,
/// `*.github.com`, `https://api.github.com/repos/**`, `https://GET,HEAD@example.org`,
/// `tcp://db.example.org:5432` or `10.1.0.0/16:443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What is reached.
    pub target: Target,
    /// At which ports.
    pub ports: Ports,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Which methods of HTTP; all if empty.
    pub methods: BTreeSet<Method>,
    /// Which paths; all if none is said.
    pub path: Option<PathPattern>,
    /// What is to be done.
    pub action: Action,
}

/// What a rule does, the mildest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It may be reached.
    Allow,
    /// A person is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// Hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The host of this name.
    Name(Name),
    /// Every host whose name ends in this one, but not the host of it: `*.example.org`.
    Below(Name),
    /// Every host that is named: `*`.
    EveryName,
    /// Every host whose address is in this network, where no name was asked for; and what
    /// names that are allowed may lead to, although it is no public address.
    Network(IpNet),
}

/// Ports of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ports {
    /// Those that the protocol is known by: 443 and 80; of `tcp` none, so that it needs some.
    Usual,
    /// These.
    These(BTreeSet<u16>),
}

/// What is spoken to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TLS, with the name in it, or plain HTTP.
    Web,
    /// TLS alone.
    Https,
    /// Plain HTTP alone.
    Http,
    /// Whatever it is: nothing in it is looked at.
    Tcp,
}

/// A method of HTTP (RFC 9110, section 9), case and all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(String);

/// Why a rule is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing in it.
    #[error("a rule is empty")]
    Empty,
    /// A word in front of `://` that is none.
    #[error("{word:?} is no protocol; there are https, http and tcp")]
    Protocol {
        /// What was written.
        word: String,
    },
    /// Not a host name.
    #[error("{host:?} is no host")]
    Host {
        /// What was written.
        host: String,
        /// Why not.
        source: NameError,
    },
    /// A star elsewhere than alone or in front of the first dot.
    #[error(
        "{host:?} has a \"*\" where it is not understood; there are \"*.example.org\" and \"*\""
    )]
    Star {
        /// What was written.
        host: String,
    },
    /// Not a network.
    #[error("{network:?} is no network")]
    Network {
        /// What was written.
        network: String,
        /// Why not.
        source: AddrParseError,
    },
    /// An address with bits behind its prefix, which is a slip more often than not.
    #[error("{network} has bits behind its prefix; the network is {instead}")]
    Bits {
        /// What was written.
        network: IpNet,
        /// What it is in.
        instead: IpNet,
    },
    /// Not a port.
    #[error("{port:?} is no port; ports are 1 to 65535")]
    Port {
        /// What was written.
        port: String,
    },
    /// `tcp` is known by no port.
    #[error("tcp needs a port, as in \"tcp://{host}:5432\"")]
    NoPort {
        /// The host.
        host: String,
    },
    /// Not a method.
    #[error("{method:?} is no method of HTTP")]
    Method {
        /// What was written.
        method: String,
    },
    /// Nobody looks for a path or a method there.
    #[error("a path or a method needs https or http, of which one is looked at")]
    NotHttp,
    /// Not a path.
    #[error("{path:?} is no path")]
    Path {
        /// What was written.
        path: String,
        /// Why not.
        source: PathError,
    },
}

impl Rule {
    /// Understands the text form of one.
    ///
    /// # Errors
    ///
    /// See [`RuleError`].
    pub fn parse(text: &str, action: Action) -> Result<Self, RuleError> {
        if text.is_empty() {
            return Err(RuleError::Empty);
        }
        let (protocol, rest) = match text.split_once("://") {
            Some((word, rest)) => (word.parse()?, rest),
            None => (Protocol::Web, text),
        };
        // A path may have one too.
        let (methods, rest) = match rest.split_once('@') {
            Some((methods, rest)) if !methods.contains('/') => {
                (methods.split(',').map(str::parse).collect::<Result<_, _>>()?, rest)
            }
            Some(_) | None => (BTreeSet::new(), rest),
        };
        let (target, ports, path) = split(rest)?;
        if protocol == Protocol::Tcp && (path.is_some() || !methods.is_empty()) {
            return Err(RuleError::NotHttp);
        }
        if protocol == Protocol::Tcp && ports == Ports::Usual {
            return Err(RuleError::NoPort { host: target.to_string() });
        }
        Ok(Self { target, ports, protocol, methods, path, action })
    }

    /// Whether it is about more than a connection shows from outside.
    #[must_use]
    pub fn needs_http(&self) -> bool {
        self.path.is_some() || !self.methods.is_empty()
    }

    /// The ports that it is about.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        match (&self.ports, self.protocol) {
            (Ports::These(ports), _) => ports.iter().copied().collect(),
            (Ports::Usual, Protocol::Web) => vec![80, 443],
            (Ports::Usual, Protocol::Https) => vec![443],
            (Ports::Usual, Protocol::Http) => vec![80],
            (Ports::Usual, Protocol::Tcp) => Vec::new(),
        }
    }

    /// Whether it is about this port.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        match (&self.ports, self.protocol) {
            (Ports::These(ports), _) => ports.contains(&port),
            (Ports::Usual, Protocol::Web) => port == 80 || port == 443,
            (Ports::Usual, Protocol::Https) => port == 443,
            (Ports::Usual, Protocol::Http) => port == 80,
            (Ports::Usual, Protocol::Tcp) => false,
        }
    }

    /// How much it says, to be compared with rules that fit the same.
    pub(super) fn precision(&self) -> Precision {
        let target = match &self.target {
            Target::EveryName => (0, 0),
            Target::Below(name) => (1, name.labels()),
            Target::Network(network) => (1, usize::from(network.prefix_len())),
            Target::Name(_) => (2, 0),
        };
        let path = self.path.as_ref().map(PathPattern::precision);
        (target, self.ports != Ports::Usual, path, !self.methods.is_empty())
    }
}

/// Compared part by part.
pub(super) type Precision = ((u8, usize), bool, Option<(usize, usize, bool)>, bool);

type Parts = (Target, Ports, Option<PathPattern>);

/// Understands `HOST[:PORT][/PATH]`, of which the host may be a network with a slash of its own.
fn split(text: &str) -> Result<Parts, RuleError> {
    if let Some((network, rest)) = network(text)? {
        return Ok((Target::Network(network), ports(rest)?, None));
    }
    let (place, path) = match text.find('/') {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    let (host, rest) = match place.find(':') {
        Some(at) => (&place[..at], &place[at..]),
        None => (place, ""),
    };
    let path = path.map(|path| {
        path.parse().map_err(|source| RuleError::Path { path: path.to_owned(), source })
    });
    Ok((host.parse()?, ports(rest)?, path.transpose()?))
}

/// The network that `text` begins with, if it begins with an address; IPv6 is in brackets where
/// a port may follow. And what is behind it.
fn network(text: &str) -> Result<Option<(IpNet, &str)>, RuleError> {
    let (inner, rest) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some(split) => split,
        None if text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok() => (text, ""),
        None => match text.split_once(':') {
            Some((front, _)) => (front, &text[front.len()..]),
            None => (text, ""),
        },
    };
    let address = inner.split('/').next().unwrap_or_default();
    if address.parse::<IpAddr>().is_err() {
        return Ok(None);
    }
    let parsed = match inner.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => inner
            .parse::<IpNet>()
            .map_err(|source| RuleError::Network { network: inner.to_owned(), source })?,
    };
    if parsed.trunc() != parsed {
        return Err(RuleError::Bits { network: parsed, instead: parsed.trunc() });
    }
    Ok(Some((parsed, rest)))
}

fn ports(text: &str) -> Result<Ports, RuleError> {
    let Some(list) = text.strip_prefix(':') else {
        return match text {
            "" => Ok(Ports::Usual),
            _ => Err(RuleError::Port { port: text.to_owned() }),
        };
    };
    let port = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse().ok().filter(|port| is_plain && *port != 0);
        port.ok_or_else(|| RuleError::Port { port: text.to_owned() })
    };
    Ok(Ports::These(list.split(',').map(port).collect::<Result<_, _>>()?))
}

impl FromStr for Target {
    type Err = RuleError;

    fn from_str(host: &str) -> Result<Self, RuleError> {
        if host == "*" {
            return Ok(Self::EveryName);
        }
        let (make, name): (fn(Name) -> Self, &str) = match host.strip_prefix("*.") {
            Some(parent) => (Self::Below, parent),
            None => (Self::Name, host),
        };
        if name.contains('*') {
            return Err(RuleError::Star { host: host.to_owned() });
        }
        name.parse().map(make).map_err(|source| RuleError::Host { host: host.to_owned(), source })
    }
}

impl FromStr for Protocol {
    type Err = RuleError;

    fn from_str(word: &str) -> Result<Self, RuleError> {
        match word {
            "https" => Ok(Self::Https),
            "http" => Ok(Self::Http),
            "tcp" => Ok(Self::Tcp),
            word => Err(RuleError::Protocol { word: word.to_owned() }),
        }
    }
}

impl Method {
    /// All of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Method {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let is_method = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase());
        let method = || is_method.then(|| Self(text.to_owned()));
        method().ok_or_else(|| RuleError::Method { method: text.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::EveryName => f.write_str("*"),
            Self::Network(IpNet::V4(network)) => write!(f, "{network}"),
            Self::Network(IpNet::V6(network)) => write!(f, "[{network}]"),
        }
    }
}

impl fmt::Display for Rule {
    /// The text form, which is understood as the same again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.protocol {
            Protocol::Web => "",
            Protocol::Https => "https://",
            Protocol::Http => "http://",
            Protocol::Tcp => "tcp://",
        })?;
        if !self.methods.is_empty() {
            let methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
            write!(f, "{}@", methods.join(","))?;
        }
        write!(f, "{}", self.target)?;
        if let Ports::These(ports) = &self.ports {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            write!(f, ":{}", ports.join(","))?;
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, "{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text, Action::Allow).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_text_form_comes_back() {
        for text in [
            "pypi.org",
            "*.github.com",
            "*",
            "https://api.github.com/repos/*/issues",
            "https://GET,HEAD@example.org/api/**",
            "https://registry.example.org/@types/**",
            "http://example.org:8080",
            "example.org:443,8443",
            "tcp://db.example.org:5432",
            "10.0.0.0/8",
            "10.1.0.0/16:443",
            "tcp://192.168.1.10/32:22",
            "[fd00::/8]:443",
            "[fd00::1/128]",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        for (text, form) in [
            ("PyPI.org.", "pypi.org"),
            ("192.168.1.10", "192.168.1.10/32"),
            ("fd00::/8", "[fd00::/8]"),
            ("example.org:443,80,443", "example.org:80,443"),
        ] {
            assert_eq!(rule(text).to_string(), form);
        }
    }

    #[test]
    fn slips_are_named() {
        for (text, says) in [
            ("", "empty"),
            ("ftp://example.org", "no protocol"),
            ("HTTPS://example.org", "no protocol"),
            ("git*.example.org", "\"*\""),
            ("*.*.example.org", "\"*\""),
            ("*.", "no host"),
            ("exam ple.org", "no host"),
            ("https://user:pw@example.org", "no method"),
            ("get@example.org", "no method"),
            ("example.org:0", "no port"),
            ("example.org:65536", "no port"),
            ("example.org:+80", "no port"),
            ("example.org:", "no port"),
            ("tcp://example.org", "needs a port"),
            ("tcp://example.org:22/x", "needs https or http"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.0/33", "no network"),
            ("10.0.0.0/8/x", "no network"),
            ("[fd00::/8]x", "no port"),
            ("127.1", "no host"),
            ("example.org/a/../b", "no path"),
        ] {
            let error = Rule::parse(text, Action::Allow).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn ports_are_the_protocols_unless_said() {
        for (text, has, has_not) in [
            ("a.b", &[443, 80][..], &[22, 25, 8443, 6379][..]),
            ("https://a.b", &[443], &[80]),
            ("http://a.b", &[80], &[443]),
            ("a.b:8443", &[8443], &[443, 80]),
            ("tcp://a.b:22", &[22], &[443]),
        ] {
            assert!(has.iter().all(|port| rule(text).has_port(*port)), "{text}");
            assert!(!has_not.iter().any(|port| rule(text).has_port(*port)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_understood_comes_back(text in "(https://|http://|tcp://)?(GET,PUT@)?[-a-z0-9.*:/\\[\\],]{0,30}") {
            if let Ok(rule) = Rule::parse(&text, Action::Ask) {
                prop_assert_eq!(Rule::parse(&rule.to_string(), Action::Ask), Ok(rule));
            }
        }
    }
}
