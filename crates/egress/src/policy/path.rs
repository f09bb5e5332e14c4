//! Paths of requests, in the one form in which rules see them.

use std::fmt;
use std::str::FromStr;

/// Why a path is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Neither `/…` nor `*` of OPTIONS.
    #[error("the path does not begin with \"/\"")]
    Relative,
    /// `//`, `/./`, `/../`, also with percent signs: servers disagree about what is meant.
    #[error("the path has an empty part, \".\" or \"..\", which servers read in different ways")]
    Part,
    /// An encoded slash, backslash, percent sign or NUL, or one of them plain.
    #[error("the path has {what}, which servers read in different ways")]
    Ambiguous {
        /// What it has.
        what: &'static str,
    },
    /// `%` and not two hexadecimal digits.
    #[error("the path has a \"%\" that begins no encoded byte")]
    Percent,
    /// A byte that no request may have.
    #[error("the path has the byte {byte:#04x}, which has to be encoded")]
    Byte {
        /// Which.
        byte: u8,
    },
}

/// The plain form of a request's path, without its query: what need not be encoded is not.
///
/// Case is kept, and so is a slash at the end.
///
/// # Errors
///
/// See [`PathError`]: what servers could take for another path is not judged at all.
pub fn plain(path: &str) -> Result<String, PathError> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(PathError::Relative);
    }
    let mut plain = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next(), bytes.next()].map(|digit| digit.and_then(hexadecimal));
                let [Some(high), Some(low)] = digits else { return Err(PathError::Percent) };
                decoded(high << 4 | low, &mut plain)?;
            }
            b'\\' => return Err(PathError::Ambiguous { what: "a backslash" }),
            // Some servers cut parameters off a part before they look for `..`.
            b';' => return Err(PathError::Ambiguous { what: "a semicolon" }),
            0x21..=0x7e => plain.push(char::from(byte)),
            byte => return Err(PathError::Byte { byte }),
        }
    }
    let mut parts = plain[1..].split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if part == "." || part == ".." || (part.is_empty() && !is_last) {
            return Err(PathError::Part);
        }
    }
    Ok(plain)
}

/// Adds a byte that was encoded: plain if it need not be (RFC 3986, section 2.3).
fn decoded(byte: u8, plain: &mut String) -> Result<(), PathError> {
    let what = match byte {
        b'/' => "an encoded slash",
        b'\\' => "an encoded backslash",
        b'%' => "an encoded percent sign",
        b';' => "an encoded semicolon",
        0 => "an encoded NUL",
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
            plain.push(char::from(byte));
            return Ok(());
        }
        byte => {
            *plain += &format!("%{byte:02X}");
            return Ok(());
        }
    };
    Err(PathError::Ambiguous { what })
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Which paths a rule is about: `/repos/*/issues`, `/api/**`.
///
/// `*` is one part, whatever is in it, and `**` at the end is anything below, also nothing:
/// `/api/**` is about `/api` too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    parts: Vec<Part>,
    has_all_below: bool,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Is(String),
    Any,
}

impl PathPattern {
    /// Whether a path in its [`plain`] form is meant.
    #[must_use]
    pub fn fits(&self, path: &str) -> bool {
        let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
        for expected in &self.parts {
            let fits = match (expected, parts.next()) {
                (Part::Any, Some(part)) => !part.is_empty(),
                (Part::Is(text), Some(part)) => text == part,
                (_, None) => false,
            };
            if !fits {
                return false;
            }
        }
        self.has_all_below || parts.next().is_none()
    }

    /// The more of it is said, the larger: parts, those that are named, and whether it ends there.
    pub(super) fn precision(&self) -> (usize, usize, bool) {
        let named = self.parts.iter().filter(|part| **part != Part::Any).count();
        (self.parts.len(), named, !self.has_all_below)
    }
}

impl FromStr for PathPattern {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (front, has_all_below) = match text.strip_suffix("/**") {
            Some(front) => (front, true),
            None => (text, false),
        };
        let path = if front.is_empty() && has_all_below { String::new() } else { plain(front)? };
        if path.ends_with('/') && has_all_below {
            return Err(PathError::Part);
        }
        let parts = path.strip_prefix('/').map(|path| path.split('/'));
        let part = |part: &str| match part {
            "*" => Part::Any,
            part => Part::Is(part.to_owned()),
        };
        let parts: Vec<Part> = parts.into_iter().flatten().map(part).collect();
        let has_star = |part: &Part| matches!(part, Part::Is(text) if text.contains('*'));
        if parts.iter().any(has_star) {
            return Err(PathError::Ambiguous { what: "a \"*\" that is not a whole part" });
        }
        let text = format!("{path}{}", if has_all_below { "/**" } else { "" });
        Ok(Self { parts, has_all_below, text })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_form_of_each() {
        for (path, form) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("/%61/B?x=/../y", "/a/B"),
            ("/a%20b/%c3%bc", "/a%20b/%C3%BC"),
            ("/~a/a...b/.git", "/~a/a...b/.git"),
        ] {
            assert_eq!(plain(path).as_deref(), Ok(form));
        }
        let ambiguous = |what| PathError::Ambiguous { what };
        for (path, error) in [
            ("", PathError::Relative),
            ("*", PathError::Relative),
            ("http://x/", PathError::Relative),
            ("//a", PathError::Part),
            ("/a//b", PathError::Part),
            ("/a/../b", PathError::Part),
            ("/a/%2e%2E/b", PathError::Part),
            ("/a/.%2e", PathError::Part),
            ("/./a", PathError::Part),
            ("/a%2fb", ambiguous("an encoded slash")),
            ("/a%5Cb", ambiguous("an encoded backslash")),
            ("/a\\b", ambiguous("a backslash")),
            ("/a/..;x/b", ambiguous("a semicolon")),
            ("/%252e%252e/", ambiguous("an encoded percent sign")),
            ("/a%00", ambiguous("an encoded NUL")),
            ("/a%2", PathError::Percent),
            ("/a%zz", PathError::Percent),
            ("/a b", PathError::Byte { byte: b' ' }),
            ("/ü", PathError::Byte { byte: 0xc3 }),
            ("/\u{7f}", PathError::Byte { byte: 0x7f }),
        ] {
            assert_eq!(plain(path), Err(error), "{path:?}");
        }
    }

    #[test]
    fn patterns_are_about_whole_parts() {
        for (pattern, path, fits) in [
            ("/repos/*/issues", "/repos/a/issues", true),
            ("/repos/*/issues", "/repos/a/b/issues", false),
            ("/repos/*/issues", "/repos//issues", false),
            ("/repos/*/issues", "/repos/a/issues/1", false),
            ("/api/**", "/api", true),
            ("/api/**", "/api/", true),
            ("/api/**", "/api/v1/x", true),
            ("/api/**", "/apis", false),
            ("/api", "/api/", false),
            ("/%61pi", "/api", true),
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/", "/", true),
            ("/", "/a", false),
        ] {
            let pattern: PathPattern = pattern.parse().unwrap();
            assert_eq!(pattern.fits(path), fits, "{pattern} {path}");
        }
        for bad in ["api", "/a*b", "/a/../b", "/**/a", "/a/**b", "//**"] {
            assert!(bad.parse::<PathPattern>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_plain_form_is_its_own(path in "/[-a-zA-Z0-9._~%/;?#*@\\\\ ü]{0,30}") {
            if let Ok(form) = plain(&path) {
                prop_assert_eq!(plain(&form), Ok(form.clone()));
                prop_assert!(!form.contains("/../") && !form.ends_with("/.."));
            }
        }
    }
}
