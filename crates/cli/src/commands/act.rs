//! `atoll start`, `stop`, `pause`, `resume`, `kill` and `delete`.

use crate::error::CliError;
use crate::remote::{Format, Remote, lines, say};
use crate::status::Status;
use atoll_client::{Action, Client};

/// What is done to each of the sandboxes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Act(Action),
    Delete,
    DeleteButArchive,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids or names
    #[arg(required = true)]
    sandboxes: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    /// Leave the archives of those that are archived
    #[arg(long)]
    keep_archive: bool,
    #[command(flatten)]
    args: Args,
}

pub(crate) fn delete(asked: DeleteArgs) -> Result<Status, CliError> {
    let verb = if asked.keep_archive { Verb::DeleteButArchive } else { Verb::Delete };
    run(asked.args, verb)
}

/// Does it to one after the other.
pub(crate) fn run(args: Args, verb: Verb) -> Result<Status, CliError> {
    let act = async |client: &Client, sandbox: &String| match verb {
        Verb::Act(action) => client.act(sandbox, action).await,
        Verb::Delete => client.delete_sandbox(sandbox).await,
        Verb::DeleteButArchive => client.delete_but_archive(sandbox).await,
    };
    let tell = |done| match args.remote.format() {
        Format::Json => say(&lines(&[done])).map(drop),
        Format::Text => Ok(()),
    };
    args.remote.each(&args.sandboxes, act, tell)
}
