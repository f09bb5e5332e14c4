//! `atoll snapshot`.

mod diff;
mod tree;

use super::wanted::{label, ms};
use crate::error::CliError;
use crate::remote::{self, Format, Remote, lines, say, size, table};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::policy::parse_duration;
use atoll_api::sandbox::PAGE_COUNT_MAX;
use atoll_api::snapshot::{CreateSnapshot, ListSnapshots, Snapshot, SnapshotWay};
use atoll_client::{Client, ClientError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

/// Take snapshots of sandboxes, look at them and delete them
///
/// A snapshot has the files that a sandbox keeps; neither its memory nor `/tmp`. `atoll fork` and
/// `atoll create --snapshot` make sandboxes of it, `atoll restore` puts one back to it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Show(Show),
    Diff(diff::Args),
    Delete(Delete),
    Tree(tree::Args),
}

/// Take a snapshot of a sandbox, and print its id
///
/// One that runs stands still meanwhile, which is said on standard error with how it was done.
/// An interrupted command leaves the snapshot, if it can be taken.
///
/// Example: atoll snapshot create web --label step=tests-pass --delete-after 7d
#[derive(Debug, clap::Args)]
struct Create {
    /// Its id or name
    sandbox: String,
    #[command(flatten)]
    taken: Taken,
    #[command(flatten)]
    remote: Remote,
}

/// What a snapshot is given.
#[derive(Debug, clap::Args)]
struct Taken {
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Delete it after this time, as in 7d; what was made of it stays
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delete_after: Option<Duration>,
    /// Delete older ones of the sandbox with exactly these labels, so that as many are left as this says
    #[arg(long, value_name = "N")]
    keep_last: Option<u64>,
}

/// List snapshots, the oldest first
///
/// Example: atoll snapshot list --sandbox web
#[derive(Debug, clap::Args)]
struct List {
    /// Only those of the sandbox of this id or name; of one that is gone, by its id
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Print ids only
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Show all that is known of a snapshot
#[derive(Debug, clap::Args)]
struct Show {
    /// Its id
    snapshot: SnapshotId,
    #[command(flatten)]
    remote: Remote,
}

/// Delete snapshots
///
/// Sandboxes that were made of them stay as they are.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Their ids
    #[arg(required = true)]
    snapshots: Vec<SnapshotId>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Create(args) => create(args),
        Command::List(args) => list(args),
        Command::Show(Show { snapshot, remote }) => {
            let found = remote.ask(async |client| client.get_snapshot(snapshot).await)?;
            remote::answer(&remote, &found, remote::pretty)
        }
        Command::Diff(args) => diff::run(&args),
        Command::Delete(Delete { snapshots, remote }) => {
            remote.each(&snapshots, async |client, one| client.delete_snapshot(*one).await, Ok)
        }
        Command::Tree(args) => tree::run(&args),
    }
}

fn create(args: Create) -> Result<Status, CliError> {
    let Create { sandbox, taken, remote } = args;
    let wanted =
        CreateSnapshot { keep_last: taken.keep_last, ..request(taken.label, taken.delete_after) };
    let made = remote.ask(async |client| client.create_snapshot(&sandbox, &wanted).await)?;
    if remote.format() == Format::Text {
        tell(&made);
    }
    remote::answer(&remote, &made, |made| format!("{}\n", made.id))
}

/// Asks for one.
pub(super) fn request(
    label: Vec<(String, String)>,
    delete_after: Option<Duration>,
) -> CreateSnapshot {
    let labels: BTreeMap<_, _> = label.into_iter().collect();
    CreateSnapshot { labels, delete_after_ms: delete_after.map(ms), keep_last: None }
}

/// Says how one was taken.
pub(super) fn tell(taken: &Snapshot) {
    let text = format!("atoll: {}\n", how(taken));
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

fn how(taken: &Snapshot) -> String {
    let way = match taken.way {
        SnapshotWay::Rename => "set aside",
        SnapshotWay::Subvolume => "taken by the file system",
        SnapshotWay::Reflink => "copied with shared blocks",
        SnapshotWay::Copy => "copied",
        SnapshotWay::Archive => "fetched from an archive",
    };
    let mut text = format!("{way} in {}", time(taken.took_us));
    if taken.frozen_us > 0 {
        write!(text, ", of which the sandbox stood still for {}", time(taken.frozen_us)).ok();
    }
    if let Some(files) = taken.files {
        write!(text, "; {files} files, {} of them new", size(taken.copied_bytes)).ok();
    }
    text
}

/// A time for people.
pub(super) fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

fn list(args: List) -> Result<Status, CliError> {
    let List { sandbox, label, quiet, remote } = args;
    let wanted = ListSnapshots { labels: label.into_iter().collect(), ..ListSnapshots::default() };
    let found = remote.ask(async |client| all(&client, sandbox.as_deref(), wanted).await)?;
    let text = match remote.format() {
        Format::Json => lines(&found),
        Format::Text if quiet => found.iter().map(|found| format!("{}\n", found.id)).collect(),
        Format::Text => table(
            ["ID", "SANDBOX", "TAKEN", "WAY", "TIME", "COPIED", "LABELS"],
            &found.iter().map(row).collect::<Vec<_>>(),
        ),
    };
    say(&text).map(|_| Status::SUCCESS)
}

/// Every page.
async fn all(
    client: &Client,
    sandbox: Option<&str>,
    mut wanted: ListSnapshots,
) -> Result<Vec<Snapshot>, ClientError> {
    wanted.page_count = Some(PAGE_COUNT_MAX);
    let mut found = Vec::new();
    loop {
        let page = client.list_snapshots(sandbox, &wanted).await?;
        found.extend(page.snapshots);
        wanted.after = page.next;
        if wanted.after.is_none() {
            return Ok(found);
        }
    }
}

fn row(one: &Snapshot) -> [String; 7] {
    [
        one.id.to_string(),
        sandbox(one),
        one.created_at.to_string(),
        one.way.as_str().to_owned(),
        time(one.took_us),
        size(one.copied_bytes),
        labels(&one.labels),
    ]
}

/// The sandbox that one was taken of, by its name if it had one.
fn sandbox(one: &Snapshot) -> String {
    one.sandbox_name.as_ref().map_or_else(|| one.sandbox_id.to_string(), ToString::to_string)
}

fn labels(labels: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_suits_them() {
        assert_eq!(time(999), "999 us");
        assert_eq!(time(1_950), "1.9 ms");
        assert_eq!(time(61_250_000), "61.2 s");
    }
}
