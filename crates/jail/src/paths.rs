//! Paths as names, which the file system is not asked about.

use std::path::{Component, Path, PathBuf};

/// Takes out `.` and `..` by their names, so of a link it takes the name too. Above
/// the root is the root.
#[must_use]
pub fn normalise(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_taken_out_and_the_root_stays() {
        let check = |path: &str, expected: &str| {
            assert_eq!(normalise(Path::new(path)), Path::new(expected), "{path}");
        };
        check("/a/./b/../c//d", "/a/c/d");
        check("/../a", "/a");
        check("/a/../..", "/");
        check("a/..", "");
    }
}
