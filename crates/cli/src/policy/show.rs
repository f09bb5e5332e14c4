//! The policy in force, for people and for programs.

use super::ignore::{Hidden, RuleSource};
use super::load::Loaded;
use atoll_api::policy::{EntryValue, Origin};
use serde::Serialize;
use std::fmt::Write as _;

/// Widest column of values; a longer value pushes its origin to the right.
const VALUE_COLUMNS: usize = 44;

/// One value a line, in the grammar of a document, and where it came from; then what
/// the rules hide in this project.
pub(crate) fn text(loaded: &Loaded, hidden: &[Hidden]) -> String {
    let mut text = format!("# project {}\n", loaded.project.root.display());
    for entry in loaded.merged.policy.entries() {
        let assignment = format!("{} = {}", entry.key, entry.value);
        // Writing to a string cannot fail.
        writeln!(text, "{assignment:VALUE_COLUMNS$}  # {}", entry.origin).ok();
    }
    for item in hidden {
        let slash = if item.is_dir { "/" } else { "" };
        writeln!(text, "# hides {}{slash} by {}", item.path.display(), item.rule).ok();
    }
    text
}

/// Everything odd about the policy and about what it hides.
pub(crate) fn warnings(loaded: &Loaded, hidden: &[Hidden]) -> Vec<String> {
    let rules = loaded.merged.warnings.iter().map(ToString::to_string);
    let links = hidden.iter().filter(|item| item.has_other_names).map(|item| {
        let path = item.path.display();
        format!("{path} is hidden, but the file has other names (hard links), through which it may be read")
    });
    rules.chain(links).collect()
}

#[derive(Serialize)]
struct Shown<'a> {
    project: String,
    values: Vec<Value<'a>>,
    hidden: Vec<ShownHidden<'a>>,
    warnings: Vec<Warning<'a>>,
}

#[derive(Serialize)]
struct Value<'a> {
    key: &'a str,
    value: serde_json::Value,
    origin: ShownOrigin,
}

#[derive(Serialize)]
struct ShownHidden<'a> {
    /// Relative to the project.
    path: String,
    is_dir: bool,
    has_other_names: bool,
    pattern: &'a str,
    origin: ShownOrigin,
}

#[derive(Serialize)]
struct Warning<'a> {
    key: &'a str,
    message: String,
    origin: ShownOrigin,
}

/// Where a value came from: its level, and the file and line or the flag.
#[derive(Debug, Serialize)]
pub(crate) struct ShownOrigin {
    level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<&'static str>,
}

impl From<&RuleSource> for ShownOrigin {
    fn from(source: &RuleSource) -> Self {
        match source {
            RuleSource::File { path, line } => {
                let file = path.to_string_lossy().into_owned();
                Self { level: "ignore-file", file: Some(file), line: Some(*line), flag: None }
            }
            RuleSource::Policy(origin) => origin.into(),
        }
    }
}

impl From<&Origin> for ShownOrigin {
    fn from(origin: &Origin) -> Self {
        Self {
            level: origin.level.as_str(),
            file: origin.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
            line: origin.line(),
            flag: origin.flag(),
        }
    }
}

/// One object: the project, every value, what is hidden, every warning. A list gives one value for each
/// item, and null when it is empty; a limit that is not set is null too.
pub(crate) fn json(loaded: &Loaded, hidden: &[Hidden]) -> String {
    let entries = loaded.merged.policy.entries();
    let shown = Shown {
        project: loaded.project.root.to_string_lossy().into_owned(),
        values: entries
            .iter()
            .map(|entry| Value {
                key: &entry.key,
                value: value(&entry.value),
                origin: entry.origin.as_ref().into(),
            })
            .collect(),
        hidden: hidden
            .iter()
            .map(|item| ShownHidden {
                path: item.path.to_string_lossy().into_owned(),
                is_dir: item.is_dir,
                has_other_names: item.has_other_names,
                pattern: &item.rule.pattern,
                origin: (&item.rule.source).into(),
            })
            .collect(),
        warnings: loaded
            .merged
            .warnings
            .iter()
            .map(|warning| Warning {
                key: warning.key,
                message: warning.kind.to_string(),
                origin: (&warning.origin).into(),
            })
            .collect(),
    };
    to_line(&shown)
}

/// JSON on a line of its own.
pub(crate) fn to_line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value)
        .expect("these types have string keys and no failing serializer");
    json + "\n"
}

fn value(value: &EntryValue<'_>) -> serde_json::Value {
    match value {
        EntryValue::Text(text) => text.as_ref().into(),
        EntryValue::Count(count) => (*count).into(),
        EntryValue::Milli(milli) => (f64::from(*milli) / 1000.0).into(),
        EntryValue::Switch(is_on) => (*is_on).into(),
        EntryValue::Unlimited | EntryValue::EmptyList => serde_json::Value::Null,
    }
}
