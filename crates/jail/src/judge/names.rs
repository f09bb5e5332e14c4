//! Comparing names the careful way.
//!
//! Protected names are compared after folding, in every directory: whether a
//! directory folds case itself can change before somebody on the host reads it,
//! and an innocent file that differs from a protected one only by case is rare.

use std::borrow::Cow;

/// How much a name is like `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DotGit {
    Exact,
    /// Another file system, or the same one elsewhere, would take it for `.git`.
    Alias,
}

/// Lower case, without what file systems ignore when they compare.
pub(super) fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    if name.is_ascii() {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    let Ok(text) = str::from_utf8(name) else {
        return Cow::Owned(name.to_ascii_lowercase());
    };
    let folded: String = text
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c == '\u{17f}' { 's' } else { c })
        .collect();
    Cow::Owned(folded.into_bytes())
}

/// Code points that vanish in the case folding of ext4, f2fs and HFS+
/// (`Default_Ignorable_Code_Point` of Unicode, the ranges in use).
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether `name` is `.git` here or anywhere else.
pub(super) fn dot_git(name: &[u8]) -> Option<DotGit> {
    match name.first() {
        Some(b'.' | b'g' | b'G') => {}
        Some(byte) if !byte.is_ascii() => {}
        _ => return None,
    }
    if name == b".git" {
        return Some(DotGit::Exact);
    }
    let folded = fold(name);
    // NTFS: a stream name, trailing dots and spaces are not part of the name.
    let base = folded.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = base.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
    let is_alias = match &base[..end] {
        b".git" => true,
        [b'g', b'i', b't', b'~', digit] => digit.is_ascii_digit(),
        _ => false,
    };
    is_alias.then_some(DotGit::Alias)
}

/// One name per directory level, relative to the place a pattern is anchored at.
///
/// `*` and `?` match within a name, `**` any number of names, `\` takes the next
/// character as it is. A pattern covers what it matches and everything below.
/// With a slash anywhere but at its end a pattern is anchored; without one it
/// matches a name at any depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
    is_anchored: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    AnyDepth,
    Literal { written: Vec<u8>, folded: Vec<u8> },
    Wild(Vec<Token>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    One,
    Many,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern is empty")]
    Empty,
    #[error("the pattern {pattern:?} leaves its directory by \"..\"")]
    Climbs { pattern: String },
    #[error("the pattern {pattern:?} holds a NUL byte")]
    Nul { pattern: String },
}

/// How a path stands to a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    No,
    /// The path is above what the pattern names: `a` to `a/b`.
    Above,
    /// The pattern names it, by its first `length` components.
    Covered {
        length: usize,
    },
}

impl Pattern {
    /// # Errors
    ///
    /// If nothing could match: an empty pattern, one with `..` or with a NUL.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.contains('\0') {
            return Err(PatternError::Nul { pattern: text.to_owned() });
        }
        let trimmed = text.trim_end_matches('/');
        let is_anchored = trimmed.contains('/');
        let mut segments = Vec::new();
        for part in trimmed.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Err(PatternError::Climbs { pattern: text.to_owned() });
            }
            segments.push(Segment::new(part));
        }
        // It covers everything below anyway.
        while segments.len() > 1 && segments.last() == Some(&Segment::AnyDepth) {
            segments.pop();
        }
        if segments.is_empty() {
            return Err(PatternError::Empty);
        }
        Ok(Self { segments, is_anchored })
    }

    /// Compares with a path relative to the anchor.
    pub(super) fn at_anchor(&self, path: &[&[u8]]) -> Match {
        prefix(&self.segments, path, 0)
    }

    /// Whether the pattern covers `path`, which is relative to the anchor.
    pub(super) fn covers(&self, path: &[&[u8]]) -> bool {
        let starts = if self.is_anchored { 1 } else { path.len() };
        (0..starts.min(path.len()))
            .any(|start| matches!(self.at_anchor(&path[start..]), Match::Covered { .. }))
    }

    /// What the pattern names below `path`, which lies on the way to it: `None` if
    /// nothing, `Some(None)` if that has wildcards.
    pub(super) fn below(&self, path: &[&[u8]]) -> Option<Option<Vec<u8>>> {
        let (segments, starts) = match self.segments.as_slice() {
            [_] => return None,
            // What is moved stays at some depth, but for its own last names.
            [Segment::AnyDepth, rest @ ..] => (rest, path.len()),
            all => (all, path.len().min(1)),
        };
        let start =
            (0..starts).find(|start| prefix(segments, &path[*start..], 0) == Match::Above)?;
        let (done, rest) = segments.split_at_checked(path.len() - start).unwrap_or_default();
        let is_fixed = !rest.is_empty() && !done.contains(&Segment::AnyDepth);
        let names: Option<Vec<&[u8]>> = rest.iter().map(Segment::literal).collect();
        Some(names.filter(|_| is_fixed).map(|names| names.join(&b'/')))
    }

    /// The names after the first `depth` as they were written, if all of them
    /// are literal.
    pub(super) fn literal_rest(&self, depth: usize) -> Option<Vec<&[u8]>> {
        self.segments.get(depth..)?.iter().map(Segment::literal).collect()
    }

    /// The first name, if it is a plain one.
    pub(super) fn first_literal(&self) -> Option<&[u8]> {
        self.segments.first().and_then(Segment::literal)
    }

    /// The first byte of every path that can match, if there is only one.
    pub(super) fn first_byte(&self) -> Option<u8> {
        match self.segments.first()? {
            Segment::Literal { folded, .. } => folded.first().copied(),
            Segment::Wild(tokens) => match tokens.first()? {
                Token::Byte(byte) => Some(*byte),
                Token::One | Token::Many => None,
            },
            Segment::AnyDepth => None,
        }
    }
}

impl Segment {
    fn new(text: &str) -> Self {
        if text == "**" {
            return Self::AnyDepth;
        }
        let mut tokens = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            tokens.push(match byte {
                b'*' => Token::Many,
                b'?' => Token::One,
                b'\\' => Token::Byte(bytes.next().unwrap_or(b'\\')),
                other => Token::Byte(other),
            });
        }
        let literal: Option<Vec<u8>> = tokens
            .iter()
            .map(|token| if let Token::Byte(byte) = token { Some(*byte) } else { None })
            .collect();
        match literal {
            Some(written) => Self::Literal { folded: fold(&written).into_owned(), written },
            None => Self::Wild(tokens.into_iter().map(Token::folded).collect()),
        }
    }

    fn literal(&self) -> Option<&[u8]> {
        match self {
            Self::Literal { written, .. } => Some(written),
            Self::Wild(_) | Self::AnyDepth => None,
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::AnyDepth => true,
            Self::Literal { folded, .. } => *folded == *fold(name),
            Self::Wild(tokens) => glob(tokens, &fold(name)),
        }
    }
}

impl Token {
    fn folded(self) -> Self {
        match self {
            Self::Byte(byte) => Self::Byte(byte.to_ascii_lowercase()),
            other => other,
        }
    }
}

/// Matches by remembering the last `*` only, so it is never worse than the
/// product of both lengths.
fn glob(tokens: &[Token], name: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let fits = match tokens.get(token) {
            Some(Token::Many) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(Token::One) => at < name.len(),
            Some(Token::Byte(byte)) => name.get(at) == Some(byte),
            None if at == name.len() => return true,
            None => false,
        };
        if fits {
            token += 1;
            at += 1;
            continue;
        }
        match retry {
            Some((after, from)) if from < name.len() => {
                retry = Some((after, from + 1));
                (token, at) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

fn prefix(segments: &[Segment], path: &[&[u8]], done: usize) -> Match {
    let Some((first, rest)) = segments.split_first() else {
        return Match::Covered { length: done };
    };
    if *first == Segment::AnyDepth {
        let mut best = Match::No;
        for skipped in 0..=path.len() {
            match prefix(rest, &path[skipped..], done + skipped) {
                Match::No => {}
                Match::Above => best = Match::Above,
                covered @ Match::Covered { .. } => return covered,
            }
        }
        return best;
    }
    match path.split_first() {
        None => Match::Above,
        Some((name, below)) if first.matches(name) => prefix(rest, below, done + 1),
        Some(_) => Match::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_dot_git() {
        for name in [
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~2",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
        ] {
            assert_eq!(dot_git(name.as_bytes()), Some(DotGit::Alias), "{name:?}");
        }
        for name in [".gitignore", ".github", "git", "_git", "gits~1", "git~", "git~10", "", "."] {
            assert_eq!(dot_git(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(dot_git(b".git"), Some(DotGit::Exact));
    }

    #[test]
    fn folding() {
        let check = |name: &str, folded: &str| {
            assert_eq!(fold(name.as_bytes()), folded.as_bytes(), "{name:?}");
        };
        check("hooks", "hooks");
        check("HOOKS", "hooks");
        check("hoo\u{212a}s", "hooks");
        check(".v\u{17f}code", ".vscode");
        check("con\u{200d}fig", "config");
        assert_eq!(*fold(b"\xffA"), *b"\xffa");
    }

    fn path(text: &str) -> Vec<&[u8]> {
        text.split('/').filter(|part| !part.is_empty()).map(str::as_bytes).collect()
    }

    #[test]
    fn patterns_at_their_anchor() {
        let check = |pattern: &str, text: &str, expected| {
            let found = Pattern::new(pattern).unwrap().at_anchor(&path(text));
            assert_eq!(found, expected, "{pattern} on {text}");
        };
        check(".vscode", ".vscode", Match::Covered { length: 1 });
        check(".vscode", ".VSCode/tasks.json", Match::Covered { length: 1 });
        check(".vscode", ".vscode2", Match::No);
        check(".claude/settings.json", ".claude", Match::Above);
        check(".claude/settings.json", ".claude/settings.json", Match::Covered { length: 2 });
        check(".claude/settings.json", ".claude/other", Match::No);
        check(
            ".claude/settings*.json",
            ".claude/settings.local.json",
            Match::Covered { length: 2 },
        );
        check("*.code-workspace", "a.code-workspace", Match::Covered { length: 1 });
        check("a/**/b", "a/x/y/b/c", Match::Covered { length: 4 });
        check("a/**/b", "a/x", Match::Above);
        check(".git/hooks/**", ".git/hooks", Match::Covered { length: 2 });
        check(r"\*", "*", Match::Covered { length: 1 });
        check(r"\*", "x", Match::No);
    }

    #[test]
    fn anchored_or_at_any_depth() {
        let covers = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().covers(&path(text));
        assert!(covers(".envrc", "a/b/.envrc"));
        assert!(covers(".envrc/", "a/.envrc/x"));
        assert!(!covers("/.envrc", "a/.envrc"));
        assert!(!covers("a/.envrc", "b/a/.envrc"));
        assert!(covers("**/a/.envrc", "b/a/.envrc"));
    }

    #[test]
    fn patterns_that_cannot_match_are_refused() {
        assert_eq!(Pattern::new(""), Err(PatternError::Empty));
        assert_eq!(Pattern::new("//"), Err(PatternError::Empty));
        assert!(matches!(Pattern::new("a/../b"), Err(PatternError::Climbs { .. })));
        assert!(matches!(Pattern::new("a\0"), Err(PatternError::Nul { .. })));
    }

    #[test]
    fn globs() {
        let check = |pattern: &str, name: &str, expected| {
            let Segment::Wild(tokens) = Segment::new(pattern) else { panic!("literal") };
            assert_eq!(glob(&tokens, name.as_bytes()), expected, "{pattern} on {name}");
        };
        check("*", "", true);
        check("a*b*c", "aXbYc", true);
        check("a*b*c", "aXbY", false);
        check("?", "", false);
        check("*a", "aaa", true);
        check("*.*", "x", false);
        check("a*a*a*a*b", &"a".repeat(200), false);
    }
}
