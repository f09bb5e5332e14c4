//! Lists of sandboxes, page by page.

use super::create::{not_more, validate_labels};
use super::{InvalidRequest, Sandbox, State};
use crate::id::SandboxId;
use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Sandboxes on a page if the request does not say.
pub const PAGE_COUNT_DEFAULT: usize = 100;
/// Most sandboxes on a page.
pub const PAGE_COUNT_MAX: usize = 1000;

/// Asks for a page of sandboxes, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSandboxes {
    /// Only those in one of these states; any if empty.
    #[serde(default)]
    pub states: Vec<State>,
    /// Only those that have all of these labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// At most this many, 1 to [`PAGE_COUNT_MAX`].
    #[serde(default)]
    pub page_count: Option<usize>,
    /// What the previous page gave as `next`.
    #[serde(default)]
    pub cursor: Option<Cursor>,
}

/// How many a page has, of whatever is listed.
///
/// # Errors
/// None, or more than [`PAGE_COUNT_MAX`].
pub(crate) fn page_count(asked: Option<usize>) -> Result<usize, InvalidRequest> {
    let (count, field) = (asked.unwrap_or(PAGE_COUNT_DEFAULT), "page_count");
    if count == 0 {
        return Err(InvalidRequest::TooSmall { field: field.to_owned(), found: 0, least: 1 });
    }
    not_more(field, count, PAGE_COUNT_MAX)?;
    Ok(count)
}

impl ListSandboxes {
    /// Checks the request and gives how many sandboxes a page has.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<usize, InvalidRequest> {
        validate_labels(&self.labels)?;
        page_count(self.page_count)
    }

    /// Whether the request asks for `sandbox`, its cursor aside.
    pub fn wants(&self, sandbox: &Sandbox) -> bool {
        (self.states.is_empty() || self.states.contains(&sandbox.state))
            && self.labels.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value))
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxPage {
    /// The sandboxes, oldest first.
    pub sandboxes: Vec<Sandbox>,
    /// The cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// A place in the list: behind one sandbox, whether that one is still there or not.
///
/// Its text means nothing to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    created_at: Timestamp,
    id: SandboxId,
}

crate::schema::string_schema!(
    Cursor,
    "A place in a list. Its text means nothing to clients.",
    None,
    None,
    "1796000000000000.sbx_0001020304050607abff"
);

/// A text that no page gave as its cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of a list; leave it away to begin with the first page")]
pub struct CursorError;

impl Cursor {
    /// The place of a sandbox in the list: lists are in this order.
    pub fn of(created_at: Timestamp, id: SandboxId) -> Self {
        Self { created_at, id }
    }

    /// Behind which sandbox it is: when that was asked for, and its id.
    pub fn place(self) -> (Timestamp, SandboxId) {
        (self.created_at, self.id)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at.unix_us(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (unix_us, id) = text.split_once('.').ok_or(CursorError)?;
        let unix_us = unix_us.parse().map_err(|_| CursorError)?;
        let created_at = Timestamp::from_unix_us(unix_us).map_err(|_| CursorError)?;
        Ok(Self { created_at, id: id.parse().map_err(|_| CursorError)? })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ID_BYTES;
    use proptest::prelude::*;

    #[test]
    fn a_page_has_a_size() {
        let ask =
            |count| ListSandboxes { page_count: count, ..ListSandboxes::default() }.validate();
        assert_eq!(ask(None), Ok(PAGE_COUNT_DEFAULT));
        assert_eq!(ask(Some(PAGE_COUNT_MAX)), Ok(PAGE_COUNT_MAX));
        assert_eq!(ask(Some(0)).unwrap_err().field(), "page_count");
        assert_eq!(
            ask(Some(PAGE_COUNT_MAX + 1)).unwrap_err().to_string(),
            "page_count has 1001 entries, and at most 1000 are accepted"
        );
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in ["", ".", "1", "1.sbx_", "x.sbx_0001020304050607abff"] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_reads_back(us in 0i64..4_000_000_000_000_000, bytes: [u8; ID_BYTES]) {
            let time = Timestamp::from_unix_us(us).unwrap();
            let cursor = Cursor::of(time, SandboxId::from_random(bytes));
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }
}
