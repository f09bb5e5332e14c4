//! Another root file system than this machine's: a directory that holds one.

use crate::spec::{Access, Entry, Kind, Source, What};
use std::io;
use std::path::{Path, PathBuf};

/// Entries that are shown one by one at most: those beside and above what the
/// sandbox places itself.
const ENTRIES_MAX: usize = 4096;

/// Places of the kernel's that an image may have, empty.
const OWN: [&str; 2] = ["/proc", "/sys"];

/// Why an image cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("{} cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} and what lies beside hold more than {ENTRIES_MAX} entries", path.display())]
    TooMany { path: PathBuf },
}

/// The root file system at `root`, a real path, read-only. What the rest of the
/// view has at `places` takes the place of the image's: a directory of the image
/// above one of them is put together from its entries, since nothing can be made
/// in a directory that is bound.
///
/// # Errors
///
/// [`ImageError`].
pub fn image(root: &Path, places: &[PathBuf]) -> Result<Vec<Entry>, ImageError> {
    let mut shown = Shown { root, places, view: Vec::new() };
    shown.directory(Path::new("/"))?;
    Ok(shown.view)
}

struct Shown<'a> {
    root: &'a Path,
    places: &'a [PathBuf],
    view: Vec<Entry>,
}

impl Shown<'_> {
    /// Shows the entries of `at`, a path inside.
    fn directory(&mut self, at: &Path) -> Result<(), ImageError> {
        let path = self.in_image(at);
        let read = |source: io::Error| ImageError::Read { path: path.clone(), source };
        for entry in std::fs::read_dir(&path).map_err(read)? {
            let entry = entry.map_err(read)?;
            let kind = entry.file_type().map_err(read)?;
            let place = at.join(entry.file_name());
            if self.view.len() >= ENTRIES_MAX {
                return Err(ImageError::TooMany { path });
            }
            self.entry(&place, kind)?;
        }
        Ok(())
    }

    fn entry(&mut self, place: &Path, kind: std::fs::FileType) -> Result<(), ImageError> {
        let is_own = OWN.iter().any(|own| place == Path::new(own));
        if is_own || self.places.iter().any(|other| other == place) {
            return Ok(());
        }
        if self.places.iter().any(|other| other.starts_with(place)) {
            // Another kind than a directory gives way to the one that is made.
            return if kind.is_dir() { self.directory(place) } else { Ok(()) };
        }
        if kind.is_symlink() {
            let path = self.in_image(place);
            let to =
                std::fs::read_link(&path).map_err(|source| ImageError::Read { path, source })?;
            self.view.push(Entry::link(place, to));
        } else if kind.is_dir() || kind.is_file() {
            let kind = if kind.is_dir() { Kind::Directory } else { Kind::File };
            let source = Source::Path { path: self.in_image(place), expect: None };
            let what = What::Bind { source, kind, access: Access::ReadOnly };
            self.view.push(Entry::new(place, what));
        }
        Ok(())
    }

    fn in_image(&self, at: &Path) -> PathBuf {
        match at.strip_prefix("/") {
            Ok(below) if below.as_os_str().is_empty() => self.root.to_owned(),
            Ok(below) => self.root.join(below),
            Err(_) => self.root.join(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    fn shown(root: &Path, places: &[&str]) -> Vec<String> {
        let places: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
        let mut lines: Vec<String> = image(root, &places)
            .unwrap()
            .iter()
            .map(|entry| match &entry.what {
                What::Link { to } => format!("{} -> {}", entry.at.display(), to.display()),
                What::Bind {
                    source: Source::Path { path, .. }, access: Access::ReadOnly, ..
                } => {
                    assert_eq!(path, &root.join(entry.at.strip_prefix("/").unwrap()));
                    entry.at.display().to_string()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn directories_are_bound_and_links_are_links() {
        let root = tempfile::tempdir().unwrap();
        for path in ["usr/bin", "etc", "proc", "sys", "tmp", "var/lib", "var/tmp"] {
            create_dir_all(root.path().join(path)).unwrap();
        }
        write(root.path().join("file"), "").unwrap();
        symlink("usr/bin", root.path().join("bin")).unwrap();
        let lines = shown(root.path(), &["/etc", "/tmp", "/var/tmp", "/proc"]);
        assert_eq!(lines, ["/bin -> usr/bin", "/file", "/usr", "/var/lib"]);
    }

    #[test]
    fn what_is_above_a_place_is_taken_apart() {
        let root = tempfile::tempdir().unwrap();
        for path in ["home/ada/x", "home/alice", "usr/share/doc", "usr/bin"] {
            create_dir_all(root.path().join(path)).unwrap();
        }
        symlink("usr", root.path().join("code")).unwrap();
        let lines = shown(root.path(), &["/home/ada", "/usr/share/fonts/x", "/code/project"]);
        assert_eq!(lines, ["/home/alice", "/usr/bin", "/usr/share/doc"]);
    }

    #[test]
    fn a_large_directory_beside_a_place_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..=ENTRIES_MAX {
            write(root.path().join(format!("{number}")), "").unwrap();
        }
        let refused = image(root.path(), &[]);
        assert!(matches!(refused, Err(ImageError::TooMany { .. })));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let refused = image(Path::new("/no/such/image"), &[]).unwrap_err();
        assert_eq!(refused.to_string(), "/no/such/image cannot be read");
    }
}
