//! Builds the programs that are measured, as they are shipped.

use crate::process;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::PathBuf;

pub(super) struct Programs {
    pub(super) atoll: PathBuf,
    pub(super) floor: PathBuf,
}

/// The part of cargo's messages that says where a program is.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

pub(super) fn programs() -> Result<Programs> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--package", "atoll", "--package", "floor", "--bins"]);
    cargo.arg("--message-format=json-render-diagnostics");
    let output = process::output(&mut cargo)?;
    let mut executables = Vec::new();
    for line in output.lines() {
        let message: Message = serde_json::from_str(line).context("cargo printed no JSON")?;
        executables.extend(message.executable);
    }
    let find = |name: &str| {
        let program = executables.iter().find(|path| path.file_name().is_some_and(|n| n == name));
        program.cloned().with_context(|| format!("cargo built no {name}"))
    };
    Ok(Programs { atoll: find("atoll")?, floor: find("floor")? })
}
