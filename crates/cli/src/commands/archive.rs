//! `atoll archive`.

use crate::error::CliError;
use crate::remote::{self, Format, Remote, lines, say, size, table};
use crate::status::Status;
use atoll_api::archive::{
    Archive, ArchiveKind, ArchivePage, Archived, ListArchives, RestoredArchive,
};
use atoll_api::id::{ArchiveId, SnapshotId};
use atoll_api::sandbox::PAGE_COUNT_MAX;
use atoll_client::{Client, ClientError};
use std::io::Write as _;

/// Put snapshots and sandboxes into object storage, and make them of what is there
///
/// The server has to be started with `--archive`. Servers with the same place for archives have the
/// same archives.
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
    Restore(Restore),
    Delete(Delete),
}

/// Archive a snapshot or a sandbox, and print the archive's id
///
/// A snapshot stays. A sandbox has its files in the archive alone then, and not on the server: `atoll
/// resume` brings them back, and `atoll delete` deletes the archive too. What the store has already is
/// not sent; standard error says how much was.
///
/// Example: atoll archive create --stop web
#[derive(Debug, clap::Args)]
struct Create {
    /// The id of a snapshot, or the id or name of a sandbox
    #[arg(value_name = "SNAPSHOT|SANDBOX")]
    what: String,
    /// Stop the sandbox first, if it runs
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    remote: Remote,
}

/// List archives, whichever server made them
#[derive(Debug, clap::Args)]
struct List {
    /// Print ids only
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Show all that is known of an archive
#[derive(Debug, clap::Args)]
struct Show {
    /// Its id
    archive: ArchiveId,
    #[command(flatten)]
    remote: Remote,
}

/// Make what an archive is of, and print its id
///
/// Of a snapshot's archive comes a snapshot, of a sandbox's a sandbox, which runs and has its name if
/// nobody has it. Ids are new ones, and the archive stays.
///
/// Example: atoll create web --snapshot "$(atoll archive restore arc_0123456789abcdef0123)"
#[derive(Debug, clap::Args)]
struct Restore {
    /// Its id
    archive: ArchiveId,
    #[command(flatten)]
    remote: Remote,
}

/// Delete archives
///
/// What was restored of them stays.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Their ids
    #[arg(required = true)]
    archives: Vec<ArchiveId>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Create(args) => create(&args),
        Command::List(args) => list(&args),
        Command::Show(Show { archive, remote }) => {
            let found = remote.ask(async |client| client.get_archive(archive).await)?;
            remote::answer(&remote, &found, remote::pretty)
        }
        Command::Restore(Restore { archive, remote }) => {
            let made = remote.ask(async |client| client.restore_archive(archive).await)?;
            remote::answer(&remote, &made, |made| match made {
                RestoredArchive::Snapshot(snapshot) => format!("{}\n", snapshot.id),
                RestoredArchive::Sandbox(sandbox) => format!("{}\n", sandbox.id),
            })
        }
        Command::Delete(Delete { archives, remote }) => {
            remote.each(&archives, async |client, one| client.delete_archive(*one).await, Ok)
        }
    }
}

fn create(Create { what, stop, remote }: &Create) -> Result<Status, CliError> {
    let made = remote.ask(async |client| match what.parse::<SnapshotId>() {
        Ok(snapshot) => client.archive_snapshot(snapshot).await,
        Err(_) => client.archive_sandbox(what, *stop).await,
    })?;
    if remote.format() == Format::Text {
        // A closed stderr leaves nobody to tell.
        std::io::stderr().write_all(format!("atoll: {}\n", sent(&made)).as_bytes()).ok();
    }
    remote::answer(remote, &made, |made| format!("{}\n", made.archive.id))
}

/// Says how much was sent.
fn sent(made: &Archived) -> String {
    let Archived { archive, sent_layers, sent_bytes } = made;
    format!(
        "{sent_layers} of {} layers were sent, {} of {}",
        archive.layers,
        size(*sent_bytes),
        size(archive.bytes)
    )
}

fn list(args: &List) -> Result<Status, CliError> {
    let found = args.remote.ask(async |client| all(&client).await)?;
    for one in &found.unreadable {
        let text = format!("atoll: {} cannot be read: {}\n", one.id, one.reason);
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
    let found = &found.archives;
    let text = match args.remote.format() {
        Format::Json => lines(found),
        Format::Text if args.quiet => found.iter().map(|found| format!("{}\n", found.id)).collect(),
        Format::Text => table(
            ["ID", "OF", "SANDBOX", "ARCHIVED", "IMAGE", "LAYERS", "SIZE"],
            &found.iter().map(row).collect::<Vec<_>>(),
        ),
    };
    say(&text).map(|_| Status::SUCCESS)
}

/// Every page as one.
async fn all(client: &Client) -> Result<ArchivePage, ClientError> {
    let mut wanted = ListArchives { page_count: Some(PAGE_COUNT_MAX), after: None };
    let mut found = client.list_archives(&wanted).await?;
    while found.next.is_some() {
        wanted.after = found.next;
        let page = client.list_archives(&wanted).await?;
        found.archives.extend(page.archives);
        found.unreadable.extend(page.unreadable);
        found.next = page.next;
    }
    Ok(found)
}

fn row(one: &Archive) -> [String; 7] {
    let sandbox = one.sandbox_name.as_ref();
    [
        one.id.to_string(),
        match one.kind {
            ArchiveKind::Snapshot => "snapshot".to_owned(),
            ArchiveKind::Sandbox => "sandbox".to_owned(),
        },
        sandbox.map_or_else(|| one.sandbox_id.to_string(), ToString::to_string),
        one.archived_at.to_string(),
        one.image.clone(),
        one.layers.to_string(),
        size(one.bytes),
    ]
}
