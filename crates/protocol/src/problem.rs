//! Why an operation failed.

use serde::{Deserialize, Serialize};

/// The last frame of an operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind of failure, for a program.
    pub code: Code,
    /// What was attempted and why it failed, for a person; at most
    /// [`MESSAGE_BYTES_MAX`].
    pub message: String,
    /// The kernel's error number, where it was the kernel that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

/// Longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Kinds of failure that a caller acts on differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request says what cannot be done at all: a bad path, a bad number.
    Invalid,
    /// There is no such file, exec or port.
    NotFound,
    /// It is there already, or is something else: a directory, another command.
    Conflict,
    /// The sandbox's own rights or walls refuse it.
    Denied,
    /// The program is there but cannot be run.
    NotExecutable,
    /// A limit of the guest: how many execs, how much memory, how many entries.
    Limit,
    /// The disk is full.
    NoSpace,
    /// It did not happen in the time that the request gives it.
    TimedOut,
    /// This guest, or its tier, cannot do it.
    Unsupported,
    /// The kernel failed in another way.
    Failed,
}

impl Problem {
    /// A problem in words; a long message is cut.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { code, message, errno: None }
    }

    /// The same with the kernel's error number.
    #[must_use]
    pub fn with_errno(self, errno: Option<i32>) -> Self {
        Self { errno, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let problem = Problem::new(Code::Failed, "ü".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(problem.message.len(), MESSAGE_BYTES_MAX);
        let odd = format!("a{}", "ü".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(Problem::new(Code::Failed, odd).message.len(), MESSAGE_BYTES_MAX - 1);
    }
}
