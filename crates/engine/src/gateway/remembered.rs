//! What a sandbox may reach, as it is remembered with it.

use super::kept::Kept;
use super::rules::{self, Placeholders};
use crate::error::chain;
use crate::network::{Network, NetworkError, policy};
use crate::secrets::stored_name;
use atoll_api::id::SandboxId;
use atoll_api::network::{NetworkPolicy, NetworkSecret};
use atoll_api::secret::SecretName;
use atoll_egress::control::{Addition, Counts, Rules};
use atoll_egress::gateway::{self, STAND_INS};
use atoll_egress::secret::SecretError;
use atoll_egress::stand_in;
use atoll_egress::tls::{Authority, AuthorityError};
use atoll_store::secret::{Secrets, Value};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A policy with what goes along with it for the sandbox's whole life.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// What was asked for.
    pub policy: NetworkPolicy,
    /// What stands for each secret inside.
    placeholders: Placeholders,
    /// Certificate and key of the sandbox's own authority, in PEM. Nobody else trusts it.
    authority: String,
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Why a sandbox cannot have a network.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// It has no authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// There are no random bytes.
    #[error(transparent)]
    Random(#[from] SecretError),
}

impl Remembered {
    /// For a new sandbox, whose policy is understood.
    pub(crate) fn new(policy: NetworkPolicy, network: &Network) -> Result<Self, PrepareError> {
        let authority = Authority::generate("Atoll sandbox")?.to_pem().to_string();
        Ok(Self { policy, placeholders: rules::placeholders(network)?, authority })
    }

    /// The same with another policy. Secrets that it has already are the same inside.
    pub(crate) fn changed(
        &self,
        policy: NetworkPolicy,
        network: &Network,
    ) -> Result<Self, PrepareError> {
        let mut placeholders = rules::placeholders(network)?;
        for (name, held) in &mut placeholders {
            if let Some(known) = self.placeholders.get(name) {
                held.clone_from(known);
            }
        }
        Ok(Self { policy, placeholders, authority: self.authority.clone() })
    }

    /// What programs inside are to trust.
    pub(crate) fn certificate(&self) -> Option<String> {
        Authority::from_pem(&self.authority).map(|authority| authority.certificate_pem()).ok()
    }

    /// Ports that rules name, for a kernel that cannot capture all of them.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let network = self.understood().ok();
        let rules = network.iter().flat_map(|network| network.rules());
        gateway::ports(rules.map(|named| &named.rule))
    }

    /// Variables of every command.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        match self.understood() {
            Ok(network) => rules::variables(&self.policy, &network, &self.placeholders),
            Err(_) => Vec::new(),
        }
    }

    /// Files inside with the values of secrets.
    pub(crate) fn secret_files(&self) -> impl Iterator<Item = String> {
        self.policy.secrets.iter().filter_map(|secret| secret.file.clone())
    }

    /// The same with the values that the secrets have now. Of one that is not kept, or cannot be
    /// read, there is no file.
    pub(crate) fn secrets(&self, stored: &Secrets) -> Vec<(SecretName, PathBuf, Value)> {
        let of_file = |secret: &NetworkSecret| {
            let path = PathBuf::from(secret.file.as_ref()?);
            let value = match stored.get(&stored_name(&secret.name)) {
                Ok(value) => value,
                Err(error) => {
                    let cause = chain(&error);
                    tracing::warn!(secret = %secret.name, cause, "a secret cannot be read");
                    None
                }
            };
            Some((secret.name.clone(), path, value?))
        };
        self.policy.secrets.iter().filter_map(of_file).collect()
    }

    /// It was understood when it was taken; a later version may see that otherwise.
    fn understood(&self) -> Result<Network, NetworkError> {
        policy(&self.policy)
    }

    /// The rules for the gateway; none that allow anything if they are not understood any more.
    pub(crate) fn rules(&self, stored: &Secrets, sandbox: &str) -> Rules {
        match self.understood() {
            Ok(network) => {
                rules::rules(&self.policy, &network, &self.placeholders, stored, sandbox)
            }
            Err(error) => {
                tracing::error!(%error, "rules are not understood; nothing is reached");
                let none = NetworkPolicy {
                    mode: atoll_api::policy::NetworkMode::None,
                    ..NetworkPolicy::default()
                };
                let network = policy(&none).expect("nothing is understood");
                rules::rules(&none, &network, &self.placeholders, stored, sandbox)
            }
        }
    }

    /// What the gateway is told of the sandbox; its number, its listeners and what it has used
    /// are its keeper's to say.
    pub(crate) fn addition(
        &self,
        id: SandboxId,
        kept: &Kept,
        stored: &Secrets,
        sandbox: &str,
    ) -> Box<Addition> {
        Box::new(Addition {
            sandbox: 0,
            tcp: 0,
            rules: self.rules(stored, sandbox),
            stand_ins: stand_in::Kept { range: STAND_INS, names: kept.names(id) },
            counts: Counts::default(),
            authority: Some(self.authority.clone().into()),
        })
    }
}
