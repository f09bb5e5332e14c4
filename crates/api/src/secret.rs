//! Secrets that a server keeps: named, set and deleted, and never given back.

use crate::time::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Longest name of a secret.
pub const SECRET_NAME_BYTES_MAX: usize = 64;
/// Largest value of a secret.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Why a text cannot be a secret's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a secret: write 1 to {SECRET_NAME_BYTES_MAX} letters, digits, dots, \
     dashes and underscores, and not dots alone"
)]
pub struct SecretNameError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
}

/// A name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SecretName(String);

impl SecretName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = SecretNameError;

    fn from_str(text: &str) -> Result<Self, SecretNameError> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let is_name = (1..=SECRET_NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && text.bytes().any(|b| b != b'.');
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        Err(SecretNameError { text: text.chars().take(80).collect() })
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    SecretName,
    "A name of a secret; dots alone are none.",
    Some(r"^\.{0,63}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"),
    None,
    "GITHUB"
);

/// Sets a secret: its value as text, or in base64. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSecret {
    /// The value as text, of 1 to 65536 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 65536)]
    pub value: Option<String>,
    /// The value in base64 (RFC 4648, section 4), where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 4, max_length = 87384)]
    pub value_base64: Option<String>,
}

/// Why a request holds no value of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutSecretError {
    /// There is none, or two.
    #[error("a secret has one of value and value_base64")]
    NotOne,
    /// It is not base64.
    #[error("value_base64 is not base64")]
    NotBase64,
    /// It has no bytes.
    #[error("a secret cannot be empty")]
    Empty,
    /// It has too many bytes.
    #[error("a secret has at most {SECRET_BYTES_MAX} bytes")]
    TooLarge,
}

impl PutSecret {
    /// A request for this value.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { value: Some(text.to_owned()), value_base64: None },
            Err(_) => Self { value: None, value_base64: Some(STANDARD.encode(bytes)) },
        }
    }

    /// The bytes of the value.
    ///
    /// # Errors
    /// [`PutSecretError`].
    pub fn into_bytes(self) -> Result<Vec<u8>, PutSecretError> {
        let bytes = match (self.value, self.value_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => STANDARD.decode(text).map_err(|_| PutSecretError::NotBase64)?,
            _ => return Err(PutSecretError::NotOne),
        };
        match bytes.len() {
            0 => Err(PutSecretError::Empty),
            1..=SECRET_BYTES_MAX => Ok(bytes),
            _ => Err(PutSecretError::TooLarge),
        }
    }
}

impl fmt::Debug for PutSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutSecret").finish_non_exhaustive()
    }
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Secret {
    /// Its name.
    pub name: SecretName,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// All secrets of a server by name, without their values; there are at most 1000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Secrets {
    /// The secrets.
    pub secrets: Vec<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let longest = "a".repeat(SECRET_NAME_BYTES_MAX);
        for text in ["A", "a.b-c_D9", "...a", longest.as_str()] {
            assert_eq!(text.parse::<SecretName>().unwrap().as_str(), text);
        }
        let too_long = "a".repeat(SECRET_NAME_BYTES_MAX + 1);
        for text in ["", ".", "..", "a/b", "a b", "é", "a\n", too_long.as_str()] {
            assert!(text.parse::<SecretName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_value_is_text_or_base64_and_not_shown() {
        for bytes in [&b"text"[..], b"\xff\0", b"a\n"] {
            let request = PutSecret::of(bytes);
            assert_eq!(request.value.is_some(), std::str::from_utf8(bytes).is_ok());
            assert_eq!(request.into_bytes().unwrap(), bytes);
        }
        let request = |value: Option<&str>, base64: Option<&str>| PutSecret {
            value: value.map(str::to_owned),
            value_base64: base64.map(str::to_owned),
        };
        let largest = "a".repeat(SECRET_BYTES_MAX);
        assert!(request(Some(&largest), None).into_bytes().is_ok());
        for (wrong, why) in [
            (request(None, None), PutSecretError::NotOne),
            (request(Some("a"), Some("YQ==")), PutSecretError::NotOne),
            (request(None, Some("Y")), PutSecretError::NotBase64),
            (request(Some(""), None), PutSecretError::Empty),
            (request(Some(&(largest + "a")), None), PutSecretError::TooLarge),
        ] {
            assert_eq!(wrong.into_bytes(), Err(why));
        }
        let shown = format!("{:?}", PutSecret::of(b"5ec4e7"));
        assert!(!shown.contains("5ec4e7"), "{shown}");
    }
}
