//! Rules about the network that do nothing, or more than they seem to.

use super::{Network, PlacedLayer, PlacedRule};
use atoll_api::policy::{
    self, Level, NetworkMode, Origin, RuleList, SecretBinding, Warning, WarningKind,
};
use atoll_egress::policy::{Action, Rule, Target, meet, preset, shadowed};

/// What is odd about a network that is understood.
pub(in crate::policy) fn warnings(network: &Network, said: &policy::Network) -> Vec<Warning> {
    let mut odd = Odd(Vec::new());
    for (index, layer) in network.layers.iter().enumerate() {
        odd.shadowed(layer, index == 0);
    }
    let [user, rest @ ..] = &network.layers[..] else { return odd.0 };
    for project in rest {
        odd.kept_for_nothing(user, project);
    }
    odd.each(user);
    odd.off(network, said);
    odd.secrets(user, network, said);
    odd.0
}

struct Odd(Vec<Warning>);

impl Odd {
    fn say(&mut self, origin: &Origin, key: &'static str, text: &str, why: impl Into<String>) {
        let kind = WarningKind::Network { text: text.to_owned(), why: why.into() };
        self.0.push(Warning { origin: origin.clone(), key, kind });
    }

    fn rule(&mut self, placed: &PlacedRule, why: impl Into<String>) {
        self.say(&placed.origin, placed.list.key(), &placed.rule.to_string(), why);
    }

    /// Rules in whose place another one always decides.
    fn shadowed(&mut self, layer: &PlacedLayer, is_first: bool) {
        let rules: Vec<Rule> = layer.rules.iter().map(|placed| placed.rule.clone()).collect();
        for (place, by) in shadowed(&rules) {
            let (Some(placed), Some(by)) = (layer.rules.get(place), layer.rules.get(by)) else {
                continue;
            };
            // What flags say is in both layers.
            let is_told = [placed, by].iter().all(|rule| rule.origin.level == Level::Flag);
            // A preset is taken to be cut down.
            if placed.preset.is_some() || (is_told && !is_first) {
                continue;
            }
            let (key, rule, origin) = (by.list.key(), &by.rule, &by.origin);
            let why = format!("never decides: {key} {:?} ({origin}) does", rule.to_string());
            self.rule(placed, why);
        }
    }

    /// What a project's file names although the user lets nothing of it be reached.
    fn kept_for_nothing(&mut self, user: &PlacedLayer, project: &PlacedLayer) {
        let given = |rule: &Rule| {
            let mut given = user.rules.iter().filter(|given| given.rule.action != Action::Deny);
            given.any(|given| meet(&given.rule, rule))
        };
        for placed in &project.rules {
            let keeps =
                placed.origin.level == Level::Project && placed.rule.action == Action::Allow;
            if keeps && placed.preset.is_none() && !given(&placed.rule) {
                self.rule(placed, "is allowed by no rule of the user's, so it stays refused");
            }
        }
    }

    fn each(&mut self, user: &PlacedLayer) {
        for placed in &user.rules {
            let is_plain = placed.list == RuleList::Allow && !placed.rule.needs_http();
            let text = placed.rule.to_string();
            if is_plain && placed.rule.target == Target::EveryName {
                self.rule(placed, "lets every host be reached, so anything can be sent out");
            } else if placed.preset.is_none() && preset(&text).is_some() {
                self.rule(
                    placed,
                    "is a host here; a preset is named by network.presets or --preset",
                );
            }
        }
    }

    /// Rules where nobody said that there are any.
    fn off(&mut self, network: &Network, said: &policy::Network) {
        let is_unsaid =
            network.mode == NetworkMode::None && said.mode.origin.level == Level::BuiltIn;
        let gives = |rule: &&PlacedRule| rule.rule.action != Action::Deny;
        let first = network.layers.first().and_then(|user| user.rules.iter().find(gives));
        if let Some(first) = first.filter(|_| is_unsaid) {
            let text = first.preset.map_or_else(|| first.rule.to_string(), str::to_owned);
            let why =
                "does nothing while network.mode is \"none\"; write mode = \"rules\" beside it";
            self.say(&first.origin, first.list.key(), &text, why);
        }
    }

    fn secrets(&mut self, user: &PlacedLayer, network: &Network, said: &policy::Network) {
        for secret in &network.secrets {
            for at in &secret.at {
                let mut rules = user.rules.iter().filter(|rule| rule.rule.action != Action::Deny);
                if network.mode == NetworkMode::Rules && !rules.any(|rule| meet(&rule.rule, at)) {
                    let why = format!(
                        "may get the secret {}, but no rule lets it be reached",
                        secret.name
                    );
                    self.say(&secret.origin, "network.secret", &at.to_string(), why);
                }
            }
        }
        for (name, secret) in &said.secrets {
            if matches!(secret.value, SecretBinding::File(_)) {
                let why = "is readable inside, so whatever runs there can send it to any host that it reaches";
                self.say(&secret.origin, "network.secret", name.as_str(), why);
            }
        }
    }
}
