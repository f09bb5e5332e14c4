//! Replacing text in a file.

use super::FileStat;
use crate::octets::Octets;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

/// Replaces text in a file, all of it or nothing.
///
/// Where somebody else has changed the file meanwhile that is a conflict, and so is
/// text that is not there as often as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Which; a regular file of at most 32 MiB, before and after. A last link is followed.
    pub path: Octets,
    /// What is done, each in what those before it have made.
    pub replacements: Vec<Replacement>,
}

/// One text in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// What is there: byte for byte, not a pattern, and not empty.
    #[schema(min_length = 1)]
    pub old: String,
    /// What is to be there.
    pub new: String,
    /// How often the old text must be there; once where nothing is said.
    #[serde(default)]
    pub expected: Expected,
}

/// How often something must be there: a number, or `"any"` for at least once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// So often.
    Exactly(u32),
    /// At least once.
    Any,
}

impl Default for Expected {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

impl Serialize for Expected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exactly(count) => serializer.serialize_u32(*count),
            Self::Any => serializer.serialize_str("any"),
        }
    }
}

impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl Visitor<'_> for Read {
    type Value = Expected;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or \"any\"")
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Expected, E> {
        u32::try_from(count).map(Expected::Exactly).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Expected, E> {
        match text {
            "any" => Ok(Expected::Any),
            text => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

impl utoipa::PartialSchema for Expected {
    fn schema() -> RefOr<Schema> {
        let count = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(u32::MAX));
        let any = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["any"]));
        let either = OneOfBuilder::new().item(count).item(any).description(Some(
            "How often something must be there: a number, or `any` for at least once.",
        ));
        RefOr::T(Schema::OneOf(either.build()))
    }
}

impl utoipa::ToSchema for Expected {}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Edited {
    /// The file that is there now.
    pub stat: FileStat,
    /// How often each text was there, in the order of the request.
    pub replaced: Vec<u32>,
}
