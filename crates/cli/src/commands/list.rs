//! `atoll list`.

use super::wanted::label;
use crate::error::CliError;
use crate::remote::{Format, Remote, lines, say, table};
use crate::status::Status;
use atoll_api::sandbox::{ListSandboxes, PAGE_COUNT_MAX, Sandbox, State};

/// List sandboxes, the oldest first
///
/// Example: atoll list --state running --label team=red
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only those in this state, as in running; may be repeated
    #[arg(long, value_name = "STATE")]
    state: Vec<State>,
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Print ids only
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let found = args.remote.ask(async |client| {
        let mut wanted = ListSandboxes {
            states: args.state,
            labels: args.label.into_iter().collect(),
            page_count: Some(PAGE_COUNT_MAX),
            cursor: None,
        };
        let mut found = Vec::new();
        loop {
            let page = client.list_sandboxes(&wanted).await?;
            found.extend(page.sandboxes);
            wanted.cursor = page.next;
            if wanted.cursor.is_none() {
                return Ok(found);
            }
        }
    })?;
    let text = match args.remote.format() {
        Format::Json => lines(&found),
        Format::Text if args.quiet => {
            found.iter().map(|sandbox| format!("{}\n", sandbox.id)).collect()
        }
        Format::Text => table(
            ["ID", "NAME", "STATE", "SINCE", "IMAGE"],
            &found.iter().map(row).collect::<Vec<_>>(),
        ),
    };
    say(&text).map(|_| Status::SUCCESS)
}

fn row(sandbox: &Sandbox) -> [String; 5] {
    [
        sandbox.id.to_string(),
        sandbox.name.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        sandbox.state.to_string(),
        sandbox.state_since.to_string(),
        sandbox.image.clone(),
    ]
}
