//! Waiting for something in a sandbox.

use crate::exec::Stream;
use crate::id::ExecId;
use serde::{Deserialize, Serialize};

/// Longest that a request waits, in milliseconds.
pub const WAIT_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Longest pattern of a line, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Longest path of a request over HTTP, in bytes.
pub const HTTP_PATH_BYTES_MAX: usize = 4096;

/// Waits for something, for a limited time.
///
/// `{"for": {"port": 5173}, "timeout_ms": 30000}` is such a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// For what: one of these.
    #[serde(rename = "for")]
    pub until: WaitFor,
    /// How long; 0 looks once.
    #[schema(maximum = 3600000)]
    pub timeout_ms: u64,
}

/// What can be waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitFor {
    /// Something listens on this port of its loopback, 1 to 65535.
    Port(u16),
    /// An exec prints a line, or has printed it.
    Log(LogLine),
    /// A port answers over HTTP.
    Http(HttpAnswer),
}

/// A line that an exec prints. What is not kept any more is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// Which exec.
    pub exec: ExecId,
    /// On which stream; on either where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// A regular expression, in the syntax of Rust's `regex`, that matches somewhere in
    /// the line. A line is looked at in pieces of 64 KiB.
    #[schema(min_length = 1, max_length = 4096)]
    pub pattern: String,
}

/// An answer to a request `GET`. Redirects are answers, and not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpAnswer {
    /// Of which port of its loopback.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
    /// What is asked for; `/` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4096, pattern = "^/[!-~]*$")]
    pub path: Option<String>,
    /// With this status; any below 500 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 200, maximum = 599)]
    pub status: Option<u16>,
}

/// What was waited for is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Waited {
    /// How long it took, in milliseconds.
    pub waited_ms: u64,
    /// The line, cut where it is very long; or the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
}

impl Wait {
    /// What is wrong with it: the field and why.
    pub fn flaw(&self) -> Option<(&'static str, &'static str)> {
        if self.timeout_ms > WAIT_TIMEOUT_MS_MAX {
            return Some(("timeout_ms", "is more than 3600000"));
        }
        match &self.until {
            WaitFor::Port(0) => Some(("for.port", "is 0")),
            WaitFor::Log(line) if line.pattern.is_empty() => Some(("for.log.pattern", "is empty")),
            WaitFor::Log(line) if line.pattern.len() > PATTERN_BYTES_MAX => {
                Some(("for.log.pattern", "is longer than 4096 bytes"))
            }
            WaitFor::Http(answer) => match answer.flaw()? {
                ("port", reason) => Some(("for.http.port", reason)),
                ("path", reason) => Some(("for.http.path", reason)),
                (_, reason) => Some(("for.http.status", reason)),
            },
            WaitFor::Port(_) | WaitFor::Log(_) => None,
        }
    }
}

impl HttpAnswer {
    /// What is wrong with it: the field and why.
    pub(crate) fn flaw(&self) -> Option<(&'static str, &'static str)> {
        if self.port == 0 {
            return Some(("port", "is 0"));
        }
        if self.path.as_ref().is_some_and(|path| !is_target(path)) {
            return Some(("path", "is not a path of at most 4096 printable characters"));
        }
        if self.status.is_some_and(|status| !(200..600).contains(&status)) {
            return Some(("status", "is not between 200 and 599"));
        }
        None
    }
}

/// Whether a path is one that a request can name, and no second header with it.
fn is_target(path: &str) -> bool {
    path.starts_with('/')
        && path.len() <= HTTP_PATH_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(json: &str) -> Option<&'static str> {
        serde_json::from_str::<Wait>(json).unwrap().flaw().map(|(field, _)| field)
    }

    #[test]
    fn requests_as_they_are_written() {
        for json in [
            r#"{"for":{"port":5173},"timeout_ms":0}"#,
            r#"{"for":{"log":{"exec":"exe_0001020304050607abff","pattern":"ready"}},"timeout_ms":1}"#,
            r#"{"for":{"http":{"port":80,"path":"/a?b=c","status":204}},"timeout_ms":3600000}"#,
        ] {
            assert_eq!(flaw(json), None, "{json}");
        }
        for (json, field) in [
            (r#"{"for":{"port":0},"timeout_ms":1}"#, "for.port"),
            (r#"{"for":{"port":1},"timeout_ms":3600001}"#, "timeout_ms"),
            (r#"{"for":{"http":{"port":1,"path":"/a\r\nx: y"}},"timeout_ms":1}"#, "for.http.path"),
            (r#"{"for":{"http":{"port":1,"path":"a"}},"timeout_ms":1}"#, "for.http.path"),
            (r#"{"for":{"http":{"port":1,"status":100}},"timeout_ms":1}"#, "for.http.status"),
        ] {
            assert_eq!(flaw(json), Some(field), "{json}");
        }
        for json in [
            r#"{"for":{"port":1,"http":{"port":1}},"timeout_ms":1}"#,
            r#"{"for":{},"timeout_ms":1}"#,
            r#"{"for":{"port":70000},"timeout_ms":1}"#,
            r#"{"for":{"port":1}}"#,
        ] {
            assert!(serde_json::from_str::<Wait>(json).is_err(), "{json}");
        }
    }
}
