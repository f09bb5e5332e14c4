//! What a sandbox may reach, from the API's words to those of the gateway.

use crate::error::hopeless;
use atoll_api::error::{ApiError, ErrorCode};
use atoll_api::key::Scope;
use atoll_api::network::{NetworkPolicy, NetworkSecret};
use atoll_api::policy::NetworkMode;
use atoll_api::secret::SecretName;
use atoll_egress::address::{Reach, reach};
use atoll_egress::policy::{Action, Layer, Policy, Protocol, Rule, RuleError, Target, preset};
use atoll_egress::secret::{CarryError, Form, FormError};
use std::error::Error as _;
use std::net::IpAddr;

/// A policy that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    mode: NetworkMode,
    rules: Vec<NamedRule>,
    secrets: Vec<BoundSecret>,
    has_files: bool,
}

/// A rule and where it stands in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRule {
    /// The rule.
    pub rule: Rule,
    /// The field, as in `network.allow.3`.
    pub field: String,
    /// The preset that it came with.
    pub preset: Option<&'static str>,
}

/// A secret that the gateway puts into requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundSecret {
    /// Its name.
    pub name: SecretName,
    /// Hosts, each of one name, by https alone.
    pub at: Vec<Rule>,
    /// Where in a request.
    pub form: Form,
    /// The variable inside that holds what stands for it.
    pub env: Option<String>,
}

/// Why a policy is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct NetworkError {
    /// The field, as in `network.allow.3`.
    pub field: String,
    /// What is wrong there.
    pub problem: NetworkProblem,
}

/// What is wrong with a part of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkProblem {
    /// Not a rule.
    #[error("{}", in_words(.0))]
    Rule(RuleError),
    /// Not the name of a preset.
    #[error("there is no preset {0:?}")]
    Preset(String),
    /// A secret would go to hosts that are not known, or where others can read it.
    #[error("a secret goes by https alone, to hosts of one name each")]
    SecretHost,
    /// There is none of this name.
    #[error("there is no secret {0}")]
    NoSecret(SecretName),
    /// No request can carry its value so.
    #[error("the secret {name} cannot be used: {why}")]
    Unusable {
        /// Its name.
        name: SecretName,
        /// Why.
        why: CarryError,
    },
    /// No place in a request for a secret.
    #[error(transparent)]
    Form(FormError),
}

/// An error with its cause: the one says which part, the other what is wrong with it.
fn in_words(error: &RuleError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

impl NetworkError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let mut answer = hopeless(ErrorCode::Invalid, self, "correct the field and ask again");
        answer.details.field = Some(self.field.clone());
        answer
    }
}

/// Understands a policy, which has been validated.
///
/// # Errors
/// Gives the first field that is not understood.
pub fn policy(said: &NetworkPolicy) -> Result<Network, NetworkError> {
    let mut rules = Vec::new();
    for (index, name) in said.presets.iter().enumerate() {
        let field = format!("network.presets.{index}");
        let Some(preset) = preset(name) else {
            return Err(NetworkError { field, problem: NetworkProblem::Preset(name.clone()) });
        };
        rules.extend(preset.rules().into_iter().map(|rule| NamedRule {
            rule,
            field: field.clone(),
            preset: Some(preset.name),
        }));
    }
    for (list, texts, action) in [
        ("allow", &said.allow, Action::Allow),
        ("ask", &said.ask, Action::Ask),
        ("deny", &said.deny, Action::Deny),
    ] {
        for (index, text) in texts.iter().enumerate() {
            let field = format!("network.{list}.{index}");
            match Rule::parse(text, action) {
                Ok(rule) => rules.push(NamedRule { rule, field, preset: None }),
                Err(error) => {
                    return Err(NetworkError { field, problem: NetworkProblem::Rule(error) });
                }
            }
        }
    }
    let mut secrets = Vec::new();
    for (index, secret) in said.secrets.iter().enumerate() {
        secrets.extend(bound(secret, &format!("network.secrets.{index}"))?);
    }
    let has_files = said.secrets.iter().any(|secret| secret.file.is_some());
    Ok(Network { mode: said.mode, rules, secrets, has_files })
}

/// The hosts of a secret that goes into requests; nothing if it is a file.
fn bound(secret: &NetworkSecret, field: &str) -> Result<Option<BoundSecret>, NetworkError> {
    let Some(used_as) = &secret.used_as else { return Ok(None) };
    let form = used_as.to_string().parse().map_err(|error| NetworkError {
        field: format!("{field}.as"),
        problem: NetworkProblem::Form(error),
    })?;
    let mut at = Vec::new();
    for (index, text) in secret.at.iter().enumerate() {
        let wrong = |problem| NetworkError { field: format!("{field}.at.{index}"), problem };
        let rule =
            Rule::parse(text, Action::Allow).map_err(|error| wrong(NetworkProblem::Rule(error)))?;
        if !matches!(rule.target, Target::Name(_)) || rule.protocol != Protocol::Https {
            return Err(wrong(NetworkProblem::SecretHost));
        }
        at.push(rule);
    }
    let (name, env) = (secret.name.clone(), secret.env.clone());
    Ok(Some(BoundSecret { name, at, form, env }))
}

impl Network {
    /// Whether there is a network at all.
    pub fn mode(&self) -> NetworkMode {
        self.mode
    }

    /// The rules as the gateway decides by them: one layer, in the order of [`Self::rules`].
    pub fn policy(&self) -> Policy {
        match self.mode {
            NetworkMode::None => Policy::new(Vec::new()),
            NetworkMode::Rules => {
                let rules = self.rules.iter().map(|named| named.rule.clone()).collect();
                Policy::new(vec![Layer::new(rules)])
            }
        }
    }

    /// All rules.
    pub fn rules(&self) -> &[NamedRule] {
        &self.rules
    }

    /// The rule that a decision names by layer and place.
    pub fn rule(&self, (layer, place): (usize, usize)) -> Option<&NamedRule> {
        self.rules.get(place).filter(|_| layer == 0)
    }

    /// Secrets that the gateway puts into requests.
    pub fn secrets(&self) -> &[BoundSecret] {
        &self.secrets
    }

    /// Who may ask for it. Who says where a secret goes can have it, and the networks of the
    /// server's machine are its operator's.
    pub fn scope(&self) -> Scope {
        let reaches_inside = |named: &NamedRule| match &named.rule.target {
            Target::Network(network) => {
                let is_one = network.prefix_len() == network.max_prefix_len();
                let is_public = is_one && is_public(network.addr());
                named.rule.action != Action::Deny && !is_public
            }
            Target::Name(_) | Target::Below(_) | Target::EveryName => false,
        };
        let has_secrets = self.has_files || !self.secrets.is_empty();
        match has_secrets || self.rules.iter().any(reaches_inside) {
            true => Scope::Admin,
            false => Scope::Run,
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    reach(address) == Reach::Public
}

#[cfg(test)]
mod tests;
