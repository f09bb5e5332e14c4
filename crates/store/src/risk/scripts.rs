//! `package.json` changes with every dependency; what runs is only a part of it.

use super::{Risk, RiskKind};
use serde_json::Value;

/// The parts of a package manifest that name programs to run, or decide which
/// code an install or an import runs.
const PARTS: &[(&str, &str)] = &[
    ("scripts", "changes scripts that the package manager runs"),
    ("bin", "changes which programs the package installs"),
    ("husky", "changes hooks that git runs"),
    ("lint-staged", "changes commands that run before a commit"),
    ("simple-git-hooks", "changes hooks that git runs"),
    ("pre-commit", "changes hooks that git runs"),
    ("gypfile", "changes whether an install builds native code"),
    ("packageManager", "changes which package manager is fetched and run"),
];

pub(super) fn is_manifest(name: &str) -> bool {
    name == "package.json"
}

/// Compares the parts that run. A manifest that cannot be read as one counts as
/// risky, and so does a new one that has any of them.
pub(super) fn compare(before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<Risk> {
    let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
    let risk = |reason| Risk { kind: RiskKind::Build, reason };
    let Some(after) = after.and_then(parse).filter(Value::is_object) else {
        return vec![risk("cannot be read as a package manifest, so its scripts are unknown")];
    };
    let before = before.and_then(parse).unwrap_or(Value::Null);
    PARTS
        .iter()
        .filter(|(part, _)| after.get(part).is_some() && after.get(part) != before.get(part))
        .map(|(_, reason)| risk(reason))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Option<&str>, after: Option<&str>, expect: usize) {
        let risks = compare(before.map(str::as_bytes), after.map(str::as_bytes));
        assert_eq!(risks.len(), expect, "{risks:?}");
    }

    #[test]
    fn only_what_runs_is_compared() {
        let plain = r#"{"name": "a", "dependencies": {"b": "1"}}"#;
        let scripts = r#"{"name": "a", "scripts": {"test": "x"}}"#;
        check(None, Some(plain), 0);
        check(Some(plain), Some(r#"{"dependencies": {"b": "2"}}"#), 0);
        check(None, Some(scripts), 1);
        check(Some(plain), Some(scripts), 1);
        check(Some(scripts), Some(r#"{ "scripts" : {"test":"x"}, "version": "2"}"#), 0);
        check(Some(scripts), Some(r#"{"scripts": {"test": "y"}}"#), 1);
        check(Some(scripts), Some(plain), 0);
        check(Some(plain), Some(r#"{"bin": "x", "husky": {}, "scripts": {}}"#), 3);
    }

    #[test]
    fn what_cannot_be_read_is_risky() {
        for text in ["", "[]", "{", "\u{feff}{}", "null", "{\"scripts\": {\"a\": \"\u{1}\"}}"] {
            check(None, Some(text), 1);
        }
        check(Some("{}"), None, 1);
        // Deeply nested input is an error and not a crash.
        check(None, Some(&"[".repeat(100_000)), 1);
        // An unreadable old one makes any script a new one.
        check(Some("{"), Some(r#"{"scripts": {}}"#), 1);
    }
}
