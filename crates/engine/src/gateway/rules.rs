//! From a policy that is understood to what the gateway is told.

use crate::error::chain;
use crate::network::Network;
use crate::secrets::stored_name;
use atoll_api::network::NetworkPolicy;
use atoll_api::policy::NetworkMode;
use atoll_egress::control::{Binding, Budgets, Help, LayerText, RuleText, Rules};
use atoll_egress::gateway::proxy_variables;
use atoll_egress::secret::{Secret, SecretError, carried};
use atoll_jail::host::TRUST;
use atoll_store::secret::Secrets;
use std::collections::BTreeMap;

/// What stands for each secret inside, by its name.
pub(crate) type Placeholders = BTreeMap<String, String>;

/// New ones for all secrets that go along with requests.
pub(crate) fn placeholders(network: &Network) -> Result<Placeholders, SecretError> {
    let named = network.secrets().iter().map(|bound| bound.name.as_str());
    named.map(|name| Ok((name.to_owned(), Secret::placeholder_for(name)?))).collect()
}

/// The rules, with the secrets as they are now. One that is not kept, or that no request can carry,
/// is not sent, and whoever sends its placeholder is refused. Refusals call the sandbox `sandbox`.
pub(crate) fn rules(
    said: &NetworkPolicy,
    network: &Network,
    placeholders: &Placeholders,
    stored: &Secrets,
    sandbox: &str,
) -> Rules {
    let rule = |named: &crate::network::NamedRule| RuleText {
        text: named.rule.to_string(),
        action: named.rule.action,
    };
    let layer =
        LayerText { rules: network.rules().iter().map(rule).collect(), only_narrows: false };
    let layers = match network.mode() {
        NetworkMode::Rules => vec![layer],
        NetworkMode::None => Vec::new(),
    };
    let budgets = &said.budgets;
    Rules {
        layers,
        explain: said.explain,
        ipv6: said.ipv6,
        budgets: Budgets {
            requests_max: budgets.requests_max,
            bytes_max: budgets.bytes_max,
            requests_per_host_max: budgets.requests_per_host_max,
            bytes_per_host_max: budgets.bytes_per_host_max,
        },
        secrets: bindings(network, placeholders, stored),
        help: Help::Server { sandbox: sandbox.to_owned() },
    }
}

fn bindings(network: &Network, placeholders: &Placeholders, stored: &Secrets) -> Vec<Binding> {
    let binding = |bound: &crate::network::BoundSecret| {
        let name = bound.name.as_str();
        let value = match stored.get(&stored_name(&bound.name)) {
            Ok(value) => value?,
            Err(error) => {
                tracing::warn!(secret = name, cause = chain(&error), "a secret cannot be read");
                return None;
            }
        };
        let value = match carried(value.as_bytes(), &bound.form) {
            Ok(value) => value.to_owned(),
            Err(error) => {
                tracing::warn!(secret = name, %error, "a secret cannot go along with requests");
                return None;
            }
        };
        Some(Binding {
            name: name.to_owned(),
            value: value.into(),
            placeholder: placeholders.get(name)?.clone(),
            at: bound.at.iter().map(ToString::to_string).collect(),
            form: bound.form.to_string(),
        })
    };
    network.secrets().iter().filter_map(binding).collect()
}

/// Variables of every command, which lead to the certificates, and to what stands for secrets.
pub(crate) fn variables(
    said: &NetworkPolicy,
    network: &Network,
    placeholders: &Placeholders,
) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> =
        TRUST.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for bound in network.secrets() {
        let held = placeholders.get(bound.name.as_str());
        if let (Some(variable), Some(held)) = (&bound.env, held) {
            variables.push((variable.clone(), held.clone()));
        }
    }
    if said.proxy_variables {
        variables.extend(proxy_variables());
    }
    variables
}
