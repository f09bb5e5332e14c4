//! Lists of hosts that are often allowed together, under a name.
//!
//! Each is a file in `presets/`, to be read by who wants to know what it allows and why.

use super::rule::{Action, Rule};
use serde::Deserialize;

/// A list under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The file, with the reasons in it.
    pub text: &'static str,
}

/// What a file says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    allow: Vec<String>,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// All of them, by name.
        pub const PRESETS: &[Preset] = &[
            $(Preset { name: $name, text: include_str!(concat!("../../presets/", $name, ".toml")) }),*
        ];
    };
}

presets![
    "alpine",
    "anthropic",
    "debian",
    "github",
    "go",
    "google-ai",
    "java",
    "mistral",
    "node",
    "openai",
    "python",
    "ruby",
    "rust",
    "ubuntu",
];

/// The one of this name.
#[must_use]
pub fn preset(name: &str) -> Option<Preset> {
    PRESETS.iter().copied().find(|preset| preset.name == name)
}

impl Preset {
    fn file(self) -> File {
        toml::from_str(self.text).expect("a test reads every one")
    }

    /// What it is for, in a few words.
    #[must_use]
    pub fn about(self) -> String {
        self.file().about
    }

    /// What it allows.
    #[must_use]
    pub fn rules(self) -> Vec<Rule> {
        let rule =
            |text: &String| Rule::parse(text, Action::Allow).expect("a test reads every one");
        self.file().allow.iter().map(rule).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Ports, Protocol, Target};
    use std::collections::BTreeSet;

    #[test]
    fn every_one_is_understood_and_says_why() {
        for preset in PRESETS {
            let rules = preset.rules();
            assert!(!rules.is_empty() && !preset.about().is_empty(), "{}", preset.name);
            assert!(preset.text.contains("# "), "{} gives no reason", preset.name);
            let mut seen = BTreeSet::new();
            for rule in rules {
                assert!(seen.insert(rule.to_string()), "{} has {rule} twice", preset.name);
                // Whoever takes one allows hosts by name, and web pages alone.
                assert!(matches!(rule.target, Target::Name(_) | Target::Below(_)), "{rule}");
                assert!(rule.protocol != Protocol::Tcp && rule.ports == Ports::Usual, "{rule}");
            }
        }
    }

    #[test]
    fn every_file_has_its_name_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let files = std::fs::read_dir(folder).unwrap();
        let files: BTreeSet<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let names = PRESETS.iter().map(|preset| format!("{}.toml", preset.name));
        assert_eq!(files, names.collect());
        assert!(PRESETS.is_sorted_by_key(|preset| preset.name));
        assert_eq!(preset("python").unwrap().name, "python");
        assert_eq!(preset("nothing"), None);
    }
}
