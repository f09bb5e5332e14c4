//! What can be wrong in a document.

use super::MAX_DOCUMENT_BYTES;
use crate::exec::ExecPatternError;
use crate::policy::pattern::PatternError;
use crate::policy::value::{ValueError, suggest};
use std::fmt;

/// One problem in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What is wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseErrorKind {
    /// Longer than [`MAX_DOCUMENT_BYTES`].
    #[error("the document has {bytes} bytes, more than {MAX_DOCUMENT_BYTES}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// TOML is UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// Not TOML.
    #[error("{message}")]
    Syntax {
        /// What the TOML reader says.
        message: String,
    },
    /// A table that does not exist.
    #[error("unknown table [{name}]{}", suggest(.did_you_mean.as_deref()))]
    UnknownSection {
        /// As written.
        name: String,
        /// The nearest that exists.
        did_you_mean: Option<String>,
    },
    /// A key outside a table.
    #[error("{name:?} stands outside a table{}", in_table(.section.as_deref()))]
    Loose {
        /// As written.
        name: String,
        /// The table that has such a key.
        section: Option<String>,
    },
    /// A key that its table does not have.
    #[error("unknown key {name:?} in [{section}]{}", suggest(.did_you_mean.as_deref()))]
    UnknownKey {
        /// The table.
        section: String,
        /// As written.
        name: String,
        /// The nearest that exists: in this table, else in another (`limits.memory`).
        did_you_mean: Option<String>,
    },
    /// Another kind of value was needed.
    #[error("{key} must be {expected}, not {found}")]
    WrongType {
        /// Table and key.
        key: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// The kind is right, the value is not.
    #[error("{key}: {problem}")]
    Value {
        /// Table and key.
        key: String,
        /// What is wrong.
        problem: ValueError,
    },
    /// The pattern cannot be understood.
    #[error("{key}: {problem}")]
    Pattern {
        /// Table and key.
        key: String,
        /// What is wrong.
        problem: PatternError,
    },
    /// The pattern of commands cannot be understood.
    #[error("{key}: {problem}")]
    Command {
        /// Table and key.
        key: String,
        /// What is wrong.
        problem: ExecPatternError,
    },
}

fn in_table(section: Option<&str>) -> String {
    section.map(|section| format!("; write it under [{section}]")).unwrap_or_default()
}

/// All problems of one document, by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseErrors(pub Vec<ParseError>);

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseErrors {}
