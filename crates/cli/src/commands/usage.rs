//! `atoll usage`.

use super::wanted::label;
use crate::error::CliError;
use crate::remote::{Format, Remote, lines, say, size, table};
use crate::status::Status;
use atoll_api::sandbox::PAGE_COUNT_MAX;
use atoll_api::usage::{DiskUsage, ListUsage, NetworkUsage, Usage, UsagePage, Used, csv};

/// Tell what sandboxes have used
///
/// Of one sandbox, by its id also if it was deleted; else of all that there are and were, with
/// their sum. What is not measured on the server's host is shown as -.
///
/// Example: atoll usage --label team=red --csv
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name [default: all sandboxes]
    sandbox: Option<String>,
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, conflicts_with = "sandbox")]
    label: Vec<(String, String)>,
    /// Print comma-separated values, with a first line that names the columns
    #[arg(long, conflicts_with_all = ["json", "sandbox"])]
    csv: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.sandbox {
        Some(sandbox) => one(&args.remote, &sandbox),
        None => all(args),
    }
}

fn one(remote: &Remote, sandbox: &str) -> Result<Status, CliError> {
    let usage = remote.ask(async |client| client.get_usage(sandbox).await)?;
    crate::remote::answer(remote, &usage, |usage| {
        let Usage { used, disk, .. } = usage;
        let mut rows = vec![
            ["processor time".to_owned(), seconds(used.cpu_us)],
            ["memory over time".to_owned(), memory(used.memory_mib_seconds)],
        ];
        let files = disk.map_or_else(none, |DiskUsage { bytes, measured_at, is_complete }| {
            let least = if is_complete { "" } else { "at least " };
            format!("{least}{}, at {measured_at}", size(bytes))
        });
        rows.push(["files".to_owned(), files]);
        if let Some(network) = used.network {
            let NetworkUsage { bytes_sent, bytes_received, .. } = network;
            rows.extend([
                ["sent".to_owned(), size(bytes_sent)],
                ["received".to_owned(), size(bytes_received)],
                ["requests".to_owned(), network.requests.to_string()],
                ["connections".to_owned(), network.connections.to_string()],
                ["names asked for".to_owned(), network.questions.to_string()],
                ["refused".to_owned(), network.denied.to_string()],
            ]);
        }
        table(["WHAT", "USED"], &rows)
    })
}

fn all(args: Args) -> Result<Status, CliError> {
    let Args { label, remote, csv: is_csv, .. } = args;
    let mut found = remote.ask(async |client| {
        let labels = label.into_iter().collect();
        let mut wanted = ListUsage { labels, page_count: Some(PAGE_COUNT_MAX), cursor: None };
        let mut sandboxes = Vec::new();
        loop {
            let mut page = client.list_usage(&wanted).await?;
            sandboxes.append(&mut page.sandboxes);
            wanted.cursor = page.next;
            if page.next.is_none() {
                return Ok(UsagePage { sandboxes, ..page });
            }
        }
    })?;
    found.next = None;
    let text = match remote.format() {
        Format::Json => lines(&[&found]),
        Format::Text if is_csv => csv(&found.sandboxes, found.older),
        Format::Text => listed(&found),
    };
    say(&text).map(|_| Status::SUCCESS)
}

fn listed(found: &UsagePage) -> String {
    let row = |id: String, name: String, used: &Used| {
        let network = |of: fn(NetworkUsage) -> u64| used.network.map(of);
        [
            id,
            name,
            seconds(used.cpu_us),
            memory(used.memory_mib_seconds),
            network(|network| network.bytes_sent).map_or_else(none, size),
            network(|network| network.bytes_received).map_or_else(none, size),
            network(|network| network.requests).map_or_else(none, |count| count.to_string()),
            network(|network| network.denied).map_or_else(none, |count| count.to_string()),
        ]
    };
    let mut rows: Vec<_> = found
        .sandboxes
        .iter()
        .map(|usage| {
            let name = usage.name.as_ref().map_or_else(none, ToString::to_string);
            row(usage.sandbox_id.to_string(), name, &usage.used)
        })
        .collect();
    let several = |count: u64, what: &str| format!("{count} {what}");
    if found.older.sandboxes > 0 {
        let name = several(found.older.sandboxes, "deleted before");
        rows.push(row(none(), name, &found.older.used));
    }
    let name = several(found.total.sandboxes, "together");
    rows.push(row(none(), name, &found.total.used));
    table(["ID", "NAME", "CPU", "MEMORY", "SENT", "RECEIVED", "REQUESTS", "REFUSED"], &rows)
}

fn none() -> String {
    "-".to_owned()
}

fn seconds(us: Option<u64>) -> String {
    us.map_or_else(none, |us| format!("{}.{:03} s", us / 1_000_000, us / 1000 % 1000))
}

fn memory(mib_seconds: Option<u64>) -> String {
    mib_seconds.map_or_else(none, |amount| format!("{amount} MiB s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(seconds(Some(61_234_567)), "61.234 s");
        assert_eq!((seconds(None), memory(Some(5))), (none(), "5 MiB s".to_owned()));
    }
}
