//! What the gateway is told to do.

use super::Counts;
use crate::name::Name;
use crate::policy::{Action, Layer, Policy, Rule, RuleError};
use crate::stand_in::Kept;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// One order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Where names are looked up from now on.
    Resolve(Resolver),
    /// How everything outside is reached from now on.
    Reach(Via),
    /// Serves one more sandbox. Its listeners come beside it, those of TCP first.
    Add(Box<Addition>),
    /// Replaces the rules of a sandbox at once. If they cannot be understood it reaches nothing
    /// from then on.
    Change {
        /// Which sandbox.
        sandbox: u64,
        /// All of its rules.
        rules: Rules,
    },
    /// Serves a sandbox no more, breaks off its connections, and says the last word about it,
    /// also if it was not served.
    Remove {
        /// Which sandbox.
        sandbox: u64,
    },
    /// Answers a question.
    Decide {
        /// Whose.
        sandbox: u64,
        /// Which one.
        question: u64,
        /// What was decided.
        decision: Decision,
    },
    /// Asks for what a sandbox has sent and received.
    Count {
        /// Which sandbox.
        sandbox: u64,
    },
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// Its number, which no other sandbox of the same gateway has.
    pub sandbox: u64,
    /// How many of the listeners are of TCP.
    pub tcp: usize,
    /// What it may reach.
    pub rules: Rules,
    /// Addresses that stand for names already.
    pub stand_ins: Kept,
    /// What it has used before, from where it is counted on: budgets are of its whole life.
    #[serde(default)]
    pub counts: Counts,
    /// Certificate and key of its own authority, in PEM; without one no TLS is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Sensitive>,
}

/// What a sandbox may reach, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Layers of rules, the widest first.
    pub layers: Vec<LayerText>,
    /// Names that are refused get an address that says why.
    pub explain: bool,
    /// Addresses of IPv6 are dialled too.
    pub ipv6: bool,
    /// How much may be used.
    #[serde(default)]
    pub budgets: Budgets,
    /// Secrets, and where they may go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Binding>,
    /// How the user allows more, as refusals say.
    #[serde(default)]
    pub help: Help,
}

/// How a user allows more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Help {
    /// By a policy, or by flags of the next run.
    #[default]
    Run,
    /// By the server whose sandbox it is, while it lives.
    Server {
        /// Its name, or its id.
        sandbox: String,
    },
}

/// Rules that stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerText {
    /// The rules, in any order.
    pub rules: Vec<RuleText>,
    /// What none of them fits is left to the other layers.
    pub only_narrows: bool,
}

/// A rule in its text form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// See [`Rule::parse`].
    pub text: String,
    /// What it does.
    pub action: Action,
}

/// Most that a sandbox may use; what is not said is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Requests of HTTP, and other connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u64>,
    /// Bytes in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// The same for each host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_host_max: Option<u64>,
    /// The same for each host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_host_max: Option<u64>,
}

/// A secret with what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// What it is.
    pub value: Sensitive,
    /// What the sandbox has in its place.
    pub placeholder: String,
    /// Rules that fit where it may go: of the protocol https, about one host each.
    pub at: Vec<String>,
    /// How it is sent: `bearer`, `basic:USER`, `header:NAME` or `query:NAME`.
    pub form: String,
}

/// Text that nobody is to see: it is not printed, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sensitive(String);

/// Where names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// Servers, in the order in which they are asked.
    pub servers: Vec<SocketAddr>,
    /// Names that need no server, with their addresses.
    pub hosts: Vec<(Name, Vec<IpAddr>)>,
}

/// How everything outside is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Via {
    /// As it is.
    #[default]
    Direct,
    /// By a proxy that understands CONNECT (RFC 9110, section 9.3.6).
    Http {
        /// Where it is: a name or an address.
        host: String,
        /// At which port.
        port: u16,
        /// User and password, as in `ada:secret`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<Sensitive>,
    },
    /// By a proxy that speaks SOCKS5 (RFC 1928, RFC 1929).
    Socks5 {
        /// Where it is: a name or an address.
        host: String,
        /// At which port.
        port: u16,
        /// User and password, as in `ada:secret`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<Sensitive>,
    },
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// What the question shows may happen: of who waits for that, or comes for that next, one may.
    Once,
    /// The sandbox may, for so many seconds if it is said.
    Allow {
        /// How long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// It may not.
    Deny {
        /// Why, in words for who reads it inside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time.
    Expire,
}

impl Rules {
    /// The policy that the rules come to.
    ///
    /// # Errors
    ///
    /// The text of the first rule that is none, and why.
    pub fn policy(&self) -> Result<Policy, (String, RuleError)> {
        let rule = |rule: &RuleText| {
            Rule::parse(&rule.text, rule.action).map_err(|error| (rule.text.clone(), error))
        };
        let layer = |layer: &LayerText| {
            let rules = layer.rules.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            Ok(if layer.only_narrows { Layer::narrowing(rules) } else { Layer::new(rules) })
        };
        Ok(Policy::new(self.layers.iter().map(layer).collect::<Result<_, _>>()?))
    }

    /// The text of a rule by its place, as [`crate::policy::Refusal::rule`] has it.
    #[must_use]
    pub fn text(&self, (layer, place): (usize, usize)) -> Option<&str> {
        self.layers.get(layer)?.rules.get(place).map(|rule| rule.text.as_str())
    }
}

impl Sensitive {
    /// The text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Sensitive {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl Drop for Sensitive {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}
