//! `atoll events`.

use crate::error::CliError;
use crate::remote::{Format, Reader, Remote, lines, say};
use crate::status::Status;
use atoll_api::sandbox::Event;
use atoll_client::events::Told;
use std::io::Write as _;

/// Follow what happens to sandboxes
///
/// Goes on until it is interrupted, or the server ends.
///
/// Example: atoll events --after 0 --json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what happens to the sandbox of this id or name
    sandbox: Option<String>,
    /// Begin behind the event of this number; 0 gives all that is kept [default: from now on]
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// End after this many
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let remote = &args.remote;
    let client = remote.client()?;
    remote.wait(async {
        let failed = |error| remote.failed(error);
        let mut left = args.count;
        let mut events =
            client.follow_events(args.after, args.sandbox.as_deref()).await.map_err(failed)?;
        while left != Some(0) {
            let event = match events.next().await.map_err(failed)? {
                Some(Told::Event(event)) => event,
                Some(Told::Missed(count)) => {
                    // Nobody is left to tell where stderr is closed.
                    writeln!(std::io::stderr(), "atoll: {count} events are not kept any more").ok();
                    continue;
                }
                Some(Told::End(reason)) => {
                    return Err(CliError::new(format!("the server ended the stream: {reason}")));
                }
                None => return Err(CliError::new("the stream of events broke off")),
            };
            left = left.map(|left| left - 1);
            let text = match remote.format() {
                Format::Json => lines(&[event]),
                Format::Text => words(&event),
            };
            if say(&text)? == Reader::Gone {
                break;
            }
        }
        Ok(Status::SUCCESS)
    })?
}

fn words(event: &Event) -> String {
    let what = serde_json::to_value(&event.what).unwrap_or_default();
    let kind = what["kind"].as_str().unwrap_or_default();
    let more: String = what
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "kind")
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    format!("{} {} {} {kind}{more}\n", event.seq, event.at, event.sandbox_id)
}
