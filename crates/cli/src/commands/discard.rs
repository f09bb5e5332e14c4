//! `atoll discard`.

use crate::error::CliError;
use std::process::ExitCode;

/// Throw a review session away
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<ExitCode, CliError> {
    Err(CliError::new("not built yet"))
}
