//! `atoll run`.

use crate::error::CliError;
use crate::run::{Request, run as run_request};
use atoll_api::policy::EffectivePolicy;
use std::ffi::OsString;
use std::process::ExitCode;

/// Run a command in a sandbox
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    run_request(&Request { command: args.command, policy: EffectivePolicy::built_in() })
}
