//! What a directory has in it, where that is cheap to know.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

/// The names in a directory; nothing for one with more than `most`, where a look for
/// each name that matters is cheaper, and for one that cannot be listed, which can
/// still be entered.
pub(crate) fn names_in(directory: &Path, most: usize) -> Option<HashSet<OsString>> {
    let mut names = HashSet::new();
    for entry in std::fs::read_dir(directory).ok()? {
        if names.len() == most {
            return None;
        }
        names.insert(entry.ok()?.file_name());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_or_closed_directory_gives_nothing() {
        let top = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(top.path().join(name), "").unwrap();
        }
        assert_eq!(names_in(top.path(), 2), Some(HashSet::from(["a".into(), "b".into()])));
        assert_eq!(names_in(top.path(), 1), None);
        assert_eq!(names_in(&top.path().join("none"), 9), None);
    }
}
