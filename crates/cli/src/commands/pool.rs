//! `atoll pool`.

use super::wanted::{Wanted, ms};
use crate::error::CliError;
use crate::remote::{self, Remote, listed};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::name::SandboxName;
use atoll_api::policy::parse_duration;
use atoll_api::pool::{CreatePool, Pool, SetPool, WhenExhausted};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::template::TemplateRef;
use std::time::Duration;

/// Keep sandboxes ready before anybody asks for them
///
/// `atoll create --pool` is given one that runs already, and makes it its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Box<Create>),
    List(List),
    Show(Show),
    Set(Set),
    Delete(Delete),
}

/// Make a pool
///
/// Its members are made afterwards, and again whenever one is given away. What is said of them here, all who
/// are given one have, where they say nothing else.
///
/// Example: atoll pool create web --size 4 --template web
#[derive(Debug, clap::Args)]
struct Create {
    /// Its name
    name: SandboxName,
    /// How many members are kept ready
    #[arg(long, value_name = "N")]
    size: u32,
    /// At least so long from one member's beginning to the next one's
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    refill: Option<Duration>,
    /// Make a sandbox from the start for who asks when no member is ready, in place of an error
    #[arg(long)]
    or_cold: bool,
    /// What members are made of: host, an image as in python:3.12-slim, or a path on the server's machine
    #[arg(long, value_name = "IMAGE", default_value = "host")]
    image: String,
    /// The snapshot that they begin with, in place of an image
    #[arg(long, value_name = "ID", conflicts_with = "image")]
    snapshot: Option<SnapshotId>,
    /// The template that they begin with, in place of an image: NAME, or NAME@VERSION
    #[arg(long, value_name = "TEMPLATE", conflicts_with_all = ["image", "snapshot"])]
    template: Option<TemplateRef>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    remote: Remote,
}

/// List pools by name
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

/// Show all that is known of a pool
#[derive(Debug, clap::Args)]
struct Show {
    /// Its name
    name: SandboxName,
    #[command(flatten)]
    remote: Remote,
}

/// Give a pool another size
///
/// Members beyond it go at once, those that are missing are made.
///
/// Example: atoll pool set web --size 20
#[derive(Debug, clap::Args)]
struct Set {
    /// Its name
    name: SandboxName,
    /// How many members are kept ready
    #[arg(long, value_name = "N")]
    size: u32,
    #[command(flatten)]
    remote: Remote,
}

/// Delete pools, with their members
///
/// Sandboxes that came of them stay.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Their names
    #[arg(required = true)]
    names: Vec<SandboxName>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Create(args) => create(*args),
        Command::List(List { remote }) => {
            let found = remote.ask(async |client| client.list_pools().await)?;
            let heading = ["NAME", "OF", "READY", "GIVEN", "MISSED", "ERROR"];
            remote::say(&listed(remote.format(), &found.pools, heading, row))?;
            Ok(Status::SUCCESS)
        }
        Command::Show(Show { name, remote }) => {
            let found = remote.ask(async |client| client.get_pool(&name).await)?;
            remote::answer(&remote, &found, remote::pretty)
        }
        Command::Set(Set { name, size, remote }) => {
            let set = SetPool { size };
            let pool = remote.ask(async |client| client.set_pool(&name, &set).await)?;
            remote::answer(&remote, &pool, |_| String::new())
        }
        Command::Delete(Delete { names, remote }) => {
            remote.each(&names, async |client, one| client.delete_pool(one).await, Ok)
        }
    }
}

fn create(args: Create) -> Result<Status, CliError> {
    let Create { name, size, refill, or_cold, image, snapshot, template, wanted, remote } = args;
    let when_exhausted = if or_cold { WhenExhausted::Cold } else { WhenExhausted::Refuse };
    let sandbox = CreateSandbox { image, snapshot, template, ..wanted.request()? };
    let refill_ms = refill.map(ms).unwrap_or_default();
    let wanted = CreatePool { name, size, refill_ms, when_exhausted, sandbox };
    let made = remote.ask(async |client| client.create_pool(&wanted).await)?;
    remote::answer(&remote, &made, |pool| format!("{}\n", pool.name))
}

fn row(pool: &Pool) -> [String; 6] {
    let ready = match pool.making {
        0 => format!("{} of {}", pool.ready, pool.size),
        making => format!("{} of {}, {making} being made", pool.ready, pool.size),
    };
    let error = pool.error.clone().unwrap_or_else(|| "-".to_owned());
    let (given, missed) = (pool.given.to_string(), pool.missed.to_string());
    [pool.name.to_string(), pool.of.clone(), ready, given, missed, error]
}
