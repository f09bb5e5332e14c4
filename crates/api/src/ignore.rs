//! Patterns of ignore files, as git understands them (gitignore(5)).
//!
//! These patterns hide secrets, so "nearly like git" is not enough: what git would
//! ignore and we would not is a leak. Everything here answers as `git check-ignore`
//! does, corners included, and a test compares the two on random patterns. Matching
//! walks all alternatives at once, so its time is at most pattern times path whatever
//! the pattern; a hostile one cannot make it explode.

mod glob;

use glob::{Glob, Mode};

/// One pattern of an ignore file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// As it was written, without the end of the line.
    text: Vec<u8>,
    negated: bool,
    directory: bool,
    /// Matched against the last component only.
    base_name: bool,
    glob: Glob,
}

impl Pattern {
    /// Reads one line. Nothing when it is empty or a comment.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() == Some(&b'#') {
            return None;
        }
        let text = trim_spaces(line);
        if text.is_empty() {
            return None;
        }
        let (negated, body) = match text.strip_prefix(b"!") {
            Some(body) => (true, body),
            None => (false, text),
        };
        let (directory, body) = match body.strip_suffix(b"/") {
            Some(body) => (true, body),
            None => (false, body),
        };
        let base_name = !body.contains(&b'/');
        let mode = if base_name { Mode::Name } else { Mode::Path };
        let glob = Glob::new(body.strip_prefix(b"/").unwrap_or(body), mode);
        Some(Self { text: text.to_vec(), negated, directory, base_name, glob })
    }

    /// As it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether it takes back (`!`) what earlier patterns ignore.
    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// Whether it matches `path`, which is relative to the directory of the ignore file
    /// and has no leading, trailing or doubled slash.
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.directory && !is_dir {
            return false;
        }
        let subject = if self.base_name {
            path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
        } else {
            path
        };
        self.glob.matches(subject)
    }
}

/// A pattern with the line it stands on, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternLine {
    /// The line.
    pub line: u32,
    /// The pattern.
    pub pattern: Pattern,
}

/// Reads a whole ignore file. Every line has a meaning or none; there are no errors.
pub fn parse_file(bytes: &[u8]) -> Vec<PatternLine> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines = (1u32..).zip(bytes.split(|byte| *byte == b'\n'));
    lines
        .filter_map(|(line, text)| Some(PatternLine { line, pattern: Pattern::parse(text)? }))
        .collect()
}

/// The pattern that decides: the last that matches. It may be a negated one.
pub fn deciding<'a>(
    patterns: &'a [PatternLine],
    path: &[u8],
    is_dir: bool,
) -> Option<&'a PatternLine> {
    patterns.iter().rev().find(|line| line.pattern.matches(path, is_dir))
}

/// Drops spaces at the end, but not one that a backslash escapes.
fn trim_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at = (at + 2).min(line.len());
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expect: bool) {
        let (path, is_dir) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        let matches = Pattern::parse(pattern.as_bytes())
            .is_some_and(|it| it.matches(path.as_bytes(), is_dir));
        assert_eq!(matches, expect, "{pattern:?} on {path:?}");
    }

    #[test]
    fn names_and_paths() {
        check(".env", "a/b/.env", true);
        check("/.env", "a/.env", false);
        check("a/b", "x/a/b", false);
        check("doc/*.txt", "doc/server/arch.txt", false);
        check("*", "a/b", true);
        check("build/", "build", false);
        check("build/", "x/build/", true);
        check("/", "a/", false);
    }

    #[test]
    fn stars() {
        check("**/foo", "foo", true);
        check("**/foo", "a/b/foo", true);
        check("a/**", "a/x/y", true);
        check("a/**", "a", false);
        check("a/**/b", "a/b", true);
        check("a/**/b", "a/x/y/b", true);
        check("a/**/b", "a/xb", false);
        check("a/x**y", "a/x1/2y", false);
        check("a/x**y", "a/x12y", true);
    }

    #[test]
    fn escapes_and_spaces() {
        check("\\#a", "#a", true);
        check("#a", "#a", false);
        check("\\!a", "!a", true);
        check("a\\", "a\\", false);
        check("a  ", "a", true);
        check("a\\ ", "a ", true);
        check("a\t", "a", false);
        check("a\\*", "ab", false);
        check("a\\*", "a*", true);
        check("a\r", "a", true);
    }

    #[test]
    fn sets() {
        check("[abc]", "b", true);
        check("[!abc]", "b", false);
        check("[^abc]", "d", true);
        check("[]-]", "-", true);
        check("[a-c]x", "bx", true);
        check("[[:digit:]]", "7", true);
        check("[[:digi:]]", "7", false);
        check("[a", "[a", false);
        check("x[/]y/z", "x/y/z", false);
    }

    #[test]
    fn no_pattern_explodes() {
        let pattern = Pattern::parse("*a".repeat(2000).as_bytes()).unwrap();
        assert!(!pattern.matches("a".repeat(1999).as_bytes(), false));
        assert!(pattern.matches("a".repeat(2000).as_bytes(), false), "control");
    }

    #[test]
    fn a_file_is_read_by_lines() {
        let lines = parse_file(b"\xef\xbb\xbf# head\r\n/*\r\n\r\n!/src/");
        let shown: Vec<_> = lines.iter().map(|it| (it.line, it.pattern.text())).collect();
        assert_eq!(shown, [(2, b"/*".as_slice()), (4, b"!/src/".as_slice())]);
    }
}
