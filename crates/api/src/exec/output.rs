//! What an exec printed, in JSON.

use super::Exec;
use crate::denial::Denial;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Most bytes of one stream that are answered at once, a quarter of them from its head.
pub const RESULT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes that a command printed: text where they are UTF-8, else base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The bytes as they are.
    Text(String),
    /// The bytes in base64 (RFC 4648, section 4).
    #[schema(value_type = String)]
    Base64(#[serde(serialize_with = "encode", deserialize_with = "decode")] Vec<u8>),
}

impl Output {
    /// Says these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(error.into_bytes()),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Base64(bytes) => bytes,
        }
    }

    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Base64(bytes) => bytes,
        }
    }
}

fn encode<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// What is there of a stream: all of it, or its head and its tail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Kept {
    /// The first bytes.
    pub head: Output,
    /// How many bytes behind these are not here. Where they are more than
    /// `dropped_bytes` of the exec's stream, the others can be read from the raw stream.
    pub dropped_bytes: u64,
    /// The last bytes; only where bytes between are not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Output>,
}

/// An exec and what it printed so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExecResult {
    /// The exec. Its state says whether this is all.
    pub exec: Exec,
    /// Its standard output, or what its terminal shows.
    pub stdout: Kept,
    /// Its standard error.
    pub stderr: Kept,
    /// What its sandbox was refused on its way out while it ran: the last 50. Another command of
    /// that time may have been the one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn output_is_text_or_base64() {
        let text = Output::new("grün\0".into());
        assert_eq!(serde_json::to_value(&text).unwrap(), json!({"text": "grün\0"}));
        let bytes = Output::new(vec![0xff, b'a']);
        assert_eq!(serde_json::to_value(&bytes).unwrap(), json!({"base64": "/2E="}));
        for output in [text, bytes] {
            let json = serde_json::to_string(&output).unwrap();
            assert_eq!(serde_json::from_str::<Output>(&json).unwrap(), output);
        }
        assert!(serde_json::from_str::<Output>(r#"{"base64": "/2E"}"#).is_err());
    }
}
