//! What a run has of the network, where rules allow something: the gateway, the certificates that
//! programs inside trust, and the variables that lead them there.

use super::secrets;
use crate::cut::cut;
use crate::error::CliError;
use crate::gateway::desk::Words;
use crate::gateway::{Attached, Gateway, attached, host};
use crate::policy::load::Loaded;
use crate::policy::network::{self, PlacedRule};
use atoll_api::policy::{Network as Said, NetworkMode};
use atoll_egress::control::{
    Addition, Binding, Budgets, Counts, Help, LayerText, Order, RuleText, Rules, Sensitive,
};
use atoll_egress::gateway;
use atoll_egress::policy::Action;
use atoll_egress::tls::Authority;
use atoll_jail::host::TRUST;
use atoll_sys::capture::{Capture, Listeners, Ports};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The network of a run, before there is a sandbox.
#[derive(Debug)]
pub(super) struct Network {
    addition: Box<Addition>,
    begin: Vec<Order>,
    capture: Capture,
    /// The sandbox's own certificate authority, in PEM.
    certificate: String,
    /// Placeholders, by the variable that holds each.
    placeholders: BTreeMap<String, String>,
    /// Programs are told of the gateway as a proxy too.
    tells_of_proxy: bool,
}

impl Network {
    /// What the policy comes to; none where nothing is to be reached.
    pub(super) fn plan(loaded: &Loaded) -> Result<Option<Self>, CliError> {
        let (understood, said) = (&loaded.network, &loaded.merged.policy.network);
        if understood.mode == NetworkMode::None {
            return Ok(None);
        }
        let failed = |error| CliError::new("the network cannot be prepared").because(error);
        let authority = Authority::generate("Atoll sandbox").map_err(failed)?;
        let (secrets, placeholders) = secrets::bindings(understood, said)?;
        let placed = understood.layers.iter().flat_map(|layer| &layer.rules);
        let ports = gateway::ports(placed.map(|placed| &placed.rule));
        let addition = Addition {
            sandbox: attached::SANDBOX,
            tcp: 0,
            rules: rules(understood, said, secrets),
            stand_ins: understood.stand_ins.clone(),
            counts: Counts::default(),
            authority: Some(Sensitive::from(authority.to_pem().to_string())),
        };
        Ok(Some(Self {
            capture: Capture::All(Ports::new(&ports)),
            begin: vec![
                Order::Resolve(host::resolver()?),
                Order::Reach(host::via(said.upstream_proxy.value.as_ref())),
            ],
            addition: Box::new(addition),
            certificate: authority.certificate_pem(),
            placeholders,
            tells_of_proxy: said.proxy_variables.value,
        }))
    }

    /// How the sandbox's network is to be made.
    pub(super) fn capture(&self) -> Capture {
        self.capture
    }

    /// What programs inside are to trust beside what this machine does.
    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Variables that the command gets beside its own: they lead programs to the certificates
    /// that do not look where the system has them.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> =
            TRUST.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        variables.extend(self.placeholders.clone());
        if self.tells_of_proxy {
            variables.extend(gateway::proxy_variables());
        }
        variables
    }

    /// Starts the gateway, in the network of this machine.
    pub(super) fn start(&self) -> Result<Gateway, CliError> {
        Gateway::start()
            .map_err(|error| CliError::new("the gateway cannot be started").because(error))
    }

    /// Has the gateway serve the sandbox. What it asks is asked with these words, if anybody is.
    pub(super) fn attach(
        mut self,
        gateway: Gateway,
        listeners: Listeners,
        words: Option<Words>,
    ) -> Attached {
        self.addition.tcp = listeners.tcp.len();
        Attached::new(gateway, self.begin, self.addition, listeners, words)
    }
}

/// What the questions of a run say of it.
pub(super) fn words(loaded: &Loaded, command: &[OsString]) -> Words {
    let shown: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let placed = loaded.network.layers.iter().enumerate().flat_map(|(number, layer)| {
        let asks = layer.rules.iter().filter(|placed| placed.rule.action == Action::Ask);
        asks.map(move |placed| (number, placed.rule.to_string(), placed.origin.to_string()))
    });
    Words {
        command: cut(&shown.join(" "), COMMAND_CHARS_MAX),
        rules: placed.collect(),
        user_file: loaded.user_file.as_ref().map(|path| path.display().to_string()),
    }
}

/// How much of a command is shown with a question.
const COMMAND_CHARS_MAX: usize = 200;

fn rules(understood: &network::Network, said: &Said, secrets: Vec<Binding>) -> Rules {
    let rule = |placed: &PlacedRule| RuleText {
        text: placed.rule.to_string(),
        action: placed.rule.action,
    };
    let layer = |layer: &network::PlacedLayer| LayerText {
        rules: layer.rules.iter().map(rule).collect(),
        only_narrows: layer.only_narrows,
    };
    let budgets = &said.budgets;
    Rules {
        layers: understood.layers.iter().map(layer).collect(),
        explain: said.explain.value,
        ipv6: said.ipv6.value,
        budgets: Budgets {
            requests_max: budgets.requests_max.value,
            bytes_max: budgets.bytes_max.value.map(|bytes| bytes.0),
            requests_per_host_max: budgets.requests_per_host_max.value,
            bytes_per_host_max: budgets.bytes_per_host_max.value.map(|bytes| bytes.0),
        },
        secrets,
        help: Help::Run,
    }
}
