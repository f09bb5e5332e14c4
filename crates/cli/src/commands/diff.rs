//! `atoll diff`.

use crate::error::CliError;
use std::process::ExitCode;

/// Show what a review session changed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<ExitCode, CliError> {
    Err(CliError::new("not built yet"))
}
