//! `atoll doctor`.

use crate::error::CliError;
use std::process::ExitCode;

/// Say what works on this machine and how to fix what does not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<ExitCode, CliError> {
    Err(CliError::new("not built yet"))
}
