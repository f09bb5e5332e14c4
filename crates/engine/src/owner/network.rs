//! The sandbox's way out: opened when it runs, changed while it does, closed with its processes.

use super::Owner;
use super::mailbox::Reply;
use crate::backend::Spec;
use crate::error::{OperationError, chain};
use crate::gateway::OpenError;
use crate::records::Fate;
use atoll_api::audit::AuditKind;
use atoll_api::network::NetworkPolicy;
use atoll_api::sandbox::EventKind;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio::task::spawn_blocking;

impl Owner {
    /// Has the gateway serve it, if it has a network. Until then its connections wait.
    pub(super) async fn open_network(&mut self) -> Result<(), OpenError> {
        let (Some(network), Some(gateway)) =
            (self.record.network.clone(), self.shared.gateway.clone())
        else {
            return Ok(());
        };
        let listeners = self.call(|backend, id| backend.listeners(id)).await;
        let listeners = listeners.map_err(OpenError::Listeners)?.ok_or(OpenError::NotCaptured)?;
        let (id, names) = (self.record.id, self.shared.names.clone());
        let secrets = Arc::clone(&self.shared.oversight.secrets);
        let called = self.record.called();
        let addition = spawn_blocking(move || network.addition(id, &names, &secrets, &called));
        let addition = addition.await.expect("it does not panic");
        gateway.serve(id, addition, listeners).await.map_err(OpenError::Gateway)?;
        self.has_network = true;
        Ok(())
    }

    /// The same where nobody waits for it. Where it fails nothing is reached.
    pub(super) async fn open_network_again(&mut self) {
        if self.has_network {
            return;
        }
        if let Err(error) = self.open_network().await {
            let cause = chain(&error);
            tracing::error!(sandbox = %self.record.id, cause, "its network is closed");
        }
    }

    /// Nobody is served any more.
    pub(super) fn close_network(&mut self) {
        if std::mem::take(&mut self.has_network)
            && let Some(gateway) = &self.shared.gateway
        {
            gateway.leave(self.record.id);
        }
    }

    /// Has the gateway use the secrets as they are now.
    pub(super) async fn renew_secrets(&mut self) {
        let (Some(network), Some(gateway)) = (&self.record.network, &self.shared.gateway) else {
            return;
        };
        if !self.has_network || network.policy.secrets.is_empty() {
            return;
        }
        let rules = network.rules(&self.shared.oversight.secrets, &self.record.called());
        if let Err(error) = gateway.change(self.record.id, rules).await {
            let cause = chain(&error);
            tracing::error!(sandbox = %self.record.id, cause, "its network is closed");
        }
    }

    /// What its backend has to know for a start, with the secrets that are shown inside as they are
    /// now.
    pub(super) async fn spec(&self) -> Spec {
        let mut spec = self.record.spec();
        let network = self.record.network.clone();
        let Some(network) = network.filter(|network| network.secret_files().next().is_some())
        else {
            return spec;
        };
        let stored = Arc::clone(&self.shared.oversight.secrets);
        let secrets = spawn_blocking(move || network.secrets(&stored)).await;
        for (name, path, value) in secrets.expect("it does not panic") {
            let what = AuditKind::SecretShown { name, path: path.to_string_lossy().into_owned() };
            self.shared.oversight.tell(Some(self.record.id), what);
            spec.secrets.push((path, value));
        }
        spec
    }

    /// Tells what it may reach.
    pub(super) fn tell_network(&self, reply: Reply<Option<NetworkPolicy>>) {
        reply.give(Ok(self.record.network.as_ref().map(|network| network.policy.clone())));
    }

    /// Has it reach other things from now on. It is written first.
    pub(super) async fn set_network(
        &mut self,
        policy: NetworkPolicy,
        by: String,
    ) -> Result<NetworkPolicy, OperationError> {
        let id = self.record.id;
        let (tier, capability) = (self.record.tier, "network");
        let Some(gateway) = self.shared.gateway.clone() else {
            return Err(OperationError::Unsupported { id, tier, capability });
        };
        let Some(known) = &self.record.network else {
            return Err(OperationError::NoNetwork { id });
        };
        let understood = crate::engine::network_can_be(&self.shared, &policy)
            .map_err(|source| OperationError::Network { id, source })?;
        let changed = known.changed(policy.clone(), &understood);
        let changed = changed.map_err(|source| OperationError::Prepare { id, source })?;
        let before = self.record.clone();
        let secrets = Arc::clone(&self.shared.oversight.secrets);
        let rules = changed.rules(&secrets, &self.record.called());
        self.record.network = Some(changed);
        if let Err(source) = self.write(EventKind::NetworkSet, Fate::Keep).await {
            self.record = before;
            return Err(OperationError::Records { id, source });
        }
        let text = serde_json::to_vec(&policy).unwrap_or_default();
        let sha256 = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        let what = AuditKind::PolicyChanged { part: "network".to_owned(), sha256, by };
        self.shared.oversight.tell(Some(id), what);
        let taken = gateway.change(id, rules).await;
        taken.map_err(|error| {
            let source = Arc::new(OpenError::Gateway(error));
            OperationError::Gateway { id, source }
        })?;
        Ok(policy)
    }
}
