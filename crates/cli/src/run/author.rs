//! Who the caller is to git.
//!
//! The home directory is hidden, and with it git's settings of the user. Those
//! name programs and places of credentials; but without a name and an address
//! nobody can commit, so these come along.

use super::read::small;
use atoll_jail::judge::git::config;
use std::path::{Path, PathBuf};

/// Settings that come along: section, key, and the key as people write it.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("user", "name", "name"),
    ("user", "email", "email"),
    ("init", "defaultbranch", "defaultBranch"),
];
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The user's own files, the stronger last. Source: git-config(1), "FILES".
pub(super) fn files(home: &Path, config_home: Option<PathBuf>) -> [PathBuf; 2] {
    let config_home = config_home.unwrap_or_else(|| home.join(".config"));
    [config_home.join("git/config"), home.join(".gitconfig")]
}

/// A `~/.gitconfig` with what the files say; includes are not followed.
pub(super) fn settings(files: &[PathBuf]) -> String {
    let mut values: [Option<String>; SETTINGS.len()] = Default::default();
    let entries = files
        .iter()
        .filter_map(|file| config::parse(&small(file, CONFIG_BYTES_MAX)?).ok())
        .flatten()
        .filter(|entry| entry.subsection.is_none());
    for entry in entries {
        let is_it = |(section, key, _): &(&str, &str, &str)| {
            (*section, *key) == (&*entry.section, &*entry.key)
        };
        let Some(at) = SETTINGS.iter().position(is_it) else { continue };
        values[at] = entry
            .value
            .and_then(|value| String::from_utf8(value).ok())
            .filter(|value| is_plain(value));
    }
    let line = |((section, _, key), value): (&(&str, &str, &str), Option<String>)| {
        let value = value?.replace('\\', "\\\\").replace('"', "\\\"");
        Some(format!("[{section}]\n\t{key} = \"{value}\"\n"))
    };
    SETTINGS.iter().zip(values).filter_map(line).collect()
}

fn is_plain(value: &str) -> bool {
    !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_address_come_along_and_programs_do_not() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".config/git")).unwrap();
        let files = files(home.path(), None);
        assert_eq!(settings(&files), "", "there are no files");
        std::fs::write(&files[0], "[user]\n\tname = A\n\temail = a@x\n[core]\n\tpager = evil\n")
            .unwrap();
        std::fs::write(
            &files[1],
            "[user]\n\tname = \"A \\\"B\\\" C\\\\\"\n[init]\ndefaultBranch = main\n",
        )
        .unwrap();
        let text = settings(&files);
        assert_eq!(
            text,
            "[user]\n\tname = \"A \\\"B\\\" C\\\\\"\n[user]\n\temail = \"a@x\"\n\
             [init]\n\tdefaultBranch = \"main\"\n"
        );
        let read = config::parse(text.as_bytes()).unwrap();
        assert_eq!(read[0].value.as_deref(), Some(b"A \"B\" C\\".as_slice()));
    }
}
