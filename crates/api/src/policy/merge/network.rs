//! What each level says of the network.

use super::narrow::{narrow_limit, narrow_permission};
use super::{Layer, Merger, quoted, replace, replace_limit};
use crate::policy::document::Located;
use crate::policy::effective::{Origin, ProjectRules, Sourced};
use crate::policy::network::{NetworkRule, RuleList};

impl Merger<'_> {
    pub(super) fn apply_network(&mut self, layer: &Layer) {
        let written = &layer.document.network;
        let network = &mut self.policy.network;
        replace(&mut network.mode, layer, written.mode.as_ref());
        replace(&mut network.explain, layer, written.explain.as_ref());
        replace(&mut network.proxy_variables, layer, written.proxy_variables.as_ref());
        replace(&mut network.stand_in, layer, written.stand_in.as_ref());
        replace(&mut network.ipv6, layer, written.ipv6.as_ref());
        replace(&mut network.upstream_proxy, layer, written.upstream_proxy.as_ref());
        network.user.extend(layer.network_rules());
        let budgets = &mut network.budgets;
        replace_limit(&mut budgets.requests_max, layer, written.budgets.requests_max.as_ref());
        replace_limit(&mut budgets.bytes_max, layer, written.budgets.bytes_max.as_ref());
        let requests = written.budgets.requests_per_host_max.as_ref();
        replace_limit(&mut budgets.requests_per_host_max, layer, requests);
        let bytes = written.budgets.bytes_per_host_max.as_ref();
        replace_limit(&mut budgets.bytes_per_host_max, layer, bytes);
        for (name, secret) in &written.secrets {
            network.secrets.insert(name.clone(), layer.sourced(secret));
        }
    }

    /// Rules of the project are a level of their own: what is reached needs the word of both.
    pub(super) fn narrow_network(&mut self, layer: &Layer) {
        let written = &layer.document.network;
        let rules: Vec<_> = layer.network_rules().collect();
        let mut lists = written.lists();
        let keeps = lists.find(|(list, _)| matches!(list, RuleList::Presets | RuleList::Allow));
        let keeps = keeps.map(|(_, list)| layer.origin_at(list.place));
        if keeps.is_some() || !rules.is_empty() {
            self.policy.network.project = Some(ProjectRules { rules, keeps });
        }
        self.narrow_network_switches(layer);
        self.narrow_network_choices(layer);
        self.narrow_budgets(layer);
        for (name, secret) in &written.secrets {
            // It could send the user's own keys astray.
            let why = format!("where {name} may go is for its owner to say");
            self.widens(layer.origin(secret), "network.secret", why, None);
        }
    }

    fn narrow_network_switches(&mut self, layer: &Layer) {
        let written = &layer.document.network;
        let network = &mut self.policy.network;
        if let Some(mode) = &written.mode {
            if mode.value > network.mode.value {
                network.mode = layer.sourced(mode);
            } else if mode.value < network.mode.value {
                let why = format!("nothing may be reached ({})", network.mode.origin);
                let line = format!("mode = {}", quoted(mode.value));
                self.widens(layer.origin(mode), "network.mode", why, Some(line));
            }
        }
        let network = &mut self.policy.network;
        let explain = narrow_permission(&mut network.explain, layer, written.explain.as_ref());
        let ipv6 = narrow_permission(&mut network.ipv6, layer, written.ipv6.as_ref());
        for (refused, key, name) in
            [(explain, "network.explain", "explain"), (ipv6, "network.ipv6", "ipv6")]
        {
            if let Some(origin) = refused {
                self.widens(origin, key, format!("{name} is off"), Some(format!("{name} = true")));
            }
        }
    }

    fn narrow_network_choices(&mut self, layer: &Layer) {
        let written = &layer.document.network;
        let network = &self.policy.network;
        let refused = [
            differs(
                &network.proxy_variables,
                layer,
                "network.proxy_variables",
                written.proxy_variables.as_ref(),
                |is_on| is_on.to_string(),
            ),
            differs(
                &network.stand_in,
                layer,
                "network.stand_in",
                written.stand_in.as_ref(),
                |range| quoted(range),
            ),
            differs(
                &network.upstream_proxy,
                layer,
                "network.upstream_proxy",
                written.upstream_proxy.as_ref(),
                |proxy| proxy.as_ref().map_or_else(|| quoted("none"), quoted),
            ),
        ];
        for (origin, key, line) in refused.into_iter().flatten() {
            let why = "how hosts are reached is for the user to say".to_owned();
            self.widens(origin, key, why, Some(line));
        }
    }

    fn narrow_budgets(&mut self, layer: &Layer) {
        let written = &layer.document.network.budgets;
        let budgets = &mut self.policy.network.budgets;
        let results = [
            narrow_limit(
                &mut budgets.requests_max,
                layer,
                "network.requests_max",
                written.requests_max.as_ref(),
                |count| count.to_string(),
            ),
            narrow_limit(
                &mut budgets.bytes_max,
                layer,
                "network.bytes_max",
                written.bytes_max.as_ref(),
                quoted,
            ),
            narrow_limit(
                &mut budgets.requests_per_host_max,
                layer,
                "network.requests_per_host_max",
                written.requests_per_host_max.as_ref(),
                |count| count.to_string(),
            ),
            narrow_limit(
                &mut budgets.bytes_per_host_max,
                layer,
                "network.bytes_per_host_max",
                written.bytes_per_host_max.as_ref(),
                quoted,
            ),
        ];
        for refused in results.into_iter().flatten() {
            self.widens(refused.origin, refused.key, refused.why, Some(refused.user_line));
        }
    }
}

impl Layer {
    fn network_rules(&self) -> impl Iterator<Item = Sourced<NetworkRule>> {
        self.document.network.lists().flat_map(move |(list, items)| {
            items.items.iter().map(move |item| Sourced {
                value: NetworkRule { list, text: item.value.clone() },
                origin: self.origin(item),
            })
        })
    }
}

/// The place and the line for the user, when a choice is another than the user's.
fn differs<T: PartialEq>(
    base: &Sourced<T>,
    layer: &Layer,
    key: &'static str,
    written: Option<&Located<T>>,
    show: fn(&T) -> String,
) -> Option<(Origin, &'static str, String)> {
    let written = written.filter(|written| written.value != base.value)?;
    let name = key.rsplit('.').next().unwrap_or(key);
    Some((layer.origin(written), key, format!("{name} = {}", show(&written.value))))
}
