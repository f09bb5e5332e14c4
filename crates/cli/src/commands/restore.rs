//! `atoll restore`.

use crate::error::CliError;
use crate::remote::{self, Remote};
use crate::status::Status;
use atoll_api::id::SnapshotId;

/// Put a sandbox back to a snapshot
///
/// What it has kept since is gone: take a snapshot first if it may be wanted. One that runs is
/// stopped for it and started anew.
///
/// Example: atoll restore web snp_0001020304050607abff
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// The id of the snapshot
    snapshot: SnapshotId,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let Args { sandbox, snapshot, remote } = args;
    let back = remote.ask(async |client| client.restore_sandbox(&sandbox, snapshot).await)?;
    remote::answer(&remote, &back, |_| String::new())
}
