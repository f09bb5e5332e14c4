//! What sandboxes have used.
//!
//! What is not measured is not there, rather than 0: memory where the host's control groups do
//! not count it, the network of a sandbox that has none.

use crate::id::SandboxId;
use crate::name::SandboxName;
use crate::sandbox::{Cursor, InvalidRequest, page_count, validate_labels};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What one sandbox has used in its whole life, however often it and its server were stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// Which sandbox.
    pub sandbox_id: SandboxId,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SandboxName>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was deleted, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// How much.
    pub used: Used,
    /// Its files, where it is asked about alone and they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUsage>,
}

/// Amounts that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Used {
    /// Processor time, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// Memory as its control group counts it, which is also what is cached of its files, times how
    /// long: MiB times seconds. It is looked at twice a minute, and more often at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib_seconds: Option<u64>,
    /// What went through the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}

/// What went through the gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NetworkUsage {
    /// Bytes that left, of bodies and of connections that are no HTTP.
    pub bytes_sent: u64,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Requests of HTTP that were let through.
    pub requests: u64,
    /// Other connections that were let through.
    pub connections: u64,
    /// Questions for names.
    pub questions: u64,
    /// Questions, connections and requests that were refused.
    pub denied: u64,
}

/// Files of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiskUsage {
    /// Bytes that they take on the host, without the image, which others have too.
    pub bytes: u64,
    /// When they were measured.
    pub measured_at: Timestamp,
    /// Whether all of them were seen: there may be too many, or too deep.
    pub is_complete: bool,
}

/// What several sandboxes have used together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageTotal {
    /// How many they are.
    pub sandboxes: u64,
    /// How much.
    pub used: Used,
}

/// Asks for what sandboxes have used, deleted ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListUsage {
    /// Only those that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// At most this many, 1 to [`crate::sandbox::PAGE_COUNT_MAX`].
    pub page_count: Option<usize>,
    /// What the previous page gave as `next`.
    pub cursor: Option<Cursor>,
}

/// A page of what sandboxes have used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsagePage {
    /// One by one, the oldest sandbox first.
    pub sandboxes: Vec<Usage>,
    /// Those that were deleted so long ago that they are only known together.
    pub older: UsageTotal,
    /// All that were asked for, on every page and older.
    pub total: UsageTotal,
    /// The cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

impl ListUsage {
    /// Checks the request and gives how many sandboxes a page has.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<usize, InvalidRequest> {
        validate_labels(&self.labels)?;
        page_count(self.page_count)
    }
}

impl Used {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let network = match (self.network, other.network) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        Self {
            cpu_us: sum(self.cpu_us, other.cpu_us),
            memory_mib_seconds: sum(self.memory_mib_seconds, other.memory_mib_seconds),
            network,
        }
    }
}

impl Used {
    /// How much more this is than it was before.
    #[must_use]
    pub fn less(self, before: Self) -> Self {
        let more = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        let had = before.network.unwrap_or_default();
        let network = self.network.map(|now| NetworkUsage {
            bytes_sent: now.bytes_sent.saturating_sub(had.bytes_sent),
            bytes_received: now.bytes_received.saturating_sub(had.bytes_received),
            requests: now.requests.saturating_sub(had.requests),
            connections: now.connections.saturating_sub(had.connections),
            questions: now.questions.saturating_sub(had.questions),
            denied: now.denied.saturating_sub(had.denied),
        });
        Self {
            cpu_us: more(self.cpu_us, before.cpu_us),
            memory_mib_seconds: more(self.memory_mib_seconds, before.memory_mib_seconds),
            network,
        }
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

impl NetworkUsage {
    fn and(self, other: Self) -> Self {
        Self {
            bytes_sent: self.bytes_sent.saturating_add(other.bytes_sent),
            bytes_received: self.bytes_received.saturating_add(other.bytes_received),
            requests: self.requests.saturating_add(other.requests),
            connections: self.connections.saturating_add(other.connections),
            questions: self.questions.saturating_add(other.questions),
            denied: self.denied.saturating_add(other.denied),
        }
    }
}

impl UsageTotal {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sandboxes: self.sandboxes.saturating_add(other.sandboxes),
            used: self.used.and(other.used),
        }
    }
}

/// The first line of [`csv`]: columns are only added, at the end.
pub const CSV_HEADER: &str = "sandbox_id,name,labels,created_at,deleted_at,sandboxes,cpu_us,\
    memory_mib_seconds,bytes_sent,bytes_received,requests,connections,questions,denied\r\n";

/// Usage as comma-separated values (RFC 4180), with a line for each sandbox and one for those that
/// are only known together, which has no id. Labels are a JSON object, so that a spreadsheet takes
/// none of them for a formula.
pub fn csv(sandboxes: &[Usage], older: UsageTotal) -> String {
    let mut text = CSV_HEADER.to_owned();
    for usage in sandboxes {
        let Usage { sandbox_id, name, labels, created_at, deleted_at, used, .. } = usage;
        // Labels have no control characters.
        let json = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let label =
            |(key, value): (&String, &String)| format!("\"{}\":\"{}\"", json(key), json(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = format!("{{{}}}", labels.join(","));
        let name = name.as_ref().map(ToString::to_string).unwrap_or_default();
        let deleted_at = deleted_at.map(|at| at.to_string()).unwrap_or_default();
        let labels = labels.replace('"', "\"\"");
        let who = format!("{sandbox_id},{name},\"{labels}\",{created_at},{deleted_at}");
        line(&mut text, &who, 1, used);
    }
    if older.sandboxes > 0 {
        line(&mut text, ",,,,", older.sandboxes, &older.used);
    }
    text
}

fn line(text: &mut String, who: &str, sandboxes: u64, used: &Used) {
    let Used { cpu_us, memory_mib_seconds, network } = *used;
    let amounts = [
        cpu_us,
        memory_mib_seconds,
        network.map(|network| network.bytes_sent),
        network.map(|network| network.bytes_received),
        network.map(|network| network.requests),
        network.map(|network| network.connections),
        network.map(|network| network.questions),
        network.map(|network| network.denied),
    ];
    let amounts = amounts.map(|amount| amount.map(|amount| amount.to_string()).unwrap_or_default());
    // A string takes all that is written to it.
    write!(text, "{who},{sandboxes},{}\r\n", amounts.join(",")).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ID_BYTES;

    #[test]
    fn lines_have_as_many_columns_as_the_header_and_nothing_is_a_formula() {
        let network = NetworkUsage { bytes_sent: 1, denied: 2, ..NetworkUsage::default() };
        let usage = Usage {
            sandbox_id: SandboxId::from_random([1; ID_BYTES]),
            name: Some("web".parse().unwrap()),
            labels: [("team".to_owned(), "=1+\"a\",b".to_owned())].into(),
            created_at: Timestamp::UNIX_EPOCH,
            deleted_at: None,
            used: Used { cpu_us: Some(5), memory_mib_seconds: None, network: Some(network) },
            disk: None,
        };
        let older = UsageTotal { sandboxes: 7, used: Used { cpu_us: Some(9), ..Used::default() } };
        let text = csv(std::slice::from_ref(&usage), older);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            lines[1..],
            [
                "sbx_01010101010101010101,web,\"{\"\"team\"\":\"\"=1+\\\"\"a\\\"\",b\"\"}\",\
                 1970-01-01T00:00:00Z,,1,5,,1,0,0,0,0,2",
                ",,,,,7,9,,,,,,,",
                "",
            ]
        );
        assert_eq!(lines[2].matches(',').count(), lines[0].matches(',').count());
        assert_eq!(csv(&[], UsageTotal::default()), CSV_HEADER);
    }

    #[test]
    fn what_nobody_measured_is_not_there_together_either() {
        let some = Used { cpu_us: Some(1), ..Used::default() };
        assert_eq!(some.and(some).cpu_us, Some(2));
        assert_eq!(some.and(Used::default()), some);
        assert_eq!(Used::default().and(Used::default()), Used::default());
    }
}
