//! Ports of a sandbox: what listens, and who may reach it from outside.

use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Most ports of one sandbox that are exposed at once.
pub const EXPOSURES_COUNT_MAX: usize = 64;
/// Random bytes in the token of a preview: 128 bits.
pub const PREVIEW_TOKEN_BYTES: usize = 16;
/// The header in which a program may send the token of a preview, so that it is not
/// part of an address.
pub const PREVIEW_TOKEN_HEADER: &str = "atoll-preview-token";

/// Who may use a preview.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Whoever has its token, which is part of its address.
    #[default]
    Private,
    /// Whoever knows the sandbox's id, which is no secret.
    Public,
}

impl Visibility {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// Asks for a port to be exposed; `{}` is such a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExposePort {
    /// Who may use it.
    #[serde(default)]
    pub visibility: Visibility,
    /// After how many milliseconds it is not exposed any more; without it, until it is
    /// taken back or the sandbox is deleted.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub expires_in_ms: Option<u64>,
}

/// A port that is exposed, and where. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Preview {
    /// The port.
    #[schema(minimum = 1)]
    pub port: u16,
    /// Who may use it.
    pub visibility: Visibility,
    /// Where it is, as a host of its own: what browsers need. With a token where it is
    /// private and whoever asks may use sandboxes.
    pub url: String,
    /// Where it is below the server's own address, for programs and where names below
    /// the domain of previews are not resolved.
    pub path_url: String,
    /// The token of a private preview. Whoever may only see is not shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<PreviewToken>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preview")
            .field("port", &self.port)
            .field("visibility", &self.visibility)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A port on which something listens, or that is exposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Port {
    /// The port.
    #[schema(minimum = 1)]
    pub port: u16,
    /// Whether something listens; in a sandbox that does not run, nothing does.
    pub is_listening: bool,
    /// It accepts connections to every address, not only to loopback.
    pub is_any_address: bool,
    /// Where it is exposed, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
}

/// The ports of a sandbox, lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Ports {
    /// The ports.
    pub ports: Vec<Port>,
}

/// What opens a private preview. `Debug` does not show it; where one is checked it is
/// compared in constant time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PreviewToken([u8; PREVIEW_TOKEN_BYTES]);

impl PreviewToken {
    /// Makes one of bytes that the caller took from the system's random generator.
    pub const fn from_random(bytes: [u8; PREVIEW_TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be compared.
    pub const fn bytes(&self) -> &[u8; PREVIEW_TOKEN_BYTES] {
        &self.0
    }
}

/// A text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a preview's token is {} digits or letters a to f", 2 * PREVIEW_TOKEN_BYTES)]
pub struct PreviewTokenError;

impl fmt::Debug for PreviewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreviewToken(..)")
    }
}

impl fmt::Display for PreviewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PreviewToken {
    type Err = PreviewTokenError;

    fn from_str(text: &str) -> Result<Self, PreviewTokenError> {
        crate::id::digits(text).map(Self).ok_or(PreviewTokenError)
    }
}

impl Serialize for PreviewToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PreviewToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    PreviewToken,
    "Opens a private preview.",
    Some("^[0-9a-f]{32}$"),
    None,
    "000102030405060708090a0b0c0d0e0f"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> PreviewToken {
        PreviewToken::from_random([0x5e; PREVIEW_TOKEN_BYTES])
    }

    #[test]
    fn a_token_has_one_spelling() {
        let text = "5e".repeat(16);
        assert_eq!(token().to_string(), text);
        assert_eq!(text.parse(), Ok(token()));
        for wrong in ["", &text[1..], &format!("{text}5e"), &text.to_uppercase()] {
            assert!(wrong.parse::<PreviewToken>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn debug_shows_no_token() {
        let preview = Preview {
            port: 80,
            visibility: Visibility::Private,
            url: format!("http://80-x-{}.localhost/", token()),
            path_url: format!("http://localhost/preview/80-x-{}/", token()),
            token: Some(token()),
            expires_at: None,
        };
        let shown = format!("{preview:?} {:?}", token());
        assert!(shown.contains("Private") && !shown.contains("5e5e"), "{shown}");
    }

    #[test]
    fn an_empty_request_is_private_and_unknown_fields_are_refused() {
        assert_eq!(serde_json::from_str::<ExposePort>("{}").unwrap(), ExposePort::default());
        assert!(serde_json::from_str::<ExposePort>(r#"{"visible":"public"}"#).is_err());
    }
}
