//! Compares the tests that were skipped with the committed list, so that
//! nothing stops being tested in silence.
//!
//! A test that cannot run here prints `SKIPPED name: reason` and writes that line
//! into a file of its own, `target/skips/NAME.txt`; the folder is also in the
//! environment variable [`FOLDER_VARIABLE`].

use crate::workspace;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const LIST: &str = "tests/skips.txt";
const PREFIX: &str = "SKIPPED ";

/// Tells tests where to write their skips.
pub(crate) const FOLDER_VARIABLE: &str = "ATOLL_TEST_SKIPS";

#[derive(Debug, PartialEq, Eq)]
struct Skip {
    test: String,
    reason: String,
}

/// Compares what the last test run skipped with the list.
pub(crate) fn run() -> Result<()> {
    let list = fs::read_to_string(workspace::root().join(LIST))
        .with_context(|| format!("cannot read {LIST}"))?;
    let allowed = parse_list(&list)?;
    let skipped = collect(&folder()?)?;
    for Skip { test, reason } in &skipped {
        println!("skipped {test}: {reason}");
    }
    let unlisted: Vec<&str> =
        skipped.iter().map(|skip| skip.test.as_str()).filter(|&t| !allowed.contains(t)).collect();
    if !unlisted.is_empty() {
        bail!("skipped but not listed in {LIST}: {}", unlisted.join(", "));
    }
    println!("{} skipped, all of them listed in {LIST}", skipped.len());
    Ok(())
}

/// Writes down the skips among the lines that a check outside the test runner
/// printed.
pub(crate) fn record(check: &str, lines: &[String]) -> Result<()> {
    let skips: String = lines
        .iter()
        .filter(|line| line.starts_with(PREFIX))
        .map(|line| format!("{line}\n"))
        .collect();
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(check).with_extension("txt");
    fs::write(&file, skips).with_context(|| format!("cannot write {}", file.display()))
}

/// Empties the folder of what earlier runs wrote, and gives its path. Any user
/// may write there, since tests also run as an ordinary one.
pub(crate) fn forget() -> Result<PathBuf> {
    let folder = folder()?;
    let cannot = |what: &str| format!("cannot {what} {}", folder.display());
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| cannot("remove"));
        }
        _ => {}
    }
    fs::create_dir_all(&folder).with_context(|| cannot("make"))?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777))
        .with_context(|| cannot("open"))?;
    Ok(folder)
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::metadata()?.target_directory.join("skips"))
}

/// Names from lines `name: when it may be skipped`; `#` starts a comment line.
fn parse_list(text: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let Some((name, reason)) = line.split_once(": ") else {
            bail!("{LIST}:{number}: expected `name: when it may be skipped`");
        };
        if reason.trim().is_empty() {
            bail!("{LIST}:{number}: {name} needs a reason");
        }
        if !names.insert(name.to_owned()) {
            bail!("{LIST}:{number}: {name} is listed twice");
        }
    }
    Ok(names)
}

fn collect(folder: &Path) -> Result<Vec<Skip>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot list {}", folder.display()));
        }
    };
    let mut skips = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            skips.push(parse_skip(line).with_context(|| format!("in {}", path.display()))?);
        }
    }
    skips.sort_by(|left, right| left.test.cmp(&right.test));
    Ok(skips)
}

fn parse_skip(line: &str) -> Result<Skip> {
    let parts = line.strip_prefix(PREFIX).and_then(|rest| rest.split_once(": "));
    let Some((test, reason)) = parts else {
        bail!("expected `SKIPPED name: reason`, found {line:?}");
    };
    Ok(Skip { test: test.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_line_needs_a_name_and_a_reason() {
        let names = parse_list("# machines differ\n\njail::memory: no memory controller\n");
        assert_eq!(names.unwrap().into_iter().collect::<Vec<_>>(), ["jail::memory"]);
        assert!(parse_list("jail::memory\n").is_err());
        assert!(parse_list("jail::memory:  \n").is_err());
        assert!(parse_list("a: one\na: two\n").is_err());
    }

    #[test]
    fn skips_are_read_from_every_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.txt"), "SKIPPED b: no /dev/kvm: denied\n").unwrap();
        fs::write(folder.path().join("a.txt"), "SKIPPED a: no network\n").unwrap();
        let skips = collect(folder.path()).unwrap();
        let tests: Vec<&str> = skips.iter().map(|skip| skip.test.as_str()).collect();
        assert_eq!(tests, ["a", "b"]);
        assert_eq!(skips[1].reason, "no /dev/kvm: denied");
        assert!(collect(&folder.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn anything_else_in_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "passed\n").unwrap();
        assert!(collect(folder.path()).is_err());
    }
}
