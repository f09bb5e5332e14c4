//! Builds the programs that are measured, as they are shipped.

use crate::process;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(super) struct Programs {
    pub(super) atoll: PathBuf,
    pub(super) floor: PathBuf,
    pub(super) traffic: PathBuf,
}

/// The part of cargo's messages that says where a program is.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

pub(super) fn programs() -> Result<Programs> {
    let ours = built(&["atoll", "floor"])?;
    // Apart from ours, which would have what its libraries have switched on.
    let load = built(&["traffic"])?;
    let find = |all: &[PathBuf], name: &str| {
        let program = all.iter().find(|path| path.file_name().is_some_and(|n| n == name));
        installed(program.with_context(|| format!("cargo built no {name}"))?)
    };
    Ok(Programs {
        atoll: find(&ours, "atoll")?,
        floor: find(&ours, "floor")?,
        traffic: find(&load, "traffic")?,
    })
}

/// Builds the programs of packages.
fn built(packages: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--bins", "--message-format=json-render-diagnostics"]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    let output = process::output(&mut cargo)?;
    let mut executables = Vec::new();
    for line in output.lines() {
        let message: Message = serde_json::from_str(line).context("cargo printed no JSON")?;
        executables.extend(message.executable);
    }
    Ok(executables)
}

/// A copy beside it, as an installed program is one. What a linker wrote lies in the
/// page cache page by page and costs more faults at every start: 0.3 ms for ours.
fn installed(built: &Path) -> Result<PathBuf> {
    let folder = built.with_file_name("installed");
    let copy = folder.join(built.file_name().context("a program has a name")?);
    let failed = || format!("cannot install {}", copy.display());
    fs::create_dir_all(&folder).with_context(failed)?;
    // Anew each time: whoever runs an older one keeps it.
    fs::remove_file(&copy).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error).with_context(failed),
    })?;
    fs::write(&copy, fs::read(built).with_context(failed)?).with_context(failed)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).with_context(failed)?;
    Ok(copy)
}
