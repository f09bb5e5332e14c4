//! `cargo xtask ci --only program`: what is shipped is one file, and needs no other.

use crate::bench::programs;
use crate::process;
use crate::soak::ORDINARY;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than it has; a library that is taken in should be noticed.
const LARGEST: u64 = 6 << 20;

pub(crate) fn run() -> Result<()> {
    let program = programs()?;
    let size = fs::metadata(&program)?.len();
    let found = judge(&headers(&program)?);
    ensure!(found.is_empty(), "{} has {}", program.display(), found.join(", "));
    ensure!(size <= LARGEST, "{size} bytes are more than {LARGEST}");
    println!("{} is static and stripped, {size} of at most {LARGEST} bytes", program.display());
    let user = rustix::process::geteuid().is_root().then_some(ORDINARY);
    install(&program, user)?;
    println!("a copy of it alone runs a command for an ordinary user with nothing but HOME");
    Ok(())
}

/// What readelf(1) says of segments, sections and what is linked at start.
fn headers(program: &Path) -> Result<String> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--program-headers", "--section-headers", "--dynamic"]);
    process::output(readelf.arg(program).env("LC_ALL", "C"))
}

/// What a static, stripped program does not have.
fn judge(headers: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in headers.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"INTERP") {
            found.push("an interpreter".to_owned());
        }
        if words.get(1) == Some(&"(NEEDED)") {
            found.push(format!("a library, {}", words.last().unwrap_or(&"")));
        }
        let is_symbols = |word: &&&str| **word == ".symtab" || word.starts_with(".debug");
        found.extend(words.iter().find(is_symbols).map(|name| format!("section {name}")));
    }
    found
}

/// Copies the program to an empty directory and runs a command by it, as somebody who
/// owns nothing but that and a project. HOME stands for the account that is missing.
fn install(program: &Path, user: Option<u32>) -> Result<()> {
    let place = tempfile::Builder::new().prefix("atoll-install-").tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    let (copy, project) = (place.path().join("atoll"), place.path().join("project"));
    fs::copy(program, &copy)?;
    fs::create_dir(&project)?;
    for path in [place.path(), &copy, &project] {
        chown(path, user, user)?;
    }
    let mut command = Command::new(&copy);
    command.args(["run", "--", "/bin/sh", "-c", "echo $((2 + 2)) > made"]);
    command.env_clear().env("HOME", place.path()).current_dir(&project).stdin(Stdio::null());
    if let Some(uid) = user {
        command.uid(uid).gid(uid);
    }
    let output = command.output().context("cannot start the copy")?;
    if !output.status.success() {
        bail!("the copy: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    ensure!(fs::read_to_string(project.join("made"))? == "4\n", "the command made nothing");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_program_has_an_interpreter_and_libraries() {
        let found = judge(&headers(Path::new("/bin/sh")).unwrap());
        assert!(found.contains(&"an interpreter".to_owned()), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("a library, [libc.so")), "{found:?}");
    }

    #[test]
    fn a_program_that_is_not_stripped_has_symbols() {
        let found = judge(&headers(&std::env::current_exe().unwrap()).unwrap());
        assert!(found.contains(&"section .symtab".to_owned()), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("section .debug_")), "{found:?}");
    }

    #[test]
    fn what_is_no_program_at_all_is_an_error() {
        let text = tempfile::NamedTempFile::new().unwrap();
        assert!(headers(text.path()).is_err());
    }
}
