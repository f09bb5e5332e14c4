//! Budgets: how much may be used before work is stopped.
//!
//! A sandbox can have one of its own, for its whole life; and the operator of a server can give
//! some to all sandboxes with certain labels together, each time anew for a day, or once.
//! What is used is what [`crate::usage`] tells, so only processor time that was used counts, not
//! how long a sandbox was there.

use crate::policy::{Bytes, ValueError, parse_duration};
use crate::sandbox::{InvalidRequest, NUMBER_MAX, within};
use crate::time::Timestamp;
use crate::usage::Used;
use jiff::ToSpan as _;
use jiff::civil::{DateTime, Time};
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The most that may be used; what is not named has no end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Processor time, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub cpu_us: Option<u64>,
    /// Memory times how long: MiB times seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub memory_mib_seconds: Option<u64>,
    /// Bytes that leave by the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub bytes_sent: Option<u64>,
    /// Bytes that come by the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub bytes_received: Option<u64>,
}

/// Something that a budget had and that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdrawn {
    /// The field of the budget, as in `cpu_us`.
    pub what: &'static str,
    /// How much there was.
    pub most: u64,
    /// How much was used.
    pub used: u64,
}

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, of {}", self.what, self.used, self.most)
    }
}

impl Budget {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its fields by name.
    pub fn fields(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("cpu_us", self.cpu_us),
            ("memory_mib_seconds", self.memory_mib_seconds),
            ("bytes_sent", self.bytes_sent),
            ("bytes_received", self.bytes_received),
        ]
    }

    /// The first that is used up: nothing of it is left.
    pub fn overdrawn(&self, used: &Used) -> Option<Overdrawn> {
        let network = used.network.unwrap_or_default();
        let used = [
            used.cpu_us.unwrap_or(0),
            used.memory_mib_seconds.unwrap_or(0),
            network.bytes_sent,
            network.bytes_received,
        ];
        self.fields().into_iter().zip(used).find_map(|((what, most), used)| {
            most.filter(|&most| used >= most).map(|most| Overdrawn { what, most, used })
        })
    }

    /// Reads one amount as people write it: `cpu=TIME`, `memory=SIZE*TIME`, `sent=SIZE` or
    /// `received=SIZE`.
    ///
    /// # Errors
    /// Says what it has to look like.
    pub fn parse_amount(text: &str) -> Result<Self, String> {
        let form = "write cpu=TIME, memory=SIZE*TIME, sent=SIZE or received=SIZE";
        let (name, value) = text.split_once('=').ok_or(form)?;
        let size = |value: &str| value.parse().map(|Bytes(bytes)| Some(bytes));
        let mut budget = Self::default();
        match name {
            "cpu" => {
                let time = parse_duration(value).map_err(|error| error.to_string())?;
                budget.cpu_us = u64::try_from(time.as_micros()).ok();
            }
            "memory" => budget.memory_mib_seconds = Some(parse_memory(value)?),
            "sent" => budget.bytes_sent = size(value).map_err(|error| error.to_string())?,
            "received" => budget.bytes_received = size(value).map_err(|error| error.to_string())?,
            _ => return Err(form.to_owned()),
        }
        budget.validate("it").map_err(|error| error.to_string())?;
        Ok(budget)
    }

    /// Both together; nothing if both have the same amount.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(_), Some(_)) => None,
            (one, other) => Some(one.or(other)),
        };
        Some(Self {
            cpu_us: both(self.cpu_us, other.cpu_us)?,
            memory_mib_seconds: both(self.memory_mib_seconds, other.memory_mib_seconds)?,
            bytes_sent: both(self.bytes_sent, other.bytes_sent)?,
            bytes_received: both(self.bytes_received, other.bytes_received)?,
        })
    }

    /// What this says, and what the other says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.or(other.cpu_us),
            memory_mib_seconds: self.memory_mib_seconds.or(other.memory_mib_seconds),
            bytes_sent: self.bytes_sent.or(other.bytes_sent),
            bytes_received: self.bytes_received.or(other.bytes_received),
        }
    }

    /// Checks what can be judged without knowing the server. `field` is where it stands.
    ///
    /// # Errors
    /// Gives the first amount that makes no sense.
    pub fn validate(&self, field: &str) -> Result<(), InvalidRequest> {
        self.fields().into_iter().try_for_each(|(name, most)| {
            most.map_or(Ok(()), |most| within(&format!("{field}.{name}"), most, 1, NUMBER_MAX))
        })
    }
}

/// Reads memory times how long, as in `2GiB*1h`, and gives MiB times seconds.
///
/// # Errors
/// Says what it has to look like.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let (size, time) = text
        .split_once('*')
        .ok_or_else(|| format!("{text} is no memory over time: write SIZE*TIME, as in 2GiB*1h"))?;
    let Bytes(bytes) = size.parse().map_err(|error: ValueError| error.to_string())?;
    let time = parse_duration(time).map_err(|error| error.to_string())?;
    let all = u128::from(bytes) * time.as_millis() / (1000 << 20);
    u64::try_from(all).map_err(|_| format!("{text} is too much"))
}

/// For how long a budget of a server is, each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// From full hour to full hour.
    Hour,
    /// From midnight to midnight, UTC.
    Day,
    /// From Monday to Monday, UTC.
    Week,
    /// From the first of a month to the next, UTC.
    Month,
}

impl BudgetPeriod {
    /// The one that `at` is in: its beginning, and that of the next.
    pub fn around(self, at: Timestamp) -> (Timestamp, Timestamp) {
        let failed = "a period around a time that can be written begins at one";
        let at = jiff::Timestamp::from_microsecond(at.unix_us()).expect(failed);
        let now = Offset::UTC.to_datetime(at);
        let midnight = now.date().to_datetime(Time::midnight());
        let (from, span) = match self {
            Self::Hour => {
                let hour = Time::constant(now.hour(), 0, 0, 0);
                (now.date().to_datetime(hour), 1.hour())
            }
            Self::Day => (midnight, 1.day()),
            Self::Week => {
                let days = i64::from(now.weekday().to_monday_zero_offset());
                (midnight.saturating_sub(days.days()), 7.days())
            }
            Self::Month => {
                let first = now.date().first_of_month();
                (first.to_datetime(Time::midnight()), 1.month())
            }
        };
        let time = |civil: DateTime| {
            Timestamp::from(Offset::UTC.to_timestamp(civil).unwrap_or(jiff::Timestamp::MAX))
        };
        (time(from), time(from.saturating_add(span)))
    }
}

/// A budget that all sandboxes with certain labels have together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SharedBudget {
    /// What the operator calls it.
    pub name: String,
    /// It is of the sandboxes that have all of these labels; of all if there are none.
    pub labels: BTreeMap<String, String>,
    /// How much there is.
    pub budget: Budget,
    /// For how long, each time; for ever where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<BudgetPeriod>,
    /// How much was used of it in this period.
    pub used: Used,
    /// The amount that is used up, as in `cpu_us`; nothing starts until there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdrawn: Option<String>,
    /// When there is a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews_at: Option<Timestamp>,
}

/// All budgets that sandboxes of a server have together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Budgets {
    /// By name.
    pub budgets: Vec<SharedBudget>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::NetworkUsage;

    #[test]
    fn what_is_used_up_is_found_whichever_it_is_and_not_before() {
        let network = NetworkUsage { bytes_sent: 7, bytes_received: 8, ..NetworkUsage::default() };
        let used = Used { cpu_us: Some(5), memory_mib_seconds: Some(6), network: Some(network) };
        let enough = Budget {
            cpu_us: Some(6),
            memory_mib_seconds: Some(7),
            bytes_sent: Some(8),
            bytes_received: Some(9),
        };
        assert_eq!(enough.overdrawn(&used), None);
        assert_eq!(Budget::default().overdrawn(&used), None);
        for (budget, what, used_up) in [
            (Budget { cpu_us: Some(5), ..enough }, "cpu_us", 5),
            (Budget { memory_mib_seconds: Some(1), ..enough }, "memory_mib_seconds", 6),
            (Budget { bytes_sent: Some(7), ..enough }, "bytes_sent", 7),
            (Budget { bytes_received: Some(2), ..enough }, "bytes_received", 8),
        ] {
            let found = budget.overdrawn(&used).unwrap();
            assert_eq!((found.what, found.used), (what, used_up));
            assert_eq!(budget.overdrawn(&Used::default()), None);
        }
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, budget) in [
            ("cpu=1m", Budget { cpu_us: Some(60_000_000), ..Budget::default() }),
            (
                "memory=2GiB*1h",
                Budget { memory_mib_seconds: Some(2048 * 3600), ..Budget::default() },
            ),
            ("sent=1KiB", Budget { bytes_sent: Some(1024), ..Budget::default() }),
            ("received=5", Budget { bytes_received: Some(5), ..Budget::default() }),
        ] {
            assert_eq!(Budget::parse_amount(text), Ok(budget));
            assert_eq!(budget.and(budget), None, "said twice");
        }
        for text in
            ["", "cpu", "cpu=", "cpu=0s", "disk=1", "memory=1GiB", "memory=1*2*3s", "sent=-1"]
        {
            assert!(Budget::parse_amount(text).is_err(), "{text}");
        }
        assert!(parse_memory("16777215TiB*100000d").is_err());
    }

    #[test]
    fn periods_are_those_of_the_calendar_and_follow_each_other() {
        let time = |text: &str| serde_json::from_value::<Timestamp>(text.into()).unwrap();
        let at = time("2028-02-29T13:14:15.5Z");
        for (period, from, until) in [
            (BudgetPeriod::Hour, "2028-02-29T13:00:00Z", "2028-02-29T14:00:00Z"),
            (BudgetPeriod::Day, "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"),
            (BudgetPeriod::Week, "2028-02-28T00:00:00Z", "2028-03-06T00:00:00Z"),
            (BudgetPeriod::Month, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        ] {
            let around = (time(from), time(until));
            assert_eq!(period.around(at), around, "{period:?}");
            assert_eq!(period.around(around.0), around, "the first moment belongs to it");
            assert_eq!(period.around(around.1).0, around.1, "the next one begins where it ends");
        }
        for period in [BudgetPeriod::Hour, BudgetPeriod::Month] {
            let last = Timestamp::from(jiff::Timestamp::MAX);
            let (from, until) = period.around(last);
            assert!(from <= last && last <= until, "{period:?}: {from} {until}");
        }
    }

    #[test]
    fn amounts_that_make_no_sense_are_refused_with_their_name() {
        let none = Budget { bytes_sent: Some(0), ..Budget::default() };
        assert_eq!(none.validate("budget").unwrap_err().field(), "budget.bytes_sent");
        let many = Budget { cpu_us: Some(NUMBER_MAX + 1), ..Budget::default() };
        assert_eq!(many.validate("budget").unwrap_err().field(), "budget.cpu_us");
        assert_eq!(Budget { cpu_us: Some(NUMBER_MAX), ..Budget::default() }.validate("x"), Ok(()));
    }
}
