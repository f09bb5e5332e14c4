//! The policy in force as a flat list of values, for showing.

use super::effective::{EffectivePolicy, Network, Origin, Sourced, Verdict};
use super::keys::KEYS;
use super::network::{NetworkRule, RuleList, SecretBinding};
use super::value::{Image, format_duration};
use std::borrow::Cow;
use std::fmt;

/// One value of the policy in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Table and key; for `env.set` with the name of the variable.
    pub key: String,
    /// The value; of a list, one item.
    pub value: EntryValue<'a>,
    /// Where it came from.
    pub origin: Cow<'a, Origin>,
}

/// A value as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryValue<'a> {
    /// A word, a path, a pattern, a size or a time. Bytes that are not UTF-8 are replaced.
    Text(Cow<'a, str>),
    /// A count.
    Count(u64),
    /// Thousandths.
    Milli(u32),
    /// A switch.
    Switch(bool),
    /// A limit that is not set.
    Unlimited,
    /// A list without items.
    EmptyList,
}

impl fmt::Display for EntryValue<'_> {
    /// As it would be written in a document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&toml::Value::String(text.to_string()).to_string()),
            Self::Count(count) => write!(f, "{count}"),
            Self::Milli(milli) => write!(f, "{}", f64::from(*milli) / 1000.0),
            Self::Switch(value) => write!(f, "{value}"),
            Self::Unlimited => f.write_str("\"none\""),
            Self::EmptyList => f.write_str("[]"),
        }
    }
}

impl EffectivePolicy {
    /// Every value in the order of [`KEYS`], with where it came from. Every key
    /// has at least one entry, but for `env.set` and `network.secret`, which have some for each
    /// name.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries = Entries(Vec::new());
        for key in KEYS {
            entries.key(self, key.section, key.name);
        }
        entries.0
    }
}

struct Entries<'a>(Vec<Entry<'a>>);

impl<'a> Entries<'a> {
    fn key(&mut self, policy: &'a EffectivePolicy, section: &'static str, name: &'static str) {
        let key = format!("{section}.{name}");
        match key.clone().as_str() {
            "workspace.mode" => {
                self.word(key, &policy.workspace.mode, policy.workspace.mode.value.as_str())
            }
            "workspace.strict_ignore" => self.switch(key, &policy.workspace.strict_ignore),
            "workspace.apply" => {
                self.word(key, &policy.workspace.apply, policy.workspace.apply.value.as_str())
            }
            "files.read" => {
                self.list(&key, &policy.files.read, |grant| grant.path.to_string_lossy())
            }
            "files.write" => {
                self.list(&key, &policy.files.write, |grant| grant.path.to_string_lossy())
            }
            "files.hide" => self.list(&key, &policy.files.hide, |pattern| pattern.into()),
            "files.ignore_files" => self.list(&key, &policy.files.ignore_files, |name| name.into()),
            "protect.allow" => self.rules(&key, policy, Verdict::Allow),
            "protect.deny" => self.rules(&key, policy, Verdict::Deny),
            "exec.ask" => self.list(&key, &policy.exec_ask, |pattern| pattern.as_str().into()),
            "env.pass" => self.list(&key, &policy.env.pass, |pattern| pattern.to_string().into()),
            "env.set" => {
                for (name, value) in &policy.env.set {
                    self.word(format!("{key}.{name}"), value, value.value.to_string_lossy());
                }
            }
            "limits.memory" => {
                self.limit(key, &policy.limits.memory, |bytes| text(bytes.to_string()))
            }
            "limits.disk" => self.limit(key, &policy.limits.disk, |bytes| text(bytes.to_string())),
            "limits.pids" => {
                self.limit(key, &policy.limits.pids, |count| EntryValue::Count(count.into()))
            }
            "limits.cpus" => {
                self.limit(key, &policy.limits.cpus, |cpus| EntryValue::Milli(cpus.milli))
            }
            "limits.open_files" => {
                self.limit(key, &policy.limits.open_files, |count| EntryValue::Count(count.into()))
            }
            "limits.time" => {
                self.limit(key, &policy.limits.time, |time| text(format_duration(time)))
            }
            "tier.isolation" => self.word(key, &policy.tier, policy.tier.value.as_str()),
            "kernel.ptrace" => self.switch(key, &policy.kernel.ptrace),
            "kernel.nested_userns" => self.switch(key, &policy.kernel.nested_userns),
            "root.image" => {
                let word = match &policy.image.value {
                    Image::Host => "host".into(),
                    Image::Path(path) => path.to_string_lossy(),
                };
                self.word(key, &policy.image, word);
            }
            key => match key.strip_prefix("network.") {
                Some(name) => self.network(name, &policy.network),
                None => unreachable!("{key} is in the table of keys but not shown"),
            },
        }
    }

    fn network(&mut self, name: &str, network: &'a Network) {
        let key = format!("network.{name}");
        match name {
            "mode" => self.word(key, &network.mode, network.mode.value.as_str()),
            "presets" => self.network_list(&key, network, RuleList::Presets),
            "allow" => self.network_list(&key, network, RuleList::Allow),
            "ask" => self.network_list(&key, network, RuleList::Ask),
            "deny" => self.network_list(&key, network, RuleList::Deny),
            "explain" => self.switch(key, &network.explain),
            "proxy_variables" => self.switch(key, &network.proxy_variables),
            "stand_in" => self.word(key, &network.stand_in, network.stand_in.value.as_str()),
            "ipv6" => self.switch(key, &network.ipv6),
            "upstream_proxy" => {
                let proxy = network.upstream_proxy.value.as_ref();
                let value = proxy.map_or(EntryValue::Unlimited, |proxy| text(proxy.to_string()));
                self.push(key, value, &network.upstream_proxy.origin);
            }
            "requests_max" => self.limit(key, &network.budgets.requests_max, EntryValue::Count),
            "bytes_max" => {
                self.limit(key, &network.budgets.bytes_max, |bytes| text(bytes.to_string()))
            }
            "requests_per_host_max" => {
                self.limit(key, &network.budgets.requests_per_host_max, EntryValue::Count)
            }
            "bytes_per_host_max" => self
                .limit(key, &network.budgets.bytes_per_host_max, |bytes| text(bytes.to_string())),
            "secret" => {
                for (name, secret) in &network.secrets {
                    self.secret(&format!("{key}.{name}"), secret);
                }
            }
            name => unreachable!("network.{name} is in the table of keys but not shown"),
        }
    }

    fn network_list(&mut self, key: &str, network: &'a Network, list: RuleList) {
        let before = self.0.len();
        let project = network.project.iter().flat_map(|project| &project.rules);
        for rule in network.user.iter().chain(project).filter(|rule| rule.value.list == list) {
            self.push(key.to_owned(), text(rule.value.text.clone()), &rule.origin);
        }
        // An empty list of the project's keeps nothing, so it is no mere absence.
        let keeps = network.project.as_ref().and_then(|project| {
            let names = |rule: &Sourced<NetworkRule>| {
                matches!(rule.value.list, RuleList::Presets | RuleList::Allow)
            };
            project.keeps.as_ref().filter(|_| !project.rules.iter().any(names))
        });
        if let Some(origin) = keeps.filter(|_| list == RuleList::Allow) {
            self.push(key.to_owned(), EntryValue::EmptyList, origin);
        } else if self.0.len() == before {
            let origin = Cow::Owned(Origin::BUILT_IN);
            self.0.push(Entry { key: key.to_owned(), value: EntryValue::EmptyList, origin });
        }
    }

    fn secret(&mut self, key: &str, secret: &'a Sourced<SecretBinding>) {
        let origin = &secret.origin;
        match &secret.value {
            SecretBinding::Injected { at, used_as, env } => {
                for rule in at {
                    let origin = Origin { place: Some(rule.place), ..origin.clone() };
                    let (key, value) =
                        (format!("{key}.at"), EntryValue::Text((&rule.value).into()));
                    self.0.push(Entry { key, value, origin: Cow::Owned(origin) });
                }
                self.push(format!("{key}.as"), text(used_as.to_string()), origin);
                if let Some(env) = env {
                    self.push(format!("{key}.env"), EntryValue::Text(env.into()), origin);
                }
            }
            SecretBinding::File(path) => {
                let path = EntryValue::Text(path.to_string_lossy());
                self.push(format!("{key}.file"), path, origin);
            }
        }
    }

    fn push(&mut self, key: String, value: EntryValue<'a>, origin: &'a Origin) {
        self.0.push(Entry { key, value, origin: Cow::Borrowed(origin) });
    }

    fn word<T>(&mut self, key: String, value: &'a Sourced<T>, word: impl Into<Cow<'a, str>>) {
        self.push(key, EntryValue::Text(word.into()), &value.origin);
    }

    fn switch(&mut self, key: String, value: &'a Sourced<bool>) {
        self.push(key, EntryValue::Switch(value.value), &value.origin);
    }

    fn limit<T: Copy>(
        &mut self,
        key: String,
        limit: &'a Sourced<Option<T>>,
        show: fn(T) -> EntryValue<'a>,
    ) {
        self.push(key, limit.value.map_or(EntryValue::Unlimited, show), &limit.origin);
    }

    fn list<T>(&mut self, key: &str, items: &'a [Sourced<T>], show: fn(&'a T) -> Cow<'a, str>) {
        self.items(key, items.iter().map(|item| (show(&item.value), &item.origin)));
    }

    fn rules(&mut self, key: &str, policy: &'a EffectivePolicy, verdict: Verdict) {
        let rules = policy.protect.iter().filter(|rule| rule.value.verdict == verdict);
        self.items(key, rules.map(|rule| (rule.value.pattern.as_str().into(), &rule.origin)));
    }

    fn items(&mut self, key: &str, items: impl Iterator<Item = (Cow<'a, str>, &'a Origin)>) {
        let before = self.0.len();
        for (text, origin) in items {
            self.push(key.to_owned(), EntryValue::Text(text), origin);
        }
        if self.0.len() == before {
            let origin = Cow::Owned(Origin::BUILT_IN);
            self.0.push(Entry { key: key.to_owned(), value: EntryValue::EmptyList, origin });
        }
    }
}

fn text(text: String) -> EntryValue<'static> {
    EntryValue::Text(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_shown() {
        let policy = EffectivePolicy::built_in();
        let entries = policy.entries();
        for key in KEYS.iter().filter(|key| !["set", "secret"].contains(&key.name)) {
            let full = format!("{}.{}", key.section, key.name);
            assert!(entries.iter().any(|entry| entry.key == full), "{full}");
        }
    }
}
