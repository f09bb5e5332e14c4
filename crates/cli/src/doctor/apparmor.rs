//! The AppArmor profile for this program's own path.

use crate::error::CliError;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// As packages ship it.
const SHIPPED: &str = include_str!("../../../../packaging/apparmor/atoll");
const SHIPPED_PATH: &str = "@{atoll_path} = /usr/bin/atoll";

/// The shipped profile with `path` in the place of `/usr/bin/atoll`.
///
/// # Errors
///
/// For a path that AppArmor would take as a pattern or as two words.
pub(crate) fn profile(path: &Path) -> Result<String, CliError> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._+-".contains(c);
    let plain = path.to_str().filter(|path| path.starts_with('/') && path.chars().all(is_plain));
    let Some(path) = plain else {
        return Err(CliError::new(format!(
            "a profile for {} would not mean just it",
            path.display()
        ))
        .hint("move the program to a path of letters, digits and / . _ + -"));
    };
    Ok(SHIPPED.replace(SHIPPED_PATH, &format!("@{{atoll_path}} = {path}")))
}

/// Why a profile for `path` lends its permission to more than this program.
pub(crate) fn path_warning(path: &Path) -> Option<String> {
    let exposed = path.ancestors().find(|part| {
        std::fs::metadata(part).is_ok_and(|data| {
            let others_write = data.mode() & 0o022 != 0;
            let is_sticky = data.is_dir() && data.mode() & 0o1000 != 0;
            data.uid() != 0 || others_write && !is_sticky
        })
    })?;
    Some(format!(
        "{} can be written by others than root, and the profile allows whatever is put at {}; \
         install atoll as /usr/local/bin/atoll",
        exposed.display(),
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_for_the_given_path() {
        let profile = profile(Path::new("/opt/a+b/atoll_1.0-x")).unwrap();
        assert!(profile.contains("\n@{atoll_path} = /opt/a+b/atoll_1.0-x\n"), "{profile}");
        assert!(profile.contains("\nprofile atoll @{atoll_path} flags=(unconfined) {\n  userns,"));
        // What packages ship is the same but for that line.
        assert_eq!(profile.lines().count(), SHIPPED.lines().count());
        assert_eq!(super::profile(Path::new("/usr/bin/atoll")).unwrap(), SHIPPED);
    }

    #[test]
    fn a_path_that_is_a_pattern_is_refused() {
        for path in
            ["/opt/*/atoll", "/opt/a b/atoll", "/o{a,b}", "/o\n}", "atoll", "/a\"b", "/@{x}"]
        {
            assert!(profile(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_that_others_can_write_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let warning = path_warning(&dir.path().join("atoll")).unwrap();
        assert!(warning.contains("/usr/local/bin/atoll"), "{warning}");
        // The control: only root can write this one, in every usual system.
        assert_eq!(path_warning(Path::new("/usr/bin")), None);
    }
}
