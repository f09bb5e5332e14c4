//! A refusal in words that somebody inside can act on.

use crate::control::{Denial, Protocol, Rules};
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
        Self { code, message: message.into(), rule: None, next_step: next_step.into() }
    }

    /// What a policy refuses.
    pub(super) fn by_policy(refusal: Refusal, host: &str) -> Self {
        let next_step = match refusal.reason {
            Reason::NotAllowed => format!(
                "ask the user to allow it: \"{host}\" in \"allow\" of the sandbox's network, or of \
                 [network] in a policy file, or --allow-host {host}"
            ),
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
        Self {
            code: refusal.reason.as_str(),
            message: refusal.reason.to_string().into(),
            rule: refusal.rule,
            next_step: next_step.into(),
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
            next_step: self.next_step.to_string(),
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
            next_step: self.next_step.chars().take(WORDS_MAX).collect(),
            count: 1,
        }
    }
}
