//! What the policy means for one destination.

mod destination;
#[cfg(test)]
mod tests;

pub(crate) use destination::Destination;

use crate::policy::network::{Network, PlacedLayer, PlacedRule, policy_of};
use crate::policy::show::{ShownOrigin, to_line};
use atoll_api::policy::{self, Level, NetworkMode, Origin, RuleList};
use atoll_egress::policy::{
    Action, Connection, Host, Layer, Policy, Reason, Refusal, Request, Rule, Verdict,
};
use destination::Scheme;
use serde::Serialize;

/// What becomes of a connection, or of a request in it.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    #[serde(flatten)]
    destination: Shown,
    answer: &'static str,
    /// Why not, as the gateway's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<ShownRule>,
    /// What is done with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
    /// Secrets that are put in.
    secrets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step: Option<String>,
}

#[derive(Debug, Serialize)]
struct Shown {
    destination: String,
    host: String,
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
}

#[derive(Debug, Serialize)]
struct ShownRule {
    text: String,
    key: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<&'static str>,
    origin: ShownOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Tls {
    Opened,
    Passed,
}

/// What a policy decides, and how much of it was seen for that.
struct Decided {
    verdict: Verdict,
    tls: Option<Tls>,
}

/// Explains a destination by what is understood, and by what was said.
pub(crate) fn explain(network: &Network, said: &policy::Network, to: &Destination) -> Explanation {
    let secrets: Vec<_> = network.secrets.iter().filter(|secret| to.fits(&secret.at)).collect();
    let mut decided = decide(&policy_of(&network.layers), to, !secrets.is_empty());
    let rule = decided.verdict.rule.and_then(|place| network.rule(place));
    let (answer, code, reason) = match (network.mode, &decided.verdict) {
        (NetworkMode::None, _) => {
            ("deny", Some("network-none"), format!("there is no network ({})", said.mode.origin))
        }
        (NetworkMode::Rules, Verdict { action, refusal, .. }) => {
            let code = refusal.map(|refusal| refusal.reason.as_str());
            (word(*action), code, reason(network, to, &decided.verdict, rule))
        }
    };
    if network.mode == NetworkMode::None || decided.verdict.action == Action::Deny {
        decided.tls = None;
    }
    let gets = |secret: &&_| to.gets(secret, decided.tls);
    let secrets = secrets.into_iter().filter(gets).map(|secret| secret.name.clone()).collect();
    Explanation {
        destination: Shown {
            destination: to.to_string(),
            host: to.host_text(),
            port: to.port,
            method: to.shows_method().then(|| to.method.clone()),
        },
        answer,
        code,
        reason,
        rule: rule.filter(|_| network.mode == NetworkMode::Rules).map(shown),
        tls: decided.tls,
        secrets,
        next_step: next_step(network, &decided.verdict, rule, to),
    }
}

const fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

fn decide(policy: &Policy, to: &Destination, has_secret: bool) -> Decided {
    let (host, port) = (to.host(), to.port);
    let (verdict, tls) = match policy.connection(host, port) {
        Connection::Refuse(refusal) => (refused(refusal), None),
        Connection::Pass(verdict) => (verdict, None),
        Connection::Look { .. } if to.scheme == Scheme::Tcp => {
            (refused(Refusal { reason: Reason::Protocol, rule: None }), None)
        }
        Connection::Look { .. } if !to.is_tls() => {
            (policy.request(host, port, false, to.request()), None)
        }
        Connection::Look { opens_tls } if opens_tls || has_secret => {
            (policy.request(host, port, true, to.request()), Some(Tls::Opened))
        }
        Connection::Look { .. } => (policy.tls(host, port), Some(Tls::Passed)),
    };
    let verdict = match host {
        Host::Address(address) if verdict.action == Action::Allow => {
            policy.dial(address, port).map_or_else(refused, |()| verdict)
        }
        Host::Address(_) | Host::Name(_) => verdict,
    };
    Decided { verdict, tls }
}

fn refused(refusal: Refusal) -> Verdict {
    Verdict { action: Action::Deny, refusal: Some(refusal), rule: refusal.rule }
}

/// Where a rule stands, for people.
fn place(rule: &PlacedRule) -> String {
    let text = rule.rule.to_string();
    match rule.preset {
        Some(preset) => format!("{text:?} of the preset {preset:?} ({})", rule.origin),
        None => format!("{text:?} in {} ({})", rule.list.key(), rule.origin),
    }
}

fn shown(rule: &PlacedRule) -> ShownRule {
    ShownRule {
        text: rule.rule.to_string(),
        key: rule.list.key(),
        preset: rule.preset,
        origin: (&rule.origin).into(),
    }
}

fn reason(
    network: &Network,
    to: &Destination,
    verdict: &Verdict,
    rule: Option<&PlacedRule>,
) -> String {
    match (verdict.refusal, rule) {
        (Some(refusal), None) => match keeper(network, to) {
            Some(keeps) => {
                format!("{}; the project's own file keeps others only ({keeps})", refusal.reason)
            }
            None => refusal.reason.to_string(),
        },
        (_, Some(rule)) => format!("by {}", place(rule)),
        (None, None) => "no rule is against it".to_owned(),
    }
}

/// Where the project's file names what is kept, if it alone is why something is refused.
fn keeper<'a>(network: &'a Network, to: &Destination) -> Option<&'a Origin> {
    let [user, project] = &network.layers[..] else { return None };
    let alone = policy_of(std::slice::from_ref(user));
    let is_given = decide(&alone, to, false).verdict.action != Action::Deny;
    project.keeps.as_ref().filter(|_| is_given)
}

/// What to write for it to be allowed.
fn next_step(
    network: &Network,
    verdict: &Verdict,
    rule: Option<&PlacedRule>,
    to: &Destination,
) -> Option<String> {
    let is_off = network.mode == NetworkMode::None;
    match (verdict.action, rule) {
        (Action::Allow, _) if is_off => {
            return Some("--net rules, or network.mode = \"rules\"".to_owned());
        }
        (Action::Allow, _) => return None,
        (Action::Ask, Some(_)) => return Some("somebody is asked when it is tried".to_owned()),
        (Action::Deny, Some(rule)) => return Some(format!("change {}", place(rule))),
        (Action::Ask | Action::Deny, None) => {}
    }
    let mut rules = to.rules();
    // Who allowed some requests to a host did not mean all of them.
    if verdict.refusal.is_some_and(|refusal| refusal.reason == Reason::Request) {
        rules.reverse();
    }
    let allowing = rules.into_iter().find(|text| {
        let Ok(rule) = Rule::parse(text, Action::Allow) else { return false };
        let origin = Origin { level: Level::Flag, file: None, place: None };
        let placed = PlacedRule { rule, list: RuleList::Allow, preset: None, origin };
        let with = |layer: &PlacedLayer| {
            let mut layer = layer.clone();
            layer.rules.push(placed.clone());
            layer
        };
        let layers: Vec<PlacedLayer> = network.layers.iter().map(with).collect();
        decide(&policy_of(&layers), to, false).verdict.action == Action::Allow
    })?;
    let mode = if is_off { "mode = \"rules\" and " } else { "" };
    let keeper =
        keeper(network, to).map(|keeps| format!("; or change {keeps}")).unwrap_or_default();
    Some(match keeper.is_empty() {
        true => {
            format!("--allow-host {allowing:?}, or under [network]: {mode}allow = [{allowing:?}]")
        }
        false => format!("--allow-host {allowing:?}{keeper}"),
    })
}

impl Destination {
    /// Whether one of these rules is about it, as far as a connection shows.
    fn fits(&self, rules: &[Rule]) -> bool {
        let policy = Policy::new(vec![Layer::new(rules.to_vec())]);
        !matches!(policy.connection(self.host(), self.port), Connection::Refuse(_))
    }

    /// Whether the secret is put in, if TLS is opened.
    fn gets(&self, secret: &crate::policy::network::PlacedSecret, tls: Option<Tls>) -> bool {
        let policy = Policy::new(vec![Layer::new(secret.at.clone())]);
        let verdict = policy.request(self.host(), self.port, true, self.request());
        tls == Some(Tls::Opened) && verdict.action == Action::Allow
    }

    fn request(&self) -> Request<'_> {
        Request { method: &self.method, path: &self.path }
    }
}

impl Explanation {
    /// A few lines for people.
    pub(crate) fn text(&self) -> String {
        let method = self.destination.method.as_ref().map(|method| format!("{method} "));
        let mut text = format!("{}{}\n", method.unwrap_or_default(), self.destination.destination);
        let code = self.code.filter(|_| self.answer == "deny");
        let code = code.map(|code| format!(" [{code}]")).unwrap_or_default();
        text += &format!("reach {:5} {}{code}\n", self.answer, self.reason);
        match self.tls {
            Some(Tls::Opened) => text += "tls   opened, so that requests are seen\n",
            Some(Tls::Passed) => text += "tls   passed as it is, with the name in it checked\n",
            None => {}
        }
        for secret in &self.secrets {
            text += &format!("gets  the secret {secret}\n");
        }
        if let Some(next) = &self.next_step {
            text += &format!("next  {next}\n");
        }
        text
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        to_line(self)
    }
}
