//! Whether the host's side is still what the sandbox saw.

use super::{Change, ChangeKind, Conflict, Rejected};
use crate::node::{FileKind, Stamp, Time};
use crate::overlay::Origin;
use crate::view::Known;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Whether a file changed at or after `started`.
///
/// The kernel stamps files with a clock that ticks a few milliseconds behind,
/// so `started` must come from the same clock (`CLOCK_REALTIME_COARSE`). File
/// systems that keep whole seconds round down: a time without nanoseconds
/// counts up to the end of its second.
pub(crate) fn is_newer(ctime: Time, started: Time) -> bool {
    ctime >= started || (ctime.nsec == 0 && ctime.sec >= started.sec)
}

/// What is known about a directory of the host that the session looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirCheck {
    /// It is, or may be, another directory than the sandbox saw.
    pub(super) is_replaced: bool,
    /// Its own mode may have been changed by the host.
    pub(super) mode_changed: bool,
}

/// Checks a directory that is merged from both trees.
pub(super) fn check_merged(
    host: &Stamp,
    origin: Origin,
    known: Option<Known>,
    started: Option<Time>,
) -> DirCheck {
    let newer = started.is_some_and(|started| is_newer(host.ctime, started));
    if let Some(known) = known {
        return DirCheck {
            is_replaced: host.id() != (known.dev, known.ino),
            mode_changed: known.mode.map_or(newer, |mode| host.mode != mode),
        };
    }
    let is_replaced = newer
        && match origin {
            Origin::Inode(ino) => host.ino != ino,
            // An entry that comes or goes moves both times together; rename and
            // chmod of the directory itself move only the change time.
            Origin::Unknown | Origin::None => host.mtime != host.ctime,
        };
    DirCheck { is_replaced, mode_changed: newer }
}

/// Checks a directory of the host that is to disappear, or whose content is
/// hidden by a new one in its place.
pub(super) fn check_doomed(host: &Stamp, known: Option<Known>, started: Option<Time>) -> DirCheck {
    let newer = started.is_some_and(|started| is_newer(host.ctime, started));
    let (is_replaced, mode_changed) = match known {
        Some(known) => {
            let mode_changed = known.mode.map_or(newer, |mode| host.mode != mode);
            (host.id() != (known.dev, known.ino), mode_changed)
        }
        None => (newer, newer),
    };
    DirCheck { is_replaced, mode_changed }
}

/// Marks the directories that cannot go because something in them is in
/// conflict, or is there although it could not be looked at.
pub(super) fn spread(changes: &mut [Change], rejected: &[Rejected]) {
    let goes = |change: &Change| {
        let was_dir = change.host.is_some_and(|host| host.kind == FileKind::Dir);
        was_dir && matches!(change.kind, ChangeKind::Deleted | ChangeKind::TypeChanged)
    };
    let going: HashMap<PathBuf, usize> = changes
        .iter()
        .enumerate()
        .filter(|(_, change)| goes(change))
        .map(|(index, change)| (change.path.clone(), index))
        .collect();
    let stuck: Vec<usize> = changes
        .iter()
        .filter(|change| change.conflict.is_some())
        .flat_map(|change| change.path.ancestors().skip(1))
        .chain(rejected.iter().flat_map(|rejected| rejected.path.ancestors()))
        .filter_map(|ancestor: &Path| going.get(ancestor).copied())
        .collect();
    for index in stuck {
        changes[index].conflict.get_or_insert(Conflict::Contains);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time { sec: 100, nsec: 500 };

    #[test]
    fn times_at_the_start_count_as_after_it() {
        assert!(!is_newer(Time { sec: 100, nsec: 499 }, START));
        assert!(is_newer(START, START));
        assert!(is_newer(Time { sec: 101, nsec: 1 }, START));
    }

    #[test]
    fn whole_seconds_count_to_their_end() {
        assert!(is_newer(Time { sec: 100, nsec: 0 }, START));
        assert!(!is_newer(Time { sec: 99, nsec: 0 }, START));
    }
}
