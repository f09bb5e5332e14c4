//! CHANGELOG.md follows Keep a Changelog: an `Unreleased` part first, then
//! releases with dates, each with headings from a fixed list.

use super::Source;

const KINDS: &[&str] = &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

pub(super) fn check(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_released = false;
    let mut has_unreleased = false;
    for (index, line) in source.text.lines().enumerate() {
        let mut problem = |what: &str| problems.push(source.problem(index + 1, what));
        if index == 0 && line != "# Changelog" {
            problem("starts with `# Changelog`");
        }
        if let Some(kind) = line.strip_prefix("### ") {
            if !KINDS.contains(&kind) {
                problem(&format!("no kind of change: expected one of {}", KINDS.join(", ")));
            }
        } else if let Some(release) = line.strip_prefix("## ") {
            if release == "[Unreleased]" {
                if has_unreleased || is_released {
                    problem("`[Unreleased]` comes once, before the releases");
                }
                has_unreleased = true;
            } else if is_release(release) {
                is_released = true;
            } else {
                problem("expected `## [Unreleased]` or `## [1.2.3] - 2026-01-31`");
            }
        }
    }
    if !has_unreleased {
        problems.push(source.problem(1, "has no `## [Unreleased]`"));
    }
    problems
}

/// `[1.2.3] - 2026-01-31`
fn is_release(text: &str) -> bool {
    let Some((version, date)) = text.strip_prefix('[').and_then(|rest| rest.split_once("] - "))
    else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let version: Vec<&str> = version.split('.').collect();
    let date: Vec<&str> = date.split('-').collect();
    let widths = [4, 2, 2];
    version.len() == 3
        && version.iter().all(|part| is_number(part))
        && date.len() == 3
        && date.iter().zip(widths).all(|(part, width)| is_number(part) && part.len() == width)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[track_caller]
    fn problems(text: &str, expect: usize) {
        let found = check(&source("CHANGELOG.md", text));
        assert_eq!(found.len(), expect, "{found:?}");
    }

    #[test]
    fn a_proper_one_passes() {
        problems(
            "# Changelog\n\nAll.\n\n## [Unreleased]\n\n### Added\n\n- A.\n\n\
             ## [0.1.0] - 2026-12-01\n\n### Security\n\n- B.\n",
            0,
        );
    }

    #[test]
    fn headings_come_from_the_list() {
        problems("# Changelog\n\n## [Unreleased]\n\n### Improved\n", 1);
        problems("# Changelog\n\n## [Unreleased]\n\n## 0.1.0\n", 1);
        problems("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 1.12.2026\n", 1);
        problems("# History\n\n## [Unreleased]\n", 1);
    }

    #[test]
    fn unreleased_is_there_once_and_first() {
        problems("# Changelog\n", 1);
        problems("# Changelog\n\n## [0.1.0] - 2026-12-01\n\n## [Unreleased]\n", 1);
        problems("# Changelog\n\n## [Unreleased]\n\n## [Unreleased]\n", 1);
    }
}
