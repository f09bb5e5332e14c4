//! From the text of the levels about the network to what the gateway can be told.
//!
//! What the user's levels say is one layer; what the project's own file says is a second one,
//! in which flags have a word too, since they come last. What is reached needs the word of both.

mod odd;
#[cfg(test)]
mod tests;

pub(super) use odd::warnings;

use super::presets;
use atoll_api::policy::{
    self, Level, MergeError, MergeErrorKind, NetworkMode, NetworkRule, Origin, RuleList,
    SecretBinding, Sourced, nearest,
};
use atoll_egress::policy::{Action, Layer, Policy, Protocol, Rule, RuleError, Target, preset};
use atoll_egress::secret::{Form, FormError};
use atoll_egress::stand_in::Kept;
use std::error::Error as _;

/// What a sandbox may reach, each rule with where it came from.
#[derive(Debug)]
pub(crate) struct Network {
    /// Nothing, or what the layers allow.
    pub(crate) mode: NetworkMode,
    /// The user's, and the project's if it says something about rules.
    pub(crate) layers: Vec<PlacedLayer>,
    /// Secrets that the gateway puts into requests.
    pub(crate) secrets: Vec<PlacedSecret>,
    /// No names yet, and the range of addresses that will stand for them.
    pub(crate) stand_ins: Kept,
}

/// Rules of one layer, in the order in which they were said.
#[derive(Debug, Clone)]
pub(crate) struct PlacedLayer {
    pub(crate) rules: Vec<PlacedRule>,
    /// What no rule fits is left to the other layer.
    pub(crate) only_narrows: bool,
    /// Where the project's file begins to name what is kept.
    pub(crate) keeps: Option<Origin>,
}

/// A rule and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct PlacedRule {
    pub(crate) rule: Rule,
    /// The list that it, or its preset, stands in.
    pub(crate) list: RuleList,
    /// The preset that it came with.
    pub(crate) preset: Option<&'static str>,
    pub(crate) origin: Origin,
}

/// Where a secret may go that the gateway puts into requests.
#[derive(Debug)]
pub(crate) struct PlacedSecret {
    pub(crate) name: String,
    /// Hosts, each of one name, by https alone.
    pub(crate) at: Vec<Rule>,
    /// Where in a request.
    pub(crate) form: Form,
    pub(crate) origin: Origin,
}

impl Network {
    /// The rules as the gateway decides by them.
    #[cfg(test)]
    pub(crate) fn policy(&self) -> Policy {
        match self.mode {
            NetworkMode::None => Policy::new(Vec::new()),
            NetworkMode::Rules => policy_of(&self.layers),
        }
    }

    /// The rule that a decision names by layer and place.
    pub(crate) fn rule(&self, (layer, place): (usize, usize)) -> Option<&PlacedRule> {
        self.layers.get(layer)?.rules.get(place)
    }
}

/// The rules of these layers, whatever the mode.
pub(crate) fn policy_of(layers: &[PlacedLayer]) -> Policy {
    let layer = |layer: &PlacedLayer| {
        let rules = layer.rules.iter().map(|placed| placed.rule.clone()).collect();
        if layer.only_narrows { Layer::narrowing(rules) } else { Layer::new(rules) }
    };
    Policy::new(layers.iter().map(layer).collect())
}

/// Understands what all levels say together.
///
/// # Errors
///
/// Everything that is not understood, each with its place.
pub(crate) fn understand(network: &policy::Network) -> Result<Network, Vec<MergeError>> {
    let mut reader = Reader::default();
    let rules = reader.rules(&network.user);
    let mut layers = vec![PlacedLayer { rules, only_narrows: false, keeps: None }];
    if let Some(project) = &network.project {
        let mut rules = reader.rules(&project.rules);
        let of_flags = layers[0].rules.iter().filter(|rule| rule.origin.level == Level::Flag);
        rules.extend(of_flags.cloned());
        let keeps = project.keeps.clone();
        layers.push(PlacedLayer { rules, only_narrows: keeps.is_none(), keeps });
    }
    let secrets = network
        .secrets
        .iter()
        .filter_map(|(name, secret)| reader.secret(name.as_str(), secret))
        .collect();
    let range = &network.stand_in;
    let stand_ins = Kept::empty(&range.value)
        .map_err(|error| reader.fail(&range.origin, "network.stand_in", &range.value, error, None));
    match stand_ins {
        Ok(stand_ins) if reader.errors.is_empty() => {
            Ok(Network { mode: network.mode.value, layers, secrets, stand_ins })
        }
        Ok(_) | Err(()) => Err(reader.errors),
    }
}

#[derive(Default)]
struct Reader {
    errors: Vec<MergeError>,
}

impl Reader {
    fn fail(
        &mut self,
        origin: &Origin,
        key: &'static str,
        text: &str,
        problem: impl ToString,
        did_you_mean: Option<String>,
    ) {
        let (quoted, problem) = (format!("{text:?}"), problem.to_string());
        // A problem of a part names that part alone.
        let problem = match problem.starts_with(&quoted) {
            true => problem,
            false => format!("{quoted}: {problem}"),
        };
        let kind = MergeErrorKind::NotUnderstood { problem, did_you_mean };
        self.errors.push(MergeError { origin: origin.clone(), key, kind });
    }

    fn rules(&mut self, said: &[Sourced<NetworkRule>]) -> Vec<PlacedRule> {
        said.iter().flat_map(|said| self.rule(said)).collect()
    }

    /// One rule, or those of a preset.
    fn rule(&mut self, said: &Sourced<NetworkRule>) -> Vec<PlacedRule> {
        let (text, list, origin) = (&said.value.text, said.value.list, &said.origin);
        let placed = |rule, preset| PlacedRule { rule, list, preset, origin: origin.clone() };
        let action = match list {
            RuleList::Presets => {
                if let Some(preset) = preset(text) {
                    let rules = preset.rules().into_iter();
                    return rules.map(|rule| placed(rule, Some(preset.name))).collect();
                }
                let near = presets::near(text).map(str::to_owned);
                let problem = "there is no such preset; `atoll policy presets` lists them";
                self.fail(origin, list.key(), text, problem, near);
                return Vec::new();
            }
            RuleList::Allow => Action::Allow,
            RuleList::Ask => Action::Ask,
            RuleList::Deny => Action::Deny,
        };
        match Rule::parse(text, action) {
            Ok(rule) => vec![placed(rule, None)],
            Err(error) => {
                self.fail(origin, list.key(), text, in_words(&error), meant(text));
                Vec::new()
            }
        }
    }

    fn secret(&mut self, name: &str, secret: &Sourced<SecretBinding>) -> Option<PlacedSecret> {
        let SecretBinding::Injected { at, used_as, .. } = &secret.value else { return None };
        let mut rules = Vec::new();
        for item in at {
            let origin = Origin { place: Some(item.place), ..secret.origin.clone() };
            let goes = |text: &str| {
                let rule = Rule::parse(text, Action::Allow).map_err(|error| in_words(&error))?;
                let is_one = matches!(rule.target, Target::Name(_));
                let is_safe = rule.protocol == Protocol::Https;
                (is_one && is_safe).then_some(rule).ok_or_else(|| {
                    "a secret goes by https alone, to hosts of one name each".to_owned()
                })
            };
            match goes(&item.value) {
                Ok(rule) => rules.push(rule),
                Err(problem) => {
                    let rest = item.value.split_once("://").map_or(&*item.value, |(_, rest)| rest);
                    let near = Some(format!("https://{rest}")).filter(|text| goes(text).is_ok());
                    self.fail(&origin, "network.secret", &item.value, problem, near);
                }
            }
        }
        let used_as = used_as.to_string();
        let form = used_as.parse();
        let form = form.map_err(|error: FormError| {
            self.fail(&secret.origin, "network.secret", &used_as, error, None);
        });
        let (name, origin) = (name.to_owned(), secret.origin.clone());
        Some(PlacedSecret { name, at: rules, form: form.ok()?, origin })
    }
}

/// An error with its cause: the one says which part, the other what is wrong with it.
fn in_words(error: &RuleError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// A rule near to text that is none, if there is one.
fn meant(text: &str) -> Option<String> {
    let is_rule = |text: &String| Rule::parse(text, Action::Allow).is_ok();
    let trimmed = text.trim();
    let (protocol, rest) = match trimmed.split_once("://") {
        Some((word, rest)) => {
            let near = match word.to_ascii_lowercase().as_str() {
                "ws" => Some("http"),
                "wss" => Some("https"),
                word => nearest(word, ["https", "http", "tcp"]),
            };
            (format!("{}://", near?), rest)
        }
        None => (String::new(), trimmed),
    };
    let (methods, rest) = match rest.split_once('@') {
        Some((methods, rest)) if !methods.contains('/') => {
            (format!("{}@", methods.to_ascii_uppercase()), rest)
        }
        Some(_) | None => (String::new(), rest),
    };
    // All below a name is written with a star and a dot.
    let below = rest.trim_start_matches(['*', '.']);
    let star = if below.len() == rest.len() { "" } else { "*." };
    [
        format!("{protocol}{methods}{rest}"),
        format!("{protocol}{methods}{star}{below}"),
        format!("{protocol}{rest}"),
    ]
    .into_iter()
    .find(is_rule)
}
