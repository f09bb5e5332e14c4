//! Permissions, written as people write them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// The low 12 bits of a file's mode; on the wire an octal string, as `"0755"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode(u16);

/// A text that is no mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mode is written as up to four octal digits, as in 0644")]
pub struct ModeError;

impl Mode {
    /// The mode of these bits; higher ones are left out.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(u16::try_from(bits & 0o7777).expect("twelve bits fit"))
    }

    /// Its bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0.into()
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let is_octal = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let bits = if is_octal { u16::from_str_radix(text, 8).ok() } else { None };
        bits.map(Self).ok_or(ModeError)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    Mode,
    "The low 12 bits of a file's mode, in octal.",
    Some("^[0-7]{1,4}$"),
    None,
    "0644"
);
