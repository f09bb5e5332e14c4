//! Tests that cannot run here, said aloud.

use std::io::Write as _;
use std::path::PathBuf;

/// Says that the test `name` is skipped: on stderr, and in a file that the checks
/// compare with `tests/skips.txt`.
///
/// # Panics
///
/// If the file cannot be written: the test would be skipped in silence.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED {name}: {reason}\n");
    // The test's own stderr is all that there is when nobody collects.
    std::io::stderr().write_all(line.as_bytes()).ok();
    let Some(folder) = std::env::var_os("ATOLL_TEST_SKIPS").map(PathBuf::from) else { return };
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(name).with_extension("txt"), line));
    assert!(written.is_ok(), "cannot note the skip in {}: {written:?}", folder.display());
}

/// Says whether `program` is here, and skips `test` if not.
///
/// # Panics
///
/// As [`skip`].
#[must_use]
pub fn is_installed(program: &str, test: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).exists()));
    if !found {
        skip(test, &format!("{program} is not installed"));
    }
    found
}
