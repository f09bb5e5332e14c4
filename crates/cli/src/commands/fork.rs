//! `atoll fork`.

use super::snapshot;
use super::wanted::{Wanted, label};
use crate::error::CliError;
use crate::remote::{EXIT_REFUSED, Format, Remote, failed, lines, say};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::name::SandboxName;
use atoll_api::policy::parse_duration;
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::{Fork, ForkSandbox, ForkSnapshot, Forks, Snapshot};
use atoll_client::{Client, ClientError};
use std::time::Duration;

/// Make sandboxes of a sandbox as it is, or of a snapshot
///
/// Prints their ids. Of a sandbox a snapshot is taken first, which stays. They have what the
/// sandbox had when it was taken where nothing else is said: its environment and its limits one by
/// one, its services and its network each as a whole. Commands to ask about are added to its own.
/// No secrets come along. What cannot be made is said, and does not keep the others from it.
///
/// Example: atoll fork web --count 3 --name attempt --env SEED=7
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id of a snapshot, or the id or name of a sandbox
    #[arg(value_name = "SANDBOX|SNAPSHOT")]
    source: String,
    /// How many, at most 1000
    #[arg(long, value_name = "N", default_value = "1")]
    count: u32,
    /// A name; of several, each has -1, -2 and so on behind it
    #[arg(long, value_name = "NAME")]
    name: Option<SandboxName>,
    /// A label of the snapshot that is taken; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    snapshot_label: Vec<(String, String)>,
    /// Delete the snapshot that is taken after this time, as in 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    snapshot_delete_after: Option<Duration>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let Args { source, count, name, wanted, remote, .. } = args;
    let sandbox = CreateSandbox { name, ..wanted.request()? };
    let taken = snapshot::request(args.snapshot_label, args.snapshot_delete_after);
    let forks = if source.starts_with(SnapshotId::PREFIX) {
        if taken != Default::default() {
            return Err(CliError::new("of a snapshot no other one is taken")
                .hint("leave --snapshot-label and --snapshot-delete-after away"));
        }
        let id: SnapshotId = source
            .parse()
            .map_err(|error| CliError::new(format!("{source} is no snapshot")).because(error))?;
        let wanted = ForkSnapshot { count, sandbox };
        remote.ask(async |client| client.fork_snapshot(id, &wanted, None).await)?
    } else {
        let wanted = ForkSandbox { count, sandbox, snapshot: taken };
        let is_text = remote.format() == Format::Text;
        let (forks, taken) =
            remote.ask(async |client| fork(&client, &source, &wanted, is_text).await)?;
        if let Some(taken) = taken {
            snapshot::tell(&taken);
        }
        forks
    };
    let is_whole = forks.forks.iter().all(|fork| matches!(fork, Fork::Sandbox(_)));
    let text = match remote.format() {
        Format::Json => lines(&[forks]),
        Format::Text => ids(forks),
    };
    say(&text)?;
    Ok(if is_whole { Status::SUCCESS } else { Status::from(EXIT_REFUSED) })
}

/// Forks a sandbox, and looks at the snapshot that was taken for it.
async fn fork(
    client: &Client,
    sandbox: &str,
    wanted: &ForkSandbox,
    is_told: bool,
) -> Result<(Forks, Option<Snapshot>), ClientError> {
    let forks = client.fork_sandbox(sandbox, wanted).await?;
    // Without it there is less to tell, and nothing is wrong.
    let taken = match is_told {
        true => client.get_snapshot(forks.snapshot_id).await.ok(),
        false => None,
    };
    Ok((forks, taken))
}

/// The ids of those that were made, after it was said which were not.
fn ids(forks: Forks) -> String {
    let mut text = String::new();
    for fork in forks.forks {
        match fork {
            Fork::Sandbox(sandbox) => text += &format!("{}\n", sandbox.id),
            Fork::Error(error) => {
                failed(ClientError::Api(error)).report();
            }
        }
    }
    text
}
