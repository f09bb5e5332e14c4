//! Finding names, and lines in files.

use super::ENTRIES_COUNT_MAX;
use crate::octets::Octets;
use serde::{Deserialize, Serialize};

fn entries_max() -> u32 {
    ENTRIES_COUNT_MAX
}

/// Finds names below a directory. Links are not entered, nor other file systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// Below which.
    pub path: Octets,
    /// Which paths, as they are below it: `*` and `?` match no slash, `**` matches
    /// directories, and there are `[…]` and `{…,…}`. Names with a dot are matched too.
    pub pattern: String,
    /// Leave out what `.gitignore` files in and below the directory ignore, and `.git`.
    #[serde(default)]
    pub respects_ignore: bool,
    /// Most entries.
    #[serde(default = "entries_max")]
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: u32,
}

/// Finds lines in a file, or in those below a directory.
///
/// Links are not entered, nor other file systems. Files with a NUL byte are binary and
/// left out from there on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// In which file, or below which directory.
    pub path: Octets,
    /// A regular expression, in the syntax of Rust's `regex`: linear in time.
    pub pattern: String,
    /// The pattern is text and no expression.
    #[serde(default)]
    pub is_literal: bool,
    /// Letters match in either case.
    #[serde(default)]
    pub ignores_case: bool,
    /// Only in files that match one of these, as in `Glob`; one without a slash is
    /// matched with the name alone. All where there is none.
    #[serde(default)]
    pub include: Vec<String>,
    /// As in `Glob`.
    #[serde(default)]
    pub respects_ignore: bool,
    /// Most lines.
    #[serde(default = "entries_max")]
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: u32,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Match {
    /// The file, below the directory; empty for the file that was asked for.
    pub path: Octets,
    /// Which line, from 1.
    pub line: u64,
    /// Where in the line it begins, in bytes from 0.
    pub column: u64,
    /// The line without its end, cut where it is very long; what is not UTF-8 is
    /// replaced.
    pub text: String,
}

/// Lines that were found, sorted by path and line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Found {
    /// At most as many as were asked for.
    pub matches: Vec<Match>,
    /// There may be more.
    pub is_cut: bool,
    /// How many files were searched.
    pub searched: u64,
    /// How many were not, or not to their end.
    pub skipped: u64,
}
