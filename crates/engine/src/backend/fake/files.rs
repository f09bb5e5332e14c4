//! Files of sandboxes in memory: what is shown by layers of them, and how that differs.

use crate::backend::Differences;
use atoll_api::files::{FileKind, Mode};
use atoll_api::octets::Octets;
use atoll_api::snapshot::{DiffEntry, DiffSide, Difference};
use std::collections::{BTreeMap, BTreeSet};

/// Lengths of files by path; nothing of one that was removed.
pub(super) type Files = BTreeMap<String, Option<u64>>;

/// What layers show, the lowest first.
pub(super) fn shown<'f>(layers: impl Iterator<Item = &'f Files>) -> Files {
    let mut shown: Files = layers.flat_map(|files| files.clone()).collect();
    shown.retain(|_, bytes| bytes.is_some());
    shown
}

/// How one differs from another.
pub(super) fn differences(before: &Files, after: &Files, most: usize) -> Differences {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let side = |files: &Files, path: &String| {
        let bytes = files.get(path).copied().flatten()?;
        Some(DiffSide { kind: FileKind::File, bytes, mode: Mode::from_bits(0o644), target: None })
    };
    let entry = |path: &String| {
        let (before, after) = (side(before, path), side(after, path));
        let difference = match (&before, &after) {
            (None, _) => Difference::Added,
            (_, None) => Difference::Removed,
            _ => Difference::Modified,
        };
        let path = Octets::new(path.as_bytes()).ok()?;
        (before != after).then_some(DiffEntry { path, difference, before, after })
    };
    let mut entries: Vec<DiffEntry> = paths.into_iter().filter_map(entry).collect();
    let is_cut = entries.len() > most;
    entries.truncate(most);
    Differences { entries, uncompared: Vec::new(), is_cut }
}
