//! Points in time, as they are written and kept.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::fmt;
use std::time::Duration;

/// A point in time to the microsecond: RFC 3339 in UTC on the wire.
///
/// Finer digits are cut off when one is made, so that what is written reads
/// back as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp(jiff::Timestamp);

/// A number of microseconds that is no point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{unix_us} us after 1970 is not between the years -9999 and 9999")]
pub struct TimestampError {
    /// The number.
    pub unix_us: i64,
}

impl Timestamp {
    /// The last time that can be written: jiff has one more second, of which it
    /// takes no microseconds.
    const LAST_UNIX_US: i64 = 253_402_207_200_000_000;

    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// From microseconds since 1970, negative before.
    ///
    /// # Errors
    /// Outside the years -9999 to 9999.
    pub fn from_unix_us(unix_us: i64) -> Result<Self, TimestampError> {
        let time = jiff::Timestamp::from_microsecond(unix_us);
        time.map(Self).map_err(|_| TimestampError { unix_us })
    }

    /// Microseconds since 1970, negative before.
    pub fn unix_us(self) -> i64 {
        self.0.as_microsecond()
    }

    /// The time `span` later, or the last one that can be written.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        i64::try_from(span.as_micros())
            .ok()
            .and_then(|span_us| self.unix_us().checked_add(span_us))
            .and_then(|unix_us| Self::from_unix_us(unix_us).ok())
            .unwrap_or_else(|| jiff::Timestamp::MAX.into())
    }

    /// The time `span` earlier, or the first one that can be written.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        i64::try_from(span.as_micros())
            .ok()
            .and_then(|span_us| self.unix_us().checked_sub(span_us))
            .and_then(|unix_us| Self::from_unix_us(unix_us).ok())
            .unwrap_or_else(|| jiff::Timestamp::MIN.into())
    }

    /// How long this is after `earlier`; nothing if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        let span_us = self.unix_us().saturating_sub(earlier.unix_us());
        Duration::from_micros(u64::try_from(span_us).unwrap_or(0))
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        let unix_us = time.as_microsecond().min(Self::LAST_UNIX_US);
        Self(jiff::Timestamp::from_microsecond(unix_us).expect("microseconds of a time are one"))
    }
}

crate::schema::string_schema!(
    Timestamp,
    "A point in time to the microsecond: RFC 3339 in UTC.",
    None,
    Some(utoipa::openapi::KnownFormat::DateTime),
    "2026-11-30T01:10:00.123456Z"
);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(|time: jiff::Timestamp| time.into()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_utc_and_cut_to_microseconds() {
        let read = |text: &str| serde_json::from_str::<Timestamp>(&format!("{text:?}"));
        let time = read("2026-11-30T03:10:00.1234567+02:00").unwrap();
        assert_eq!(time.to_string(), "2026-11-30T01:10:00.123456Z");
        let last = read("9999-12-30T22:00:00.999999999Z").unwrap();
        assert_eq!(Timestamp::from_unix_us(last.unix_us()), Ok(last));
        assert!(read("2026-11-30").is_err());
        assert!(read("yesterday").is_err());
    }

    #[test]
    fn sums_stop_at_the_end_of_time() {
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(start.after(Duration::from_secs(2)).since(start), Duration::from_secs(2));
        assert_eq!(start.since(start.after(Duration::from_secs(2))), Duration::ZERO);
        assert_eq!(start.after(Duration::MAX), start.after(Duration::MAX).after(Duration::MAX));
    }

    proptest! {
        #[test]
        fn a_time_reads_back(unix_us in -200_000_000_000_000_000i64..200_000_000_000_000_000) {
            let time = Timestamp::from_unix_us(unix_us).unwrap();
            let text = serde_json::to_string(&time).unwrap();
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), time);
            prop_assert_eq!(time.unix_us(), unix_us);
        }
    }
}
