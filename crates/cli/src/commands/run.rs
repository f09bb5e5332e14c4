//! `atoll run`.

use crate::error::CliError;
use std::process::ExitCode;

/// Run a command in a sandbox
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<ExitCode, CliError> {
    Err(CliError::new("not built yet")
        .because(std::io::Error::other("no code"))
        .hint("wait")
        .exit_with(125))
}
