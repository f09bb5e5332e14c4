//! What comes of the rules for one name, connection, request or address.

use super::path::{PathError, plain};
use super::rule::{Action, Method, Protocol, Rule, Target};
use crate::address::{Reach, embedded, reach};
use crate::name::Name;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Everything that a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    layers: Vec<Layer>,
}

/// Rules of one origin. None means that nothing may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layer {
    /// With the places that they were given at, the one that decides first.
    rules: Vec<(usize, Rule)>,
    /// What no rule fits is left to the other layers.
    only_narrows: bool,
}

/// Whom a program inside asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host<'a> {
    /// The host of a name.
    Name(&'a Name),
    /// An address that it did not have from us.
    Address(IpAddr),
}

/// What is to be done with a connection before a byte of it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// It is refused, whatever would come.
    Refuse(Refusal),
    /// Bytes pass as they are, if the verdict is so.
    Pass(Verdict),
    /// The first bytes say whether it is TLS or HTTP, and what then is to be asked of
    /// [`Policy::tls`] or [`Policy::request`].
    Look {
        /// Only a request in it can be judged, so TLS must be opened.
        opens_tls: bool,
    },
}

/// What was decided, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What is to be done.
    pub action: Action,
    /// Why it is not simply allowed.
    pub refusal: Option<Refusal>,
    /// The rule that decided, by layer and place in it; none where no rule fits.
    pub rule: Option<(usize, usize)>,
}

/// Why something may not be reached, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Which reason.
    pub reason: Reason,
    /// The rule that says so; none where it is that no rule allows it.
    pub rule: Option<(usize, usize)>,
}

/// Reasons, each with a word that never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No rule allows it.
    #[error("no rule allows it")]
    NotAllowed,
    /// A rule refuses it.
    #[error("a rule refuses it")]
    Denied,
    /// A person is to be asked.
    #[error("it needs somebody's approval")]
    NeedsApproval,
    /// A rule is about other ports of the host.
    #[error("rules allow other ports of this host, but not this one")]
    Port,
    /// A rule is about another protocol.
    #[error("rules allow another protocol at this port of this host")]
    Protocol,
    /// A rule is about other methods or paths.
    #[error("rules allow other requests to this host, but not this one")]
    Request,
    /// An address was asked for that no name led to.
    #[error("an address was used instead of a name, and no rule allows its network")]
    Literal,
    /// A name leads to where only a rule about its network may.
    #[error("the name leads to a {} address, and no rule allows its network", .0.as_str())]
    Inside(Reach),
    /// The path can be read in more than one way.
    #[error("the path of the request can be read in more than one way: {0}")]
    Path(PathError),
}

impl Reason {
    /// A stable word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not-allowed",
            Self::Denied => "denied",
            Self::NeedsApproval => "needs-approval",
            Self::Port => "port-not-allowed",
            Self::Protocol => "protocol-not-allowed",
            Self::Request => "request-not-allowed",
            Self::Literal => "address-not-allowed",
            Self::Inside(_) => "inside-address",
            Self::Path(_) => "ambiguous-path",
        }
    }
}

/// A request of HTTP, as far as rules are about it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path as it came, perhaps with a query.
    pub path: &'a str,
}

/// How far what is asked for is known.
#[derive(Debug, Clone, Copy)]
enum Seen<'a> {
    /// Nothing but the host.
    Host,
    /// Also the port.
    Port(u16),
    /// Also whether it is TLS or plain HTTP, with nothing in it seen.
    Wire { port: u16, is_tls: bool },
    /// A request, in TLS or plain.
    Request { port: u16, is_tls: bool, method: &'a str, path: &'a str },
}

impl Policy {
    /// The rules of all who have a say, the one who may grant the most first.
    #[must_use]
    pub const fn new(layers: Vec<Layer>) -> Self {
        Self { layers }
    }

    /// Whether there is any way to a name, so that it gets an address.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn name(&self, name: &Name) -> Result<(), Refusal> {
        let host = Host::Name(name);
        let fitting = self.layers.iter().flat_map(|layer| layer.fitting(host, Seen::Host));
        let ports: BTreeSet<u16> = fitting.flat_map(|(_, rule)| rule.ports()).collect();
        match ports.into_iter().any(|port| self.some_way(host, port).is_ok()) {
            true => Ok(()),
            false => Err(self.refusal(host, Seen::Host)),
        }
    }

    /// What is to be done with a connection to a port of a host.
    #[must_use]
    pub fn connection(&self, host: Host<'_>, port: u16) -> Connection {
        if let Err(refusal) = self.some_way(host, port) {
            return Connection::Refuse(refusal);
        }
        let passes = |layer: &Layer| {
            let decides = layer.decides(host, Seen::Port(port));
            decides.map_or(layer.only_narrows, |(_, rule)| rule.protocol == Protocol::Tcp)
        };
        if self.layers.iter().all(passes) {
            return Connection::Pass(self.verdict(host, Seen::Port(port)));
        }
        let opens_tls = self.layers.iter().any(|layer| layer.needs_http(host, port));
        Connection::Look { opens_tls }
    }

    /// What is to be done with TLS to a host, of which nothing more is seen.
    #[must_use]
    pub fn tls(&self, host: Host<'_>, port: u16) -> Verdict {
        self.verdict(host, Seen::Wire { port, is_tls: true })
    }

    /// What is to be done with a request, in opened TLS or plain.
    #[must_use]
    pub fn request(
        &self,
        host: Host<'_>,
        port: u16,
        is_tls: bool,
        request: Request<'_>,
    ) -> Verdict {
        let judges_paths = |layer: &Layer| {
            layer.fitting(host, Seen::Port(port)).any(|(_, rule)| rule.path.is_some())
        };
        let path = match plain(request.path) {
            Ok(path) => path,
            Err(error) if self.layers.iter().any(judges_paths) => {
                return Verdict::deny(Reason::Path(error), None);
            }
            // Nobody asks for it.
            Err(_) => String::new(),
        };
        let method = request.method;
        self.verdict(host, Seen::Request { port, is_tls, method, path: &path })
    }

    /// Whether an address may be dialled that the name of a permitted connection led to.
    ///
    /// One that is not public needs a rule of the first layer about its network that allows the
    /// port, and a metadata service one about it alone. No layer may refuse its network.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn dial(&self, address: IpAddr, port: u16) -> Result<(), Refusal> {
        let host = Host::Address(address);
        if let Some(refusal) = self.denial(host, Seen::Port(port)) {
            return Err(refusal);
        }
        let reach = reach(address);
        let grants = |layer: &Layer| {
            layer.decides(host, Seen::Port(port)).is_some_and(|(_, rule)| {
                rule.action == Action::Allow && (reach != Reach::Metadata || is_one(&rule.target))
            })
        };
        match reach {
            Reach::Public => Ok(()),
            Reach::Private | Reach::LinkLocal | Reach::Loopback | Reach::Metadata
                if self.layers.first().is_some_and(grants) =>
            {
                Ok(())
            }
            reach => Err(Refusal { reason: Reason::Inside(reach), rule: None }),
        }
    }

    /// Whether something that is not seen yet could make a way.
    fn some_way(&self, host: Host<'_>, port: u16) -> Result<(), Refusal> {
        let is_way = |layer: &Layer| {
            let fitting = layer.fitting(host, Seen::Port(port));
            // A refusal of everything hides what is less precise.
            let is_wall = |rule: &Rule| rule.action == Action::Deny && is_about_all(rule);
            let mut known =
                fitting.filter(|(_, rule)| rule.action != Action::Deny || is_wall(rule));
            known.next().map_or(layer.only_narrows, |(_, rule)| rule.action != Action::Deny)
        };
        match !self.layers.is_empty() && self.layers.iter().all(is_way) {
            true => Ok(()),
            false => Err(self.refusal(host, Seen::Port(port))),
        }
    }

    /// The strictest word of all layers.
    fn verdict(&self, host: Host<'_>, seen: Seen<'_>) -> Verdict {
        let mut strictest: Option<Verdict> = None;
        for (number, layer) in self.layers.iter().enumerate() {
            let Some((place, rule)) = layer.decides(host, seen) else {
                if layer.only_narrows {
                    continue;
                }
                let Refusal { reason, rule } = self.refusal(host, seen);
                return Verdict::deny(reason, rule);
            };
            if strictest.as_ref().is_none_or(|known| known.action < rule.action) {
                strictest = Some(Verdict::of(rule.action, (number, place)));
            }
        }
        strictest.unwrap_or_else(|| Verdict::deny(Reason::NotAllowed, None))
    }

    /// The refusal of the first layer that refuses.
    fn denial(&self, host: Host<'_>, seen: Seen<'_>) -> Option<Refusal> {
        self.layers.iter().enumerate().find_map(|(number, layer)| {
            let (place, rule) = layer.decides(host, seen)?;
            let denied = || Refusal { reason: Reason::Denied, rule: Some((number, place)) };
            (rule.action == Action::Deny).then(denied)
        })
    }

    /// Why there is no way: the rule that says so, or what nearly fits.
    fn refusal(&self, host: Host<'_>, seen: Seen<'_>) -> Refusal {
        if let Some(refusal) = self.denial(host, seen) {
            return refusal;
        }
        let allows = |seen| {
            let has = |layer: &Layer| {
                layer.only_narrows
                    || layer.fitting(host, seen).any(|(_, rule)| rule.action != Action::Deny)
            };
            self.layers.iter().all(has)
        };
        let reason = match seen {
            Seen::Request { port, is_tls, .. } if allows(Seen::Wire { port, is_tls }) => {
                Reason::Request
            }
            Seen::Request { port, .. } | Seen::Wire { port, .. } if allows(Seen::Port(port)) => {
                Reason::Protocol
            }
            Seen::Request { .. } | Seen::Wire { .. } | Seen::Port(_) if allows(Seen::Host) => {
                Reason::Port
            }
            Seen::Request { .. } | Seen::Wire { .. } | Seen::Port(_) | Seen::Host => match host {
                Host::Address(_) => Reason::Literal,
                Host::Name(_) => Reason::NotAllowed,
            },
        };
        Refusal { reason, rule: None }
    }
}

impl Layer {
    /// Rules, in any order.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut rules: Vec<_> = rules.into_iter().enumerate().collect();
        rules.sort_by_key(|(_, rule)| Reverse((rule.precision(), rule.action)));
        Self { rules, only_narrows: false }
    }

    /// Rules, in any order, that have no say where none of them fits. It is for layers behind the
    /// first: where no layer has a say, nothing may be reached.
    #[must_use]
    pub fn narrowing(rules: Vec<Rule>) -> Self {
        Self { only_narrows: true, ..Self::new(rules) }
    }

    /// The rules that fit what is seen, with their places, the one that decides first.
    fn fitting(&self, host: Host<'_>, seen: Seen<'_>) -> impl Iterator<Item = (usize, &Rule)> {
        let rules = self.rules.iter().map(|(place, rule)| (*place, rule));
        rules.filter(move |(_, rule)| fits(rule, host, seen))
    }

    /// The rule that decides.
    fn decides(&self, host: Host<'_>, seen: Seen<'_>) -> Option<(usize, &Rule)> {
        self.fitting(host, seen).next()
    }

    /// Whether a request may have to be seen to know what decides.
    fn needs_http(&self, host: Host<'_>, port: u16) -> bool {
        self.fitting(host, Seen::Wire { port, is_tls: true }).any(|(_, rule)| rule.needs_http())
    }
}

impl Verdict {
    const fn deny(reason: Reason, rule: Option<(usize, usize)>) -> Self {
        Self { action: Action::Deny, refusal: Some(Refusal { reason, rule }), rule }
    }

    const fn of(action: Action, rule: (usize, usize)) -> Self {
        let reason = match action {
            Action::Allow => return Self { action, refusal: None, rule: Some(rule) },
            Action::Ask => Reason::NeedsApproval,
            Action::Deny => Reason::Denied,
        };
        let rule = Some(rule);
        Self { action, refusal: Some(Refusal { reason, rule }), rule }
    }
}

/// Whether a rule is about what is seen; what is not seen yet may still speak against it.
fn fits(rule: &Rule, host: Host<'_>, seen: Seen<'_>) -> bool {
    let is_host = match (&rule.target, host) {
        (Target::Name(own), Host::Name(name)) => own == name,
        (Target::Below(parent), Host::Name(name)) => name.is_below(parent),
        (Target::EveryName, Host::Name(_)) => true,
        (Target::Network(network), Host::Address(address)) => {
            // A refusal holds in every spelling of an address, a permission in its own.
            let inner = match address {
                IpAddr::V6(address) if rule.action == Action::Deny => embedded(address),
                IpAddr::V4(_) | IpAddr::V6(_) => None,
            };
            network.contains(&address)
                || inner.is_some_and(|inner| network.contains(&IpAddr::V4(inner)))
        }
        (Target::Network(_), Host::Name(_))
        | (Target::Name(_) | Target::Below(_) | Target::EveryName, Host::Address(_)) => false,
    };
    let is_spoken = match (seen, rule.protocol) {
        (Seen::Host | Seen::Port(_), _) | (_, Protocol::Web | Protocol::Tcp) => true,
        (Seen::Wire { is_tls, .. } | Seen::Request { is_tls, .. }, Protocol::Https) => is_tls,
        (Seen::Wire { is_tls, .. } | Seen::Request { is_tls, .. }, Protocol::Http) => !is_tls,
    };
    let is_port = match seen {
        Seen::Host => true,
        Seen::Port(port) | Seen::Wire { port, .. } | Seen::Request { port, .. } => {
            rule.has_port(port)
        }
    };
    let is_request = match seen {
        Seen::Request { method, path, .. } => {
            // Some servers do not mind the case of a method, which is no way past a refusal.
            let is_own = |own: &Method| match rule.action {
                Action::Deny => own.as_str().eq_ignore_ascii_case(method),
                Action::Allow | Action::Ask => own.as_str() == method,
            };
            let has_method = rule.methods.is_empty() || rule.methods.iter().any(is_own);
            has_method && rule.path.as_ref().is_none_or(|pattern| pattern.fits(path))
        }
        Seen::Host | Seen::Port(_) | Seen::Wire { .. } => true,
    };
    is_host && is_spoken && is_port && is_request
}

/// Whether a rule is about all that can come to one of its ports.
fn is_about_all(rule: &Rule) -> bool {
    !rule.needs_http() && matches!(rule.protocol, Protocol::Web | Protocol::Tcp)
}

/// Whether it is one host alone.
fn is_one(target: &Target) -> bool {
    match target {
        Target::Network(network) => network.prefix_len() == network.max_prefix_len(),
        Target::Name(_) | Target::Below(_) | Target::EveryName => false,
    }
}

#[cfg(test)]
mod tests;
