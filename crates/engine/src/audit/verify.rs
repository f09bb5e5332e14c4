//! Whether a log is as it was written.

use super::AuditError;
use super::line::{self, Hash, LINE_BYTES_MAX};
use super::read::files;
use atoll_api::audit::AuditKind;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// What a log turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every line is what was written, in its order.
    Whole(Whole),
    /// From this line on it is not.
    Broken(Broken),
}

/// A log that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The number of the first record that is kept; older ones have made room, or it is 1.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The hash of the last, which stands for all before it.
    pub hash: Hash,
    /// A hash that was to be found is there.
    pub has_known: bool,
    /// Bytes behind the last whole line: it is being written, or was cut short.
    pub torn_bytes: u64,
}

/// Where a log is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// The number that the record should have.
    pub seq: u64,
    /// What is wrong.
    pub why: &'static str,
}

/// Looks through a whole log, also while it is written; `known` is a hash that has to be in it.
///
/// # Errors
/// If it cannot be read.
pub fn verify(folder: &Path, known: Option<Hash>) -> Result<Verdict, AuditError> {
    let all = files(folder)?;
    let first = all.first().map_or(1, |(first, _)| *first);
    let (mut seq, mut hash) = (first - 1, None);
    let mut has_known = known == Some(Hash::START) && first == 1;
    let mut torn_bytes = 0;
    for (place, (begins, path)) in all.iter().enumerate() {
        let failed = |source| AuditError { step: "read", path: path.clone(), source };
        let broken =
            |line, seq, why| Ok(Verdict::Broken(Broken { path: path.clone(), line, seq, why }));
        if *begins != seq + 1 {
            return broken(1, seq + 1, "records are missing before it");
        }
        let mut lines = BufReader::new(File::open(path).map_err(failed)?);
        let mut number = 0;
        loop {
            let mut line = Vec::new();
            let most = LINE_BYTES_MAX as u64;
            lines.by_ref().take(most).read_until(b'\n', &mut line).map_err(failed)?;
            let is_last = place + 1 == all.len();
            if line.last() != Some(&b'\n') {
                torn_bytes = line.len() as u64;
                let is_torn = torn_bytes < most && is_last;
                if !is_torn && (torn_bytes > 0 || number == 0) {
                    return broken(number + 1, seq + 1, "it is no line of the log");
                }
                break;
            }
            line.pop();
            number += 1;
            seq += 1;
            let Ok(line) = String::from_utf8(line) else {
                return broken(number, seq, "it is no line of the log");
            };
            let previous = if number == 1 {
                let said = begin(&line);
                match (said, hash) {
                    (None, _) => {
                        return broken(number, seq, "the file does not begin as it should");
                    }
                    (Some(said), Some(hash)) if said != hash => {
                        return broken(number, seq, "it does not follow on the file before");
                    }
                    (Some(said), None) if first == 1 && said != Hash::START => {
                        return broken(number, seq, "something is missing before it");
                    }
                    (Some(said), _) => said,
                }
            } else {
                hash.unwrap_or(Hash::START)
            };
            let Some((record, own)) = line::check(previous, &line) else {
                return broken(number, seq, "its hash is not that of what is written there");
            };
            if record.seq != seq {
                return broken(number, seq, "its number is not the next");
            }
            has_known |= known == Some(own);
            hash = Some(own);
        }
    }
    let hash = hash.unwrap_or(Hash::START);
    Ok(Verdict::Whole(Whole { first, last: seq, hash, has_known, torn_bytes }))
}

/// The hash before a file's first line, as that says.
fn begin(line: &str) -> Option<Hash> {
    let record: atoll_api::audit::AuditRecord = serde_json::from_str(line).ok()?;
    match record.what {
        AuditKind::Continued { previous } => Hash::parse(&previous),
        _ => None,
    }
}
