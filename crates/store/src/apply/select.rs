//! Which changes one apply is about.

use super::{ApplyError, Request};
use crate::changes::{Change, ChangeKind, Changes};
use crate::node::FileKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A change that was asked for, by its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) index: usize,
    pub(super) is_forced: bool,
}

/// Picks the changes at or beneath the paths asked for, with the new
/// directories that they need, in the order of the list.
pub(super) fn select(
    changes: &Changes,
    request: &Request<'_>,
) -> Result<Vec<Selected>, ApplyError> {
    let list = &changes.list;
    for path in request.paths.iter().chain(request.force) {
        let is_known = list.iter().any(|change| change.path.starts_with(path));
        if !is_known && !path.as_os_str().is_empty() {
            return Err(ApplyError::NoSuchChange { path: path.clone() });
        }
    }
    let asked = |change: &Change, paths: &[PathBuf]| change.is_at_or_beneath(paths);
    let by_path: BTreeMap<&Path, usize> =
        list.iter().enumerate().map(|(index, change)| (change.path.as_path(), index)).collect();
    let (mut picked, mut forced) = (BTreeSet::new(), BTreeSet::new());
    for (index, change) in list.iter().enumerate() {
        let is_forced = asked(change, request.force);
        let is_picked = request.paths.is_empty() || is_forced || asked(change, request.paths);
        if !is_picked {
            continue;
        }
        let needed = change.path.ancestors().skip(1).filter_map(|path| by_path.get(path)).copied();
        let needed = needed.filter(|index| change.after.is_some() && makes_dir(&list[*index]));
        for index in needed.chain([index]) {
            picked.insert(index);
            if is_forced {
                forced.insert(index);
            }
        }
    }
    let selected = picked.into_iter();
    Ok(selected.map(|index| Selected { index, is_forced: forced.contains(&index) }).collect())
}

fn makes_dir(change: &Change) -> bool {
    let makes = matches!(change.kind, ChangeKind::Added | ChangeKind::TypeChanged);
    makes && change.after.as_ref().is_some_and(|after| after.kind == FileKind::Dir)
}
