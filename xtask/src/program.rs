//! `cargo xtask ci --only program`: what is shipped is one file, and needs no other.

use crate::bench::programs;
use crate::process;
use crate::soak::ORDINARY;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

/// More than it has; a library that is taken in should be noticed. Three quarters of it are what only
/// the gateway (TLS and its cryptography, HTTP), `atoll serve` (registries, object storage) and its
/// clients use (SQLite, a runtime), and are not read from the disk for an `atoll run` without a
/// network.
const LARGEST: u64 = 36 << 20;

pub(crate) fn run() -> Result<()> {
    let program = programs()?;
    let size = fs::metadata(&program)?.len();
    let found = judge(&headers(&program)?);
    ensure!(found.is_empty(), "{} has {}", program.display(), found.join(", "));
    ensure!(size <= LARGEST, "{size} bytes are more than {LARGEST}");
    println!("{} is static and stripped, {size} of at most {LARGEST} bytes", program.display());
    let user = rustix::process::geteuid().is_root().then_some(ORDINARY);
    install(&program, user)?;
    println!("a copy of it alone runs a command for an ordinary user without an environment");
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
/// owns nothing but that and a project, and has no environment.
fn install(program: &Path, user: Option<u32>) -> Result<()> {
    let place = tempfile::Builder::new().prefix("atoll-install-").tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    let (copy, project) = (place.path().join("atoll"), place.path().join("project"));
    fs::copy(program, &copy)?;
    fs::create_dir(&project)?;
    for path in [place.path(), &copy, &project] {
        chown(path, user, user)?;
    }
    let mut command = match user {
        Some(uid) => with_account(place.path(), uid)?,
        None => {
            // Not into a home that is in use.
            let mut env = Command::new("/usr/bin/env");
            env.arg("-i").arg(format!("HOME={}", place.path().display()));
            env
        }
    };
    command.arg(&copy).args(["run", "--", "/bin/sh", "-c", "echo $((2 + 2)) > made"]);
    command.current_dir(&project).stdin(Stdio::null());
    let output = command.output().context("cannot start the copy")?;
    if !output.status.success() {
        bail!("the copy: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    ensure!(fs::read_to_string(project.join("made"))? == "4\n", "the command made nothing");
    Ok(())
}

/// Becomes a user whose entry in the user database, for this command only, says that
/// `home` is theirs.
fn with_account(home: &Path, uid: u32) -> Result<Command> {
    let database = home.join("passwd");
    let line = format!("agent:x:{uid}:{uid}::{}:/bin/sh\n", home.display());
    fs::write(&database, fs::read_to_string("/etc/passwd")? + &line)?;
    let script = format!(
        "mount --bind {} /etc/passwd && \
         exec setpriv --reuid {uid} --regid {uid} --clear-groups env -i \"$@\"",
        database.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "/bin/sh", "-c", &script, "sh"]);
    Ok(command)
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
