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
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids or names
    #[arg(required = true)]
    sandboxes: Vec<String>,
    #[command(flatten)]
    remote: Remote,
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
