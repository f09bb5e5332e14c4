//! Host names, in the one form in which they are compared.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most bytes of a name, without the dot at its end (RFC 1035, section 2.3.4).
const BYTES_MAX: usize = 253;

/// Most bytes of one label of it.
const LABEL_BYTES_MAX: usize = 63;

/// A host name in ASCII: lower case, without a dot at its end, never an address.
///
/// International names are in the form that is sent (`xn--…`, RFC 5890).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);

/// Why something is no host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing, or a dot alone.
    #[error("a host name is empty")]
    Empty,
    /// Longer than a resolver takes.
    #[error("a host name has more than {BYTES_MAX} bytes")]
    TooLong,
    /// Two dots in a row, or one in front.
    #[error("a host name has an empty part between two dots")]
    EmptyLabel,
    /// A part that is longer than a resolver takes.
    #[error("a part of a host name has more than {LABEL_BYTES_MAX} bytes")]
    LabelTooLong,
    /// A hyphen where RFC 1123 has none.
    #[error("a part of a host name begins or ends with a hyphen")]
    Hyphen,
    /// A byte that does not belong there: control characters, blanks, `%`, `@`, `:`, …
    #[error(
        "a host name has the byte {byte:#04x}; only letters, digits, \"-\", \"_\" and \".\" are understood"
    )]
    Byte {
        /// Which.
        byte: u8,
    },
    /// A letter that is sent in another form.
    #[error("a host name has letters beyond ASCII; write it as it is sent, with \"xn--\"")]
    NotAscii,
    /// What programs take for an IPv4 address: `127.1`, `0x7f.1`, `2130706433`.
    #[error("a host name ends in a number, so that programs take it for an address")]
    Address,
}

impl Name {
    /// All of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parts of it, as many as there are dots and one.
    #[must_use]
    pub fn labels(&self) -> usize {
        self.0.bytes().filter(|byte| *byte == b'.').count() + 1
    }

    /// Whether it is `parent` with at least one more part in front.
    #[must_use]
    pub fn is_below(&self, parent: &Self) -> bool {
        let front = self.0.strip_suffix(parent.as_str()).and_then(|front| front.strip_suffix('.'));
        front.is_some_and(|front| !front.is_empty())
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > BYTES_MAX {
            return Err(NameError::TooLong);
        }
        if !text.is_ascii() {
            return Err(NameError::NotAscii);
        }
        text.split('.').try_for_each(check_label)?;
        if text.rsplit('.').next().is_some_and(is_number) {
            return Err(NameError::Address);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

fn check_label(label: &str) -> Result<(), NameError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if label.is_empty() {
        return Err(NameError::EmptyLabel);
    }
    if label.len() > LABEL_BYTES_MAX {
        return Err(NameError::LabelTooLong);
    }
    if let Some(byte) = label.bytes().find(|byte| !known(*byte)) {
        return Err(NameError::Byte { byte });
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(NameError::Hyphen);
    }
    Ok(())
}

/// As the URL standard judges the last part: digits, or hexadecimal ones behind `0x`.
fn is_number(label: &str) -> bool {
    let label = label.as_bytes();
    let hexadecimal = label.strip_prefix(b"0x").or_else(|| label.strip_prefix(b"0X"));
    label.iter().all(u8::is_ascii_digit)
        || hexadecimal.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn one_form_of_each() {
        for (text, form) in [
            ("pypi.org", "pypi.org"),
            ("PyPI.Org.", "pypi.org"),
            ("_sip._tcp.example", "_sip._tcp.example"),
            ("localhost", "localhost"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("1.example", "1.example"),
            ("1e100.net", "1e100.net"),
            ("4chan", "4chan"),
        ] {
            assert_eq!(name(text).as_str(), form);
        }
    }

    #[test]
    fn what_is_none_is_said() {
        let long = "a".repeat(64);
        let longest = format!("{}.example", "a.".repeat(130));
        for (text, error) in [
            ("", NameError::Empty),
            (".", NameError::Empty),
            ("a..b", NameError::EmptyLabel),
            (".a", NameError::EmptyLabel),
            ("a.b..", NameError::EmptyLabel),
            ("evil.tld\0.allowed.tld", NameError::Byte { byte: 0 }),
            ("evil.tld\r\nx", NameError::Byte { byte: b'\r' }),
            ("evil tld", NameError::Byte { byte: b' ' }),
            ("evil\t.tld", NameError::Byte { byte: b'\t' }),
            ("evil%00.tld", NameError::Byte { byte: b'%' }),
            ("evil%2eallowed.tld", NameError::Byte { byte: b'%' }),
            ("user@allowed.tld", NameError::Byte { byte: b'@' }),
            ("allowed.tld:80", NameError::Byte { byte: b':' }),
            ("[::1]", NameError::Byte { byte: b'[' }),
            ("a/b", NameError::Byte { byte: b'/' }),
            ("*.example", NameError::Byte { byte: b'*' }),
            ("evil\u{3002}tld", NameError::NotAscii),
            ("bücher.example", NameError::NotAscii),
            ("-a.example", NameError::Hyphen),
            ("a-.example", NameError::Hyphen),
            ("127.0.0.1", NameError::Address),
            ("127.1", NameError::Address),
            ("0x7f.1", NameError::Address),
            ("2130706433", NameError::Address),
            ("1.0x7F", NameError::Address),
            ("a.0x", NameError::Address),
            ("a.1.", NameError::Address),
            (&long, NameError::LabelTooLong),
            (&longest, NameError::TooLong),
        ] {
            assert_eq!(text.parse::<Name>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn below_is_by_whole_parts() {
        for (below, parent, is_below) in [
            ("a.example.org", "example.org", true),
            ("a.b.example.org", "example.org", true),
            ("example.org", "example.org", false),
            ("badexample.org", "example.org", false),
            ("example.org.evil", "example.org", false),
            ("org", "example.org", false),
        ] {
            assert_eq!(name(below).is_below(&name(parent)), is_below, "{below}");
        }
        assert_eq!(name("a.b.c").labels(), 3);
    }

    proptest! {
        #[test]
        fn what_is_taken_is_taken_again_as_the_same(text in "\\PC{0,40}|[-a-zA-Z0-9_.]{0,300}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.as_str().parse::<Name>().unwrap(), name.clone());
                prop_assert!(name.as_str().bytes().all(|byte| !byte.is_ascii_uppercase()));
                prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
            }
        }
    }
}
