//! How types that are written as one string describe themselves to OpenAPI.

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};

/// A string, with its grammar where it has one.
pub(crate) fn string(
    description: &str,
    pattern: Option<&str>,
    format: Option<KnownFormat>,
    example: &str,
) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(pattern)
        .format(format.map(SchemaFormat::KnownFormat))
        .examples([example])
        .build()
        .into()
}

/// Gives a type the schema of a string.
macro_rules! string_schema {
    ($name:ty, $description:expr, $pattern:expr, $format:expr, $example:expr) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $crate::schema::string($description, $pattern, $format, $example)
            }
        }
        impl utoipa::ToSchema for $name {}
    };
}

pub(crate) use string_schema;
