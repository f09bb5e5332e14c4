//! A refusal in words that somebody inside can act on.

use crate::control::{Denial, Help, Protocol, Rules};
use crate::dial::DialError;
use crate::http::{self, Retry};
use crate::policy::{Reason, Refusal};
use std::borrow::Cow;

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The reason's word, which never changes.
    pub(super) code: &'static str,
    /// What happened.
    pub(super) message: Cow<'static, str>,
    /// The rule that says so.
    pub(super) rule: Option<(usize, usize)>,
    /// What would help.
    pub(super) next_step: Cow<'static, str>,
    /// What the user has to say for that, if the next step is to ask.
    pub(super) asks: Option<Ask>,
}

/// What the user would have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// That this rule allows something.
    Rule(String),
    /// Something else of a policy.
    Policy,
}

/// What was asked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    pub(super) method: Option<&'a str>,
    pub(super) path: Option<&'a str>,
}

/// Longest path that is told of.
const PATH_BYTES_MAX: usize = 512;

/// Longest words that are told: some say what somebody inside or outside has said.
const WORDS_MAX: usize = 1024;

impl Refused {
    /// One without a rule.
    pub(super) fn new(
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
        next_step: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (message, next_step) = (message.into(), next_step.into());
        Self { code, message, rule: None, next_step, asks: None }
    }

    /// The same where the next step is to ask the user for something.
    pub(super) fn asking(self, ask: Ask) -> Self {
        Self { asks: Some(ask), ..self }
    }

    /// What would help, with the way in which the user does it.
    pub(super) fn advice(&self, rules: &Rules) -> String {
        let how = match (&self.asks, &rules.help) {
            (None, _) | (Some(Ask::Policy), Help::Run) => return self.next_step.to_string(),
            (Some(Ask::Rule(rule)), Help::Run) => {
                format!(
                    "\"{rule}\" in \"allow\" of [network] in a policy file, or --allow-host {rule}"
                )
            }
            (Some(Ask::Rule(rule)), Help::Server { sandbox }) => format!(
                "atoll network add {sandbox} --allow-host {rule}, or \"{rule}\" in \"allow\" of PUT \
                 /v1/sandboxes/{sandbox}/network"
            ),
            (Some(Ask::Policy), Help::Server { sandbox }) => {
                format!("atoll network set {sandbox}, or PUT /v1/sandboxes/{sandbox}/network")
            }
        };
        format!("{}: {how}", self.next_step)
    }

    /// What a policy refuses.
    pub(super) fn by_policy(refusal: Refusal, host: &str) -> Self {
        let next_step = match refusal.reason {
            Reason::NotAllowed => "ask the user to allow it".to_owned(),
            Reason::Denied => "the user refuses this by a rule; do without it".to_owned(),
            Reason::NeedsApproval => {
                "somebody has been asked; try again when it is approved".to_owned()
            }
            Reason::Port => {
                format!("use a port that is allowed, or ask the user to allow {host} with this one")
            }
            Reason::Protocol => {
                "speak the protocol that is allowed there, or ask the user to allow this one"
                    .to_owned()
            }
            Reason::Request => "ask the user to allow this method and path for the host".to_owned(),
            Reason::Literal => {
                "use the host's name, or ask the user to allow its network, as in 10.0.0.0/8"
                    .to_owned()
            }
            Reason::Inside(_) => format!(
                "{host} leads into a network that is not public; ask the user to allow that network"
            ),
            Reason::Path(_) => {
                "write the path plainly, without encoded or doubled parts".to_owned()
            }
        };
        let asks = match refusal.reason {
            Reason::NotAllowed => Some(Ask::Rule(host.to_owned())),
            Reason::Port
            | Reason::Protocol
            | Reason::Request
            | Reason::Literal
            | Reason::Inside(_) => Some(Ask::Policy),
            Reason::Denied | Reason::NeedsApproval | Reason::Path(_) => None,
        };
        Self {
            code: refusal.reason.as_str(),
            message: refusal.reason.to_string().into(),
            rule: refusal.rule,
            next_step: next_step.into(),
            asks,
        }
    }

    /// A host that was allowed and is not reached.
    pub(super) fn by_dial(error: &DialError, host: &str) -> Self {
        if let DialError::Refused(refusal) = error {
            return Self::by_policy(*refusal, host);
        }
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            message += &format!(": {error}");
            cause = error.source();
        }
        Self::new(error.code(), message, "it is allowed, but not reached; try again later")
    }

    /// One that was made where requests are served.
    pub(super) fn of_request(refused: &http::Refused) -> Self {
        Self::new(refused.code, refused.message.clone(), refused.next_step.clone())
    }

    /// As a request is answered.
    pub(super) fn of_http(&self, rules: &Rules) -> http::Refused {
        let (status, retry) = match self.code {
            "budget-requests" | "budget-bytes" | "too-many-connections" => (429, Retry::After),
            "lookup-failed" | "connect-failed" | "upstream-failed" => (502, Retry::Safe),
            _ => (403, Retry::After),
        };
        http::Refused {
            status,
            code: self.code,
            message: self.message.to_string(),
            rule: self.rule.and_then(|rule| rules.text(rule)).map(str::to_owned),
            retry,
            next_step: self.advice(rules),
        }
    }

    /// As the starter is told of it.
    pub(super) fn denial(&self, wanted: &Wanted<'_>, rules: &Rules) -> Denial {
        let path = wanted.path.map(|path| {
            let path = path.split(['?', '#']).next().unwrap_or_default();
            path.chars().take(PATH_BYTES_MAX).collect()
        });
        Denial {
            code: self.code.to_owned(),
            host: wanted.host.to_owned(),
            port: wanted.port,
            protocol: wanted.protocol,
            method: wanted.method.map(|method| method.chars().take(32).collect()),
            path,
            rule: self.rule.and_then(|rule| rules.text(rule)).map(str::to_owned),
            layer: self.rule.map(|(layer, _)| layer),
            message: self.message.chars().take(WORDS_MAX).collect(),
            next_step: self.advice(rules).chars().take(WORDS_MAX).collect(),
            count: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_what_the_user_can_do() {
        let rules = |help| Rules {
            layers: Vec::new(),
            explain: true,
            ipv6: true,
            budgets: crate::control::Budgets::default(),
            secrets: Vec::new(),
            help,
        };
        let run = rules(Help::Run);
        let server = rules(Help::Server { sandbox: "web".to_owned() });
        let by = |reason| Refused::by_policy(Refusal { reason, rule: None }, "a.test");
        let advice = by(Reason::NotAllowed).advice(&run);
        assert!(advice.ends_with("[network] in a policy file, or --allow-host a.test"), "{advice}");
        let advice = by(Reason::NotAllowed).advice(&server);
        assert!(advice.contains("atoll network add web --allow-host a.test"), "{advice}");
        assert!(advice.ends_with("PUT /v1/sandboxes/web/network"), "{advice}");
        assert!(by(Reason::Port).advice(&server).contains("atoll network set web"));
        // What the user has refused, nobody is told how to lift.
        assert!(!by(Reason::Denied).advice(&server).contains("atoll"));
        let said = by(Reason::NotAllowed);
        assert_eq!(said.of_http(&server).next_step, said.advice(&server));
    }
}
