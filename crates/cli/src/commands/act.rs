//! `atoll start`, `stop`, `pause`, `resume`, `kill` and `delete`.

use crate::error::CliError;
use crate::remote::{Format, Remote, lines, say};
use crate::status::Status;
use atoll_client::Action;

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

/// Does it to one after the other; what fails does not keep the others from it.
pub(crate) fn run(args: Args, verb: Verb) -> Result<Status, CliError> {
    let client = args.remote.client()?;
    let mut failed: Option<CliError> = None;
    for sandbox in &args.sandboxes {
        let done = args.remote.wait(async {
            match verb {
                Verb::Act(action) => client.act(sandbox, action).await,
                Verb::Delete => client.delete_sandbox(sandbox).await,
                Verb::DeleteButArchive => client.delete_but_archive(sandbox).await,
            }
        })?;
        match done {
            Ok(done) => {
                let text = match args.remote.format() {
                    Format::Json => lines(&[done]),
                    Format::Text => String::new(),
                };
                say(&text)?;
            }
            Err(error) => {
                if let Some(earlier) = failed.replace(args.remote.failed(error)) {
                    earlier.report();
                }
            }
        }
    }
    failed.map_or(Ok(Status::SUCCESS), Err)
}
