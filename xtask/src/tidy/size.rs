//! Files stay small enough to answer one question.

use super::Source;
use std::path::{Path, PathBuf};

/// Most lines of a Rust file, its tests not counted.
const LINES_MAX: usize = 800;

/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

pub(super) fn check(source: &Source) -> Option<String> {
    let lines = lines_without_tests(source);
    let is_listed = LONG.iter().any(|(path, _)| source.path == Path::new(path));
    (lines > LINES_MAX && !is_listed).then(|| {
        source.problem(
            1,
            &format!("{lines} lines without tests, more than {LINES_MAX}: which second question does it answer?"),
        )
    })
}

/// Names listed files that are gone.
pub(super) fn stale(files: &[PathBuf]) -> Vec<String> {
    LONG.iter()
        .filter(|(path, _)| !files.iter().any(|file| file == Path::new(path)))
        .map(|(path, _)| format!("{path}: listed as long, but there is no such file"))
        .collect()
}

/// Counts lines outside `tests` folders and outside test modules. rustfmt
/// closes a module at the depth where it opened it, so a top-level one ends at
/// the next line that is a lone brace.
fn lines_without_tests(source: &Source) -> usize {
    let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
    if source.path.iter().any(is_test) {
        return 0;
    }
    let mut count = 0;
    let mut lines = source.text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens =
            lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if line == "#[cfg(test)]" && opens {
            lines.by_ref().find(|line| *line == "}");
        } else {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn tests_are_not_counted() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn t() {\n    }\n}\nfn b() {}\n";
        assert_eq!(lines_without_tests(&source("a.rs", text)), 3);
        assert_eq!(lines_without_tests(&source("crates/a/tests/it/main.rs", text)), 0);
        assert_eq!(lines_without_tests(&source("crates/a/src/tests.rs", text)), 0);
    }

    #[test]
    fn the_limit_is_exact() {
        let fits = "//\n".repeat(LINES_MAX);
        assert_eq!(check(&source("a.rs", &fits)), None);
        assert!(check(&source("a.rs", &format!("{fits}//\n"))).is_some());
    }
}
