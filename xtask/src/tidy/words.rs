//! Words that committed text does not contain.

use super::Source;

/// Notes to self. Spelt in halves, since this file is checked as well.
const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// A module that is named for nothing collects everything.
const NAMELESS: &str = concat!("ut", "ils");

/// Where somebody's machine keeps its work trees.
const WORK: &str = concat!("/wo", "rk/");

/// Parents of home directories.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Names that stand for anyone, in examples and tests, and the well-known one
/// that belongs to a package manager.
const ANYONE: &[&str] =
    &["a", "ada", "agent", "alice", "bob", "linuxbrew", "me", "u", "user", "you"];

pub(super) fn check(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    let stem = source.path.file_stem();
    if source.is_rust() && stem.is_some_and(|stem| stem == NAMELESS) {
        problems.push(source.problem(1, "name the file for what it does"));
    }
    for (index, line) in source.text.lines().enumerate() {
        problems.extend(judge(source, line).map(|what| source.problem(index + 1, &what)));
    }
    problems
}

fn judge(source: &Source, line: &str) -> Option<String> {
    if let Some(marker) = MARKERS.iter().find(|marker| has_word(line, marker)) {
        return Some(format!("{marker}: do it, or open an issue and say why here"));
    }
    if source.is_rust() && has_word(line, NAMELESS) && has_word(line, "mod") {
        return Some("name the module for what it does".to_owned());
    }
    if starts_path(line, WORK).next().is_some() || HOMES.iter().any(|home| is_somebody(line, home))
    {
        return Some(format!(
            "names a path of somebody's machine; in an example say {}alice",
            HOMES[0]
        ));
    }
    None
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Gives what follows each place where `prefix` begins an absolute path.
fn starts_path<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let continues = |c: char| c.is_alphanumeric() || "_-./}$)*~".contains(c);
    line.match_indices(prefix)
        .filter(move |(at, _)| !line[..*at].chars().next_back().is_some_and(continues))
        .map(move |(at, _)| &line[at + prefix.len()..])
}

/// Whether the line names a home directory other than an example's.
fn is_somebody(line: &str, homes: &str) -> bool {
    starts_path(line, homes).any(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        let name = &rest[..end.unwrap_or(rest.len())];
        !name.is_empty() && !ANYONE.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[track_caller]
    fn accepts(path: &str, text: &str) {
        assert_eq!(check(&source(path, text)), Vec::<String>::new());
    }

    #[track_caller]
    fn refuses(path: &str, text: &str) {
        assert_eq!(check(&source(path, text)).len(), 1, "{text}");
    }

    #[test]
    fn markers_are_whole_words() {
        for marker in MARKERS {
            refuses("a.rs", &format!("// {marker}: later"));
            refuses("docs/a.md", &format!("({marker})"));
            accepts("a.rs", &format!("mktemp /tmp/a.{marker}{marker}"));
        }
    }

    #[test]
    fn modules_are_named_for_something() {
        refuses("a.rs", &format!("pub(crate) mod {NAMELESS};"));
        refuses(&format!("src/{NAMELESS}.rs"), "");
        accepts("a.rs", &format!("// coreutils and other {NAMELESS}"));
    }

    #[test]
    fn paths_of_a_machine_are_refused() {
        refuses("a.md", &format!("see {WORK}main"));
        refuses("a.rs", &format!("\"{}jane/code\"", HOMES[0]));
        refuses("a.rs", &format!("\"{}jane\"", HOMES[1]));
    }

    #[test]
    fn other_paths_are_not() {
        accepts("a.rs", &format!("\"{}alice/.ssh\" and \"{}\"", HOMES[0], HOMES[0]));
        accepts("a.rs", &format!("/tmp/overlay{WORK}inner"));
        accepts("a.rs", &format!("\"{{scratch}}{WORK}\""));
    }
}
