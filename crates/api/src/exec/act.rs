//! What can be done to an exec.

use super::TerminalSize;
use crate::sandbox::{InvalidRequest, within};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

/// How long a cancelled exec may take to end where nothing is said, in milliseconds.
pub const GRACE_MS_DEFAULT: u64 = 5000;
/// Longest that a cancelled exec may be given, in milliseconds.
pub const GRACE_MS_MAX: u64 = 3_600_000;

/// Names of signals with their numbers on Linux, which are the same on all machines
/// that Atoll runs on.
const NAMES: [(&str, i32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// A signal: its name as `TERM` or `SIGTERM`, or its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(i32);

impl Signal {
    /// Kills at once.
    pub const KILL: Self = Self(9);
    /// Asks to end.
    pub const TERM: Self = Self(15);

    /// The signal of this number, if one can be sent.
    pub fn from_number(number: i32) -> Option<Self> {
        NAMES.iter().any(|(_, known)| *known == number).then_some(Self(number))
    }

    /// The signal of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("SIG").unwrap_or(name);
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| Self(*number))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, number)| *number == self.0).map(|(name, _)| *name);
        write!(f, "SIG{}", name.unwrap_or("?"))
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(self.0)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl Visitor<'_> for Read {
    type Value = Signal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a signal as TERM, SIGTERM or 15")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Signal, E> {
        Signal::from_name(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Signal, E> {
        let found = i32::try_from(number).ok().and_then(Signal::from_number);
        found.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Signal, E> {
        Err(E::invalid_value(Unexpected::Signed(number), &self))
    }
}

impl utoipa::PartialSchema for Signal {
    fn schema() -> RefOr<Schema> {
        let names: Vec<String> =
            NAMES.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("SIG{name}")]).collect();
        let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        let number =
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(31));
        let either = OneOfBuilder::new()
            .item(name)
            .item(number)
            .description(Some("A signal by its name or its number."));
        RefOr::T(Schema::OneOf(either.build()))
    }
}

impl utoipa::ToSchema for Signal {}

/// Who gets a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The command's process group; of a terminal the one in front.
    #[default]
    Group,
    /// Only the process that was started.
    Process,
    /// All that it started and that has not left its session.
    Session,
}

/// Asks for a signal to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalExec {
    /// Which signal.
    pub signal: Signal,
    /// Who gets it.
    #[serde(default)]
    pub target: Target,
}

/// Asks for an exec to be ended; `{}` is such a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelExec {
    /// The signal that asks it to end, `TERM` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// How long it may take, in milliseconds, before it is killed with all that it
    /// started. 5000 where nothing is said; 0 kills at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3_600_000)]
    pub grace_ms: Option<u64>,
}

impl CancelExec {
    /// Checks what can be judged without knowing the exec.
    ///
    /// # Errors
    /// For a grace that is too long.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        within("grace_ms", self.grace_ms.unwrap_or(0), 0, GRACE_MS_MAX)
    }
}

/// Asks for an exec's terminal to get another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeExec {
    /// Lines.
    #[schema(minimum = 1, maximum = 65535)]
    pub rows: u16,
    /// Characters in a line.
    #[schema(minimum = 1, maximum = 65535)]
    pub columns: u16,
}

impl ResizeExec {
    /// Checks the size.
    ///
    /// # Errors
    /// For a terminal without characters.
    pub fn validate(&self) -> Result<TerminalSize, InvalidRequest> {
        let size = TerminalSize { rows: self.rows, columns: self.columns };
        size.validate("rows", "columns").map(|()| size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_three_spellings() {
        for text in [r#""TERM""#, r#""SIGTERM""#, "15"] {
            assert_eq!(serde_json::from_str::<Signal>(text).unwrap(), Signal::TERM, "{text}");
        }
        assert_eq!(Signal::TERM.to_string(), "SIGTERM");
        for text in [r#""term""#, r#""SIG""#, r#""15""#, "0", "-9", "32", "64", "9.5", "null"] {
            assert!(serde_json::from_str::<Signal>(text).is_err(), "{text}");
        }
        for (index, (name, number)) in NAMES.iter().enumerate() {
            assert_eq!(i32::try_from(index + 1).unwrap(), *number);
            assert_eq!(Signal::from_name(name), Signal::from_number(*number));
        }
    }

    #[test]
    fn limits_are_named() {
        let cancel = CancelExec { grace_ms: Some(GRACE_MS_MAX + 1), ..CancelExec::default() };
        assert_eq!(cancel.validate().unwrap_err().field(), "grace_ms");
        let resize = ResizeExec { rows: 1, columns: 0 };
        assert_eq!(resize.validate().unwrap_err().field(), "columns");
    }
}
