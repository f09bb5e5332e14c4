//! `atoll apply`.

use crate::error::CliError;
use std::process::ExitCode;

/// Apply the changes of a review session to the project
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Result<ExitCode, CliError> {
    Err(CliError::new("not built yet"))
}
