//! Patterns for environment names and for protected paths.

use std::fmt;
use std::path::Path;

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing in it.
    #[error("an empty pattern")]
    Empty,
    /// `*` alone.
    #[error("\"*\" would pass every variable, secrets included; name them, as in \"MY_APP_*\"")]
    PassAll,
    /// A star before the end.
    #[error("{text:?} may have a star only at its end")]
    InnerStar {
        /// What was written.
        text: String,
    },
    /// A name that no environment can hold.
    #[error("{text:?} is not the name of an environment variable")]
    EnvName {
        /// What was written.
        text: String,
    },
    /// `.` or `..` or an empty component.
    #[error("{text:?} has an empty, \".\" or \"..\" component; write the plain path")]
    Component {
        /// What was written.
        text: String,
    },
    /// `**` other than in front.
    #[error(
        "{text:?} has \"**\" in a place where it is not understood; a pattern covers what lies below it anyway"
    )]
    DoubleStar {
        /// What was written.
        text: String,
    },
    /// `!` in front: there is a key for the opposite.
    #[error("{text:?} starts with \"!\"; use protect.allow and protect.deny instead")]
    Negated {
        /// What was written.
        text: String,
    },
    /// A path on the host instead of one in the project.
    #[error("{text:?} starts with \"~\"; patterns are relative to the project")]
    Home {
        /// What was written.
        text: String,
    },
    /// No path can hold a NUL byte.
    #[error("a pattern cannot contain a NUL byte")]
    Nul,
    /// A path that is not text.
    #[error("a pattern must be UTF-8")]
    NotUtf8,
}

/// The name of an environment variable, or the start of many (`LC_*`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvPattern {
    /// The name, or its start.
    pub name: String,
    /// Whether it ended in a star.
    pub is_prefix: bool,
}

impl EnvPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is empty, is a star alone, or holds `=`, NUL or an inner star.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(name) => (name, true),
            None => (text, false),
        };
        match (name.is_empty(), is_prefix) {
            (true, true) => return Err(PatternError::PassAll),
            (true, false) => return Err(PatternError::Empty),
            (false, _) => {}
        }
        if name.contains('*') {
            return Err(PatternError::InnerStar { text: text.to_owned() });
        }
        if name.contains(['=', '\0']) {
            return Err(PatternError::EnvName { text: text.to_owned() });
        }
        Ok(Self { name: name.to_owned(), is_prefix })
    }

    /// Whether the variable `name` is meant. Bytes, since names need not be text.
    pub fn matches(&self, name: &[u8]) -> bool {
        if self.is_prefix {
            name.starts_with(self.name.as_bytes())
        } else {
            name == self.name.as_bytes()
        }
    }

    /// Whether every name that `other` means is meant by this one too.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_prefix {
            other.name.starts_with(&self.name)
        } else {
            !other.is_prefix && self.name == other.name
        }
    }
}

impl fmt::Display for EnvPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "*" } else { "" })
    }
}

/// A path in the project and everything below it.
///
/// One component without a slash before it (`.vscode`, `Makefile`) means that name at
/// any depth; more components, or a leading slash, mean that path from the
/// project's root. `*` stands for any run of bytes in one component; a leading
/// `**/` frees the rest from the root. A trailing slash changes nothing but
/// says that a directory is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    text: String,
    anchored: bool,
    directory: bool,
    components: Vec<String>,
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is empty or has a component that no project path can have.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let owned = || text.to_owned();
        if text.contains('\0') {
            return Err(PatternError::Nul);
        }
        if text.starts_with('!') {
            return Err(PatternError::Negated { text: owned() });
        }
        if text == "~" || text.starts_with("~/") {
            return Err(PatternError::Home { text: owned() });
        }
        let (free, rest) = match text.strip_prefix("**/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (directory, rest) = match rest.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (rooted, rest) = match rest.strip_prefix('/') {
            Some(rest) if !free => (true, rest),
            Some(_) | None => (false, rest),
        };
        if rest.is_empty() {
            return Err(PatternError::Empty);
        }
        let components: Vec<String> = rest.split('/').map(str::to_owned).collect();
        if components.iter().any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(PatternError::Component { text: owned() });
        }
        if components.iter().any(|part| part.contains("**")) {
            return Err(PatternError::DoubleStar { text: owned() });
        }
        let anchored = !free && (rooted || components.len() > 1);
        Ok(Self { text: owned(), anchored, directory, components })
    }

    /// The pattern that means exactly this path, from the project's root. A star in a
    /// name goes on meaning any run: more is covered then, not less.
    ///
    /// # Errors
    /// When the path is empty, climbs, or is not UTF-8.
    pub fn literal(path: &Path) -> Result<Self, PatternError> {
        let text = path.to_str().ok_or(PatternError::NotUtf8)?;
        Self::parse(&format!("/{text}"))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it starts at the project's root.
    pub fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// Whether it was written with a trailing slash.
    pub fn names_directory(&self) -> bool {
        self.directory
    }

    /// Its components; `*` in one stands for any run of bytes.
    pub fn components(&self) -> &[String] {
        &self.components
    }

    /// Whether the path, given as components from the project's root, is meant
    /// or lies below something that is meant.
    pub fn matches(&self, path: &[&[u8]]) -> bool {
        let fits = |at: usize| {
            path.len() >= at + self.components.len()
                && self
                    .components
                    .iter()
                    .zip(&path[at..])
                    .all(|(part, name)| component_matches(part.as_bytes(), name))
        };
        if self.anchored { fits(0) } else { (0..path.len()).any(fits) }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Matches one component, where `*` stands for any run of bytes.
///
/// Takes the last star back by one byte on a mismatch, which is enough without
/// other wildcards and keeps the time at pattern times name.
pub(crate) fn component_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while pos < name.len() {
        if at < pattern.len() && pattern[at] == b'*' {
            star = Some((at, pos));
            at += 1;
        } else if at < pattern.len() && pattern[at] == name[pos] {
            at += 1;
            pos += 1;
        } else if let Some((star_at, star_pos)) = star {
            star = Some((star_at, star_pos + 1));
            at = star_at + 1;
            pos = star_pos + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<&[u8]> {
        text.split('/').map(str::as_bytes).collect()
    }

    #[test]
    fn path_patterns_mean_what_they_say() {
        let check = |pattern: &str, text: &str, expect: bool| {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(&path(text)), expect, "{pattern} on {text}");
        };
        check(".vscode/", ".vscode", true);
        check(".vscode/", ".vscode/tasks.json", true);
        check(".vscode/", "sub/.vscode/tasks.json", true);
        check(".vscode", ".vscode2", false);
        check("/.vscode", "sub/.vscode", false);
        check(".git/hooks/pre-commit", ".git/hooks/pre-commit", true);
        check(".git/hooks/pre-commit", "sub/.git/hooks/pre-commit", false);
        check("**/.git/hooks/pre-commit", "sub/.git/hooks/pre-commit", true);
        check(".git/hooks/pre-commit", ".git/hooks", false);
        check(".git/hooks/*", ".git/hooks/x", true);
        check(".aider*", ".aider.conf.yml", true);
        check("*.pem", "a/b/key.pem", true);
        check("a*b*c", "aXbXbXc", true);
        check("a*b*c", "aXbXbX", false);
    }

    #[test]
    fn broken_path_patterns_are_refused() {
        for text in ["", "/", "a//b", "./a", "a/../b", "..", "a/**/b", "!a", "~/x", "a\0b", "**/"] {
            assert!(PathPattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn env_patterns_cover() {
        let parse = |text: &str| EnvPattern::parse(text).unwrap();
        assert!(parse("LC_*").covers(&parse("LC_ALL")));
        assert!(parse("LC_*").covers(&parse("LC_A*")));
        assert!(!parse("LC_A*").covers(&parse("LC_*")));
        assert!(!parse("LC_ALL").covers(&parse("LC_ALL*")));
        assert!(parse("A").covers(&parse("A")));
        for text in ["", "*", "A*B", "A=B", "A\0"] {
            assert!(EnvPattern::parse(text).is_err(), "{text:?}");
        }
    }
}
