//! Finding records again. Only what is written whole is read, so that nobody waits for the writer.

use super::AuditError;
use super::line::{LINE_BYTES_MAX, seq_of};
use atoll_api::audit::AuditRecord;
use atoll_api::id::SandboxId;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Lines that are looked through for one page.
const LOOKED_AT_MAX: usize = 20_000;

/// What is wanted of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only what happened in this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only these kinds; all where there is none.
    pub kinds: Vec<String>,
}

impl Filter {
    fn wants(&self, record: &AuditRecord) -> bool {
        self.sandbox.is_none_or(|id| record.sandbox_id == Some(id))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == record.what.as_str()))
    }
}

/// Records, and how far was looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// The last that was looked at, wanted or not.
    pub looked_through: u64,
    /// There is more behind.
    pub has_more: bool,
}

/// The files of a log: the number of the first record, and where it is.
pub(super) fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let failed = |source| AuditError { step: "list", path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            name.strip_prefix("audit-")?.strip_suffix(".jsonl").filter(|digits| digits.len() == 20)
        });
        if let Some(first) = number.and_then(|digits| digits.parse().ok()) {
            found.push((first, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn file_path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("audit-{first:020}.jsonl"))
}

/// Gives records with numbers above `after`, up to `last`.
pub(super) fn read(
    folder: &Path,
    after: u64,
    last: u64,
    count: usize,
    filter: &Filter,
) -> Result<Page, AuditError> {
    let all = files(folder)?;
    let from =
        all.partition_point(|(first, _)| *first <= after.saturating_add(1)).saturating_sub(1);
    let mut page = Page { records: Vec::new(), looked_through: after, has_more: false };
    let mut looked_at = 0;
    for (_, path) in &all[from.min(all.len())..] {
        let failed = |source| AuditError { step: "read", path: path.clone(), source };
        let mut file = match File::open(path) {
            // It has made room meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        };
        let begin = place_of(&file, after).map_err(failed)?;
        file.seek(SeekFrom::Start(begin)).map_err(failed)?;
        let mut lines = BufReader::new(file);
        while let Some(line) = next_line(&mut lines).map_err(failed)? {
            let Some(seq) = seq_of(&line).filter(|&seq| seq > after) else { continue };
            if seq > last {
                return Ok(page);
            }
            if page.records.len() >= count || looked_at >= LOOKED_AT_MAX {
                page.has_more = true;
                return Ok(page);
            }
            looked_at += 1;
            page.looked_through = seq;
            // A line that somebody has broken is told by who verifies.
            if let Ok(record) = serde_json::from_slice::<AuditRecord>(&line)
                && filter.wants(&record)
            {
                page.records.push(record);
            }
        }
    }
    Ok(page)
}

/// A place in a file from which the first record behind `after` comes soon: lines are in the
/// order of their numbers.
fn place_of(file: &File, after: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    let step = 2 * LINE_BYTES_MAX as u64;
    let mut piece = vec![0; 2 * LINE_BYTES_MAX];
    while high - low > step {
        let middle = low + (high - low) / 2;
        let read = file.read_at(&mut piece, middle)?;
        let next = piece[..read].iter().position(|&byte| byte == b'\n');
        let seq = next.and_then(|place| seq_of(&piece[place + 1..read]));
        match (next, seq) {
            (Some(place), Some(seq)) if seq <= after => low = middle + place as u64 + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The next whole line, without its line break; none at the end, or before one that is not whole.
pub(super) fn next_line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    lines.take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    if line.pop() == Some(b'\n') { Ok(Some(line)) } else { Ok(None) }
}
