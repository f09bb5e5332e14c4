//! Names that people give to sandboxes.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Longest name: that of a DNS label (RFC 1035, section 2.3.4), since preview URLs carry names.
pub const NAME_BYTES_MAX: usize = 63;

/// Why a text cannot be a sandbox's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a sandbox: {reason}; write 1 to {NAME_BYTES_MAX} lower-case letters, \
     digits and dashes, with none of the dashes first or last"
)]
pub struct NameError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A name of a sandbox, which is also a valid DNS label.
///
/// Unique among the sandboxes that are there, and free again as soon as the
/// sandbox is deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SandboxName(String);

impl SandboxName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match flaw(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(NameError { text: text.chars().take(80).collect(), reason }),
        }
    }
}

pub(crate) fn flaw(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > NAME_BYTES_MAX {
        return Some("it is too long");
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Some("it has a character of another kind");
    }
    (text.starts_with('-') || text.ends_with('-')).then_some("it begins or ends with a dash")
}

crate::schema::string_schema!(
    SandboxName,
    "A name of a sandbox, which is also a valid DNS label.",
    Some("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    None,
    "web"
);

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SandboxName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for text in ["a", "0", "web", "web-2", "a--b", longest.as_str()] {
            assert_eq!(text.parse::<SandboxName>().map(|name| name.to_string()), Ok(text.into()));
        }
        let too_long = "a".repeat(NAME_BYTES_MAX + 1);
        for text in ["", "-", "-a", "a-", "Web", "a_b", "a.b", "a b", "é", "a\n", too_long.as_str()]
        {
            assert!(text.parse::<SandboxName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_flaw_is_named() {
        insta::assert_snapshot!(
            "Web".parse::<SandboxName>().unwrap_err(),
            @r#""Web" cannot name a sandbox: it has a character of another kind; write 1 to 63 lower-case letters, digits and dashes, with none of the dashes first or last"#
        );
    }

    #[test]
    fn json_is_held_to_the_same_rule() {
        assert!(serde_json::from_str::<SandboxName>(r#""web""#).is_ok());
        assert!(serde_json::from_str::<SandboxName>(r#""Web""#).is_err());
    }

    proptest! {
        #[test]
        fn an_id_is_never_a_name(bytes: [u8; crate::id::ID_BYTES]) {
            let id = crate::id::SandboxId::from_random(bytes).to_string();
            prop_assert!(id.parse::<SandboxName>().is_err());
        }
    }
}
