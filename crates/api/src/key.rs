//! Keys of the API: what they allow, and how they are made, listed and revoked.

use crate::id::KeyId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a key begins; the rest is lower-case hexadecimal, so that every E2B SDK takes it.
pub const KEY_PREFIX: &str = "e2b_";
/// Most keys of a server.
pub const KEYS_COUNT_MAX: usize = 1000;
/// Longest note on a key, in characters.
pub const KEY_NOTE_CHARS_MAX: usize = 256;

/// What a caller may do. Each includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See everything but keys.
    Read,
    /// Make, use and delete sandboxes.
    Run,
    /// Make and revoke keys, set and delete secrets.
    Admin,
}

impl Scope {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Asks for a new key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// What it allows.
    pub scope: Scope,
    /// A note to know it by, without control characters.
    #[serde(default)]
    #[schema(max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub note: String,
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Key {
    /// Its id, which is no secret.
    pub id: KeyId,
    /// What it allows.
    pub scope: Scope,
    /// A note to know it by.
    pub note: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A key that was just made. `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewKey {
    /// What is known of it from now on.
    pub key: Key,
    /// The secret, which is shown this once: only its hash is kept.
    pub secret: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("key", &self.key).finish_non_exhaustive()
    }
}

/// All keys of a server, oldest first; there are at most 1000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<Key>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_ordered_and_have_one_word() {
        assert!(Scope::Read < Scope::Run && Scope::Run < Scope::Admin);
        for scope in [Scope::Read, Scope::Run, Scope::Admin] {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let key = Key {
            id: KeyId::from_random([0; crate::id::ID_BYTES]),
            scope: Scope::Run,
            note: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let shown = format!("{:?}", NewKey { key, secret: "e2b_5ec4e7".to_owned() });
        assert!(shown.contains("KeyId") && !shown.contains("5ec4e7"), "{shown}");
    }
}
