//! Names that may be written, and are told at the end if they were: text that an
//! agent takes as instructions, settings that take effect after a push.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ledger::{Ledger, join, within};
use super::names::{Match, Pattern, fold};
use super::rules::{FirstBytes, links_at};
use super::state::to_path;
use super::survey::exists;

/// Names told at the end.
const MAX_TOLD: usize = 1_000;

#[derive(Debug)]
pub(super) struct Told {
    names: Vec<Pattern>,
    first: FirstBytes,
    /// Where such names lead that were links at the start, folded.
    targets: Vec<Vec<u8>>,
    /// What was changed, and whether it was there before.
    changed: BTreeMap<Vec<u8>, bool>,
    is_cut: bool,
}

impl Told {
    pub(super) fn new(names: Vec<Pattern>, roots: &[PathBuf]) -> Self {
        let targets = roots.iter().flat_map(|root| links_at(root, names.iter()));
        let targets = targets.map(|link| fold(&link.to).into_owned()).collect();
        let first = FirstBytes::of(&names);
        Self { names, first, targets, changed: BTreeMap::new(), is_cut: false }
    }

    /// Whether a change of `path` is to be told.
    pub(super) fn covers(&self, ledger: &Ledger, path: &[u8]) -> bool {
        if ledger.is_free(path) {
            return false;
        }
        let is_target = || {
            let path = fold(path);
            self.targets.iter().any(|target| within(&path, target).is_some())
        };
        self.matches(ledger, path).any(|(_, found)| matches!(found, Match::Covered { .. }))
            || (!self.targets.is_empty() && is_target())
    }

    /// Notes that `path` is about to change.
    pub(super) fn note(&mut self, path: &[u8]) {
        self.insert(path, exists(path));
    }

    /// Notes names in two directories, at these paths, that came there from the
    /// other one.
    pub(super) fn moved(&mut self, ledger: &Ledger, from: &[u8], to: &[u8]) {
        for (here, there) in [(from, to), (to, from)] {
            for rest in self.below(ledger, here) {
                let path = join(here, &rest);
                if exists(&join(there, &rest)) {
                    self.insert(&path, true);
                } else if exists(&path) {
                    self.insert(&path, false);
                }
            }
        }
    }

    fn insert(&mut self, path: &[u8], was_there: bool) {
        if self.changed.len() < MAX_TOLD {
            self.changed.entry(path.to_vec()).or_insert(was_there);
        } else {
            self.is_cut |= !self.changed.contains_key(path);
        }
    }

    /// The names that are below `path`, relative to it.
    fn below(&self, ledger: &Ledger, path: &[u8]) -> Vec<Vec<u8>> {
        self.matches(ledger, path)
            .filter(|(_, found)| *found == Match::Above)
            .filter_map(|((pattern, depth), _)| Some(pattern.literal_rest(depth)?.join(&b'/')))
            .collect()
    }

    /// How the names where a tool opens a project stand to `path`; each with how many
    /// components of `path` are below that place.
    fn matches<'a>(
        &'a self,
        ledger: &'a Ledger,
        path: &'a [u8],
    ) -> impl Iterator<Item = ((&'a Pattern, usize), Match)> {
        let root = ledger.root_of(path).unwrap_or_default();
        let relative = within(path, root).filter(|_| !root.is_empty()).unwrap_or_default();
        let names: Vec<&[u8]> =
            relative.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let places = (0..names.len()).filter(|place| {
            self.first.may_begin(names[*place])
                && ledger.is_place(&join(root, &names[..*place].join(&b'/')))
        });
        let below: Vec<Vec<&[u8]>> = places.map(|place| names[place..].to_vec()).collect();
        below.into_iter().flat_map(|below| {
            self.names
                .iter()
                .map(move |pattern| ((pattern, below.len()), pattern.at_anchor(&below)))
        })
    }

    /// What is changed in the end, and whether that is not all.
    pub(super) fn report(&self) -> (Vec<PathBuf>, bool) {
        let changed: Vec<&[u8]> = self
            .changed
            .iter()
            .filter(|(path, was_there)| **was_there || exists(path))
            .map(|(path, _)| path.as_slice())
            .collect();
        // A directory says nothing that what is in it does not.
        let is_above = |path: &[u8]| {
            let holds = |other: &&[u8]| within(other, path).is_some_and(|rest| !rest.is_empty());
            changed.iter().any(holds)
        };
        let told = changed.iter().filter(|path| !is_above(path)).map(|path| to_path(path));
        (told.collect(), self.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::ledger::bytes;
    use std::fs;

    #[test]
    fn what_is_changed_where_a_tool_opens_a_project_is_told() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("nested/.git")).unwrap();
        fs::create_dir_all(top.join("plain")).unwrap();
        fs::create_dir_all(top.join(".github/workflows")).unwrap();
        std::os::unix::fs::symlink("docs/agents.md", top.join("CLAUDE.md")).unwrap();
        let path = |name: &str| bytes(&top.join(name));
        let names = ["AGENTS.md", "CLAUDE.md", ".github/workflows"];
        let names = names.map(|name| Pattern::new(name).unwrap()).to_vec();
        let mut ledger = Ledger::new(std::slice::from_ref(&top));
        ledger.discover(&path("nested"));
        let mut told = Told::new(names, std::slice::from_ref(&top));
        for (name, expected) in [
            ("AGENTS.md", true),
            ("agents.md", true),
            ("nested/AGENTS.md", true),
            ("plain/AGENTS.md", false),
            ("AGENTS.txt", false),
            ("docs/agents.md", true),
            ("docs/other.md", false),
            (".github", false),
            (".github/workflows/ci.yml", true),
        ] {
            assert_eq!(told.covers(&ledger, &path(name)), expected, "{name}");
        }
        assert!(!told.covers(&ledger, b"/AGENTS.md"));
        assert_eq!(told.below(&ledger, &path(".github")), [b"workflows".to_vec()]);

        // Made and gone again is no change; gone is one, and so is what is new.
        fs::write(top.join("nested/AGENTS.md"), "").unwrap();
        for name in ["AGENTS.md", "nested/AGENTS.md", ".github/workflows"] {
            told.note(&path(name));
        }
        fs::remove_file(top.join("nested/AGENTS.md")).unwrap();
        told.note(&path(".github/workflows/ci.yml"));
        fs::write(top.join(".github/workflows/ci.yml"), "").unwrap();
        let expected = [top.join(".github/workflows/ci.yml"), top.join("nested/AGENTS.md")];
        assert_eq!(told.report(), (expected.to_vec(), false));
        // Moved away with its directory.
        fs::rename(top.join(".github"), top.join("away")).unwrap();
        told.moved(&ledger, &path(".github"), &path("away"));
        assert_eq!(
            told.report(),
            (vec![top.join(".github/workflows"), expected[1].clone()], false)
        );
    }
}
