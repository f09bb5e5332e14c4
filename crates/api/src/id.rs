//! Ids: a prefix that says of what, and random digits.
//!
//! An id is no secret and gives no right to anything. It contains an underscore,
//! so it can never be taken for a [`SandboxName`](crate::name::SandboxName).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Random bytes in an id: 80 bits, so that a billion ids collide with a chance of one in a million.
pub const ID_BYTES: usize = 10;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the id of {what}: write {prefix} and {} digits or letters a to f",
    2 * ID_BYTES
)]
pub struct IdError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
    /// What the id would be of, as in "a sandbox".
    pub what: &'static str,
    /// How such an id begins.
    pub prefix: &'static str,
}

/// All kinds of id differ in nothing but what they are of.
macro_rules! id {
    ($name:ident, $prefix:literal, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; ID_BYTES]);

        impl $name {
            /// How an id of this kind begins.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id of bytes that the caller took from the system's random generator.
            pub const fn from_random(bytes: [u8; ID_BYTES]) -> Self {
                Self(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::PREFIX)?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix(Self::PREFIX).and_then(digits).map(Self).ok_or_else(|| IdError {
                    text: text.chars().take(64).collect(),
                    what: $what,
                    prefix: Self::PREFIX,
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        crate::schema::string_schema!(
            $name,
            $doc,
            Some(concat!("^", $prefix, "[0-9a-f]{20}$")),
            None,
            concat!($prefix, "0001020304050607abff")
        );
    };
}

id!(SandboxId, "sbx_", "a sandbox", "Names one sandbox for good: it is never given again.");
id!(KeyId, "key_", "an API key", "Names one key of the API; it is not the key's secret.");
id!(RequestId, "req_", "a request", "Names one request: in its answer and in the server's log.");
id!(ApprovalId, "apr_", "an approval", "Names one thing that a person is asked to approve.");
id!(SnapshotId, "snp_", "a snapshot", "Names one snapshot for good.");
id!(BuildId, "bld_", "a build", "Names one build of a template for good.");
id!(VolumeId, "vol_", "a volume", "Names one volume for good.");
id!(LayerId, "lay_", "a layer", "Names one layer of files on a host.");
id!(ArchiveId, "arc_", "an archive", "Names one archive for good.");
id!(ExecId, "exe_", "an exec", "Names one command that was started in a sandbox.");

/// Reads exactly `N` bytes, in lower case only, so that an id has one spelling.
pub(crate) fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_says_of_what_it_is() {
        let id = SandboxId::from_random([0, 1, 2, 3, 4, 5, 6, 7, 0xab, 0xff]);
        assert_eq!(id.to_string(), "sbx_0001020304050607abff");
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""sbx_0001020304050607abff""#);
    }

    #[test]
    fn whatever_else_is_refused() {
        for text in [
            "",
            "sbx_",
            "sbx_0001020304050607abf",
            "sbx_0001020304050607abfff",
            "sbx_0001020304050607ABFF",
            "sbx_0001020304050607abfg",
            "exe_0001020304050607abff",
            "0001020304050607abff",
            " sbx_0001020304050607abff",
            "sbx_é001020304050607abf",
        ] {
            assert!(text.parse::<SandboxId>().is_err(), "{text:?}");
        }
        assert_eq!(
            "web".parse::<ExecId>().unwrap_err().to_string(),
            r#""web" is not the id of an exec: write exe_ and 20 digits or letters a to f"#
        );
    }

    proptest! {
        #[test]
        fn an_id_reads_back(bytes: [u8; ID_BYTES]) {
            let id = SandboxId::from_random(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn what_is_read_is_the_one_spelling(text in "sbx_[0-9a-f]{18,22}|\\PC{0,30}") {
            if let Ok(id) = text.parse::<SandboxId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
