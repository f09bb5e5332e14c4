//! Bytes that are mostly text: paths, arguments.

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};

/// Bytes as the kernel takes them: any but NUL.
///
/// In JSON a string where they are UTF-8, else `{"hex": "…"}`; so every name that
/// a file can have is carried exactly, and ordinary ones stay readable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Octets(Vec<u8>);

/// Bytes with a NUL among them, which no name or argument can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has a NUL byte")]
pub struct HasNul;

impl Octets {
    /// Takes the bytes.
    ///
    /// # Errors
    ///
    /// [`HasNul`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, HasNul> {
        let bytes = bytes.into();
        if bytes.contains(&0) { Err(HasNul) } else { Ok(Self(bytes)) }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as the standard library has them.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes as a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    /// The bytes, owned.
    #[must_use]
    pub fn into_os_string(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl utoipa::PartialSchema for Octets {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^[^\x00]*$"));
        let hex = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^(0[1-9a-f]|[1-9a-f][0-9a-f])*$"));
        let bytes = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("hex", hex)
            .required("hex")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let either = OneOfBuilder::new().item(text).item(bytes).description(Some(
            "Bytes but NUL: a string where they are UTF-8, else their digits, as in \
             `{\"hex\": \"61ff\"}`.",
        ));
        RefOr::T(Schema::OneOf(either.build()))
    }
}

impl utoipa::ToSchema for Octets {}

impl TryFrom<&str> for Octets {
    type Error = HasNul;

    fn try_from(text: &str) -> Result<Self, HasNul> {
        Self::new(text)
    }
}

impl TryFrom<OsString> for Octets {
    type Error = HasNul;

    fn try_from(text: OsString) -> Result<Self, HasNul> {
        Self::new(text.into_vec())
    }
}

impl fmt::Debug for Octets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_os_str(), formatter)
    }
}

/// As people read it: what is not UTF-8 is replaced.
impl fmt::Display for Octets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_os_str().display(), formatter)
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Octets;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or {\"hex\": …} for bytes that are not UTF-8")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Octets, E> {
        Octets::new(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Octets, A::Error> {
        let Some((key, hex)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::missing_field("hex"));
        };
        if key != "hex" {
            return Err(A::Error::unknown_field(&key, &["hex"]));
        }
        if map.next_key::<String>()?.is_some() {
            return Err(A::Error::custom("one key is expected: hex"));
        }
        let bytes = decode_hex(&hex).ok_or_else(|| A::Error::custom("hex has an odd digit"))?;
        Octets::new(bytes).map_err(A::Error::custom)
    }
}

fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_is_carried_exactly(bytes in proptest::collection::vec(1..=255_u8, 0..40)) {
            let octets = Octets::new(bytes).unwrap();
            let json = serde_json::to_string(&octets).unwrap();
            prop_assert_eq!(serde_json::from_str::<Octets>(&json).unwrap(), octets);
        }
    }

    #[test]
    fn names_stay_readable_where_they_can() {
        let json = |bytes: &[u8]| serde_json::to_string(&Octets::new(bytes).unwrap()).unwrap();
        assert_eq!(json("grün.txt".as_bytes()), r#""grün.txt""#);
        assert_eq!(json(b"a\xff"), r#"{"hex":"61ff"}"#);
    }

    #[test]
    fn what_is_no_name_is_refused_with_a_reason() {
        let refused = [
            (r#""a\u0000b""#, "NUL"),
            (r#"{"hex":"6100"}"#, "NUL"),
            (r#"{"hex":"616"}"#, "odd digit"),
            (r#"{"hex":"g1"}"#, "odd digit"),
            (r#"{"hex":"61","hex":"62"}"#, "one key"),
            (r#"{"text":"a"}"#, "unknown field"),
            ("{}", "missing field"),
            ("1", "a string, or"),
        ];
        for (json, reason) in refused {
            let error = serde_json::from_str::<Octets>(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
