//! Everything that a run could leave, listed by name, or counted where there are no names.

mod look;
#[cfg(test)]
mod tests;

use super::pen;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(super) use look::reap;

/// Where to look, beside the process itself and its mounts.
pub(super) struct Places {
    /// Directories that are only the runs' own.
    pub(super) trees: Vec<PathBuf>,
    /// Whose namespaces are counted, where the pen can.
    pub(super) spaces: Option<u32>,
    /// Files that begin so hold what has happened, and may grow, but not without end.
    pub(super) history: Vec<PathBuf>,
}

/// Namespaces that may be on their way out whenever they are counted.
const LATE: u64 = 1;

/// What others use as well, so that a count may be off by what they do meanwhile; what
/// each run leaves, or each of a kind, is hundreds.
const OTHERS: u64 = 64;

/// How much more memory of one process means nothing: allocators keep what they had, in
/// pieces, and a guest has had between 35 and 105 MiB after as many commands. What each of
/// 100,000 commands leaves is seen from 700 bytes on.
const MEMORY_KIB: u64 = 64 << 10;

/// How many of a thing there are, and how many more of them mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    value: u64,
    tolerance: u64,
}

/// Things of one kind by what tells them apart for as long as they are there.
type Things = BTreeMap<String, Thing>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thing {
    /// What else a person wants to know, which may change.
    about: String,
    /// Bytes of a file: one that grew is left behind in part.
    size: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    things: BTreeMap<&'static str, Things>,
    counts: BTreeMap<String, Count>,
}

impl Census {
    pub(super) fn take(places: &Places) -> Result<Self> {
        let mut census = Self::default();
        census.things.insert("process", look::processes()?);
        census.things.insert("namespace", look::namespaces()?);
        census.things.insert("mount", look::mounts("self")?);
        census.things.insert("cgroup", look::groups()?);
        census.things.insert("file", look::files(&places.trees, &places.history));
        census.things.insert("descriptor", look::descriptors()?);
        census.things.insert("IPC object", look::ipc_objects());
        census.counts.insert("makers".to_owned(), Count { value: look::makers()?, tolerance: 0 });
        for (name, value, kind) in look::held()? {
            let tolerance = if kind == look::Kind::Memory { MEMORY_KIB } else { 0 };
            census.counts.insert(name, Count { value, tolerance });
        }
        for (name, value) in look::shared_counts() {
            census.counts.insert(name, Count { value, tolerance: OTHERS });
        }
        if let Some(uid) = places.spaces {
            for (kind, value) in pen::spaces(uid)? {
                let name = format!("{kind} namespaces of the pen");
                // These two are freed late, so that one may be on its way. What grew with each
                // call would be many more.
                let tolerance = if kind == "net" || kind == "pid" { LATE } else { 0 };
                census.counts.insert(name, Count { value, tolerance });
            }
        }
        Ok(census)
    }

    /// Waits, bounded, until nothing more is left than was there before. What goes in
    /// the meantime, and what others make then, is not left behind by us.
    pub(super) fn compare(&self, places: &Places, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut left = self.left(&Self::take(places)?);
        while !left.is_empty() {
            if Instant::now() > deadline {
                let left: Vec<String> = left.into_values().collect();
                bail!("left behind: {}", left.join("; "));
            }
            pen::pause()?;
            let now = self.left(&Self::take(places)?);
            left = now.into_iter().filter(|(key, _)| left.contains_key(key)).collect();
        }
        Ok(())
    }

    /// What there is more of now: what it is, and how to say it.
    fn left(&self, now: &Self) -> BTreeMap<String, String> {
        let mut left = BTreeMap::new();
        for (kind, things) in &now.things {
            let before = self.things.get(kind);
            for (name, thing) in things {
                match before.and_then(|things| things.get(name)) {
                    Some(before) if thing.size <= before.size => {}
                    _ => {
                        let key = format!("{kind} {name}");
                        left.insert(key.clone(), format!("{key}{}", thing.about));
                    }
                }
            }
        }
        for (name, count) in &now.counts {
            let before = self.counts.get(name).map_or(0, |count| count.value);
            if count.value > before + count.tolerance {
                left.insert(name.clone(), format!("{name}: {} more", count.value - before));
            }
        }
        left
    }
}

impl fmt::Display for Census {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let things = self.things.iter().map(|(kind, all)| format!("{} {kind}(s)", all.len()));
        let counts = self.counts.iter().map(|(name, count)| format!("{} {name}", count.value));
        write!(out, "{}", things.chain(counts).collect::<Vec<_>>().join(", "))
    }
}
