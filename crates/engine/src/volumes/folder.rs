//! Folders of the host that are volumes: whoever runs the server grants them.

use std::path::{Path, PathBuf};

/// Whether a folder is one of those that are granted, or in one. Links were refused where they were
/// granted and are where it is opened, so that paths lead where they say.
pub(crate) fn is_granted(path: &Path, granted: &[PathBuf]) -> bool {
    granted.iter().any(|one| path.starts_with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_granted_with_all_that_is_in_it_and_nothing_else() {
        let granted = [PathBuf::from("/srv/data"), "/home/ada/models".into()];
        for path in ["/srv/data", "/srv/data/", "/srv/data/a/b", "/home/ada/models/x"] {
            assert!(is_granted(Path::new(path), &granted), "{path}");
        }
        for path in ["/srv", "/", "/srv/database", "/srv/data2", "/home/ada", "/home/ada/.ssh"] {
            assert!(!is_granted(Path::new(path), &granted), "{path}");
        }
        assert!(!is_granted(Path::new("/srv/data"), &[]));
    }
}
