//! `atoll show`.

use crate::error::CliError;
use crate::remote::{self, Remote};
use crate::status::Status;

/// Show all that is known of a sandbox
///
/// Example: atoll show web
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let found = args.remote.ask(async |client| client.get_sandbox(&args.sandbox).await)?;
    remote::answer(&args.remote, &found, remote::pretty)
}
