//! `atoll keys`.

use crate::error::CliError;
use crate::remote::{self, Remote, listed, say};
use crate::status::Status;
use atoll_api::key::{CreateKey, Scope};

/// Make, list and revoke keys of the API
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Make a key, and print its secret, which is shown this once
///
/// Example: atoll keys create --scope run --note "the build"
#[derive(Debug, clap::Args)]
struct Create {
    /// What it allows
    #[arg(long, value_enum, default_value = "run")]
    scope: Allows,
    /// A note to know it by
    #[arg(long, default_value = "", hide_default_value = true)]
    note: String,
    #[command(flatten)]
    remote: Remote,
}

/// List the keys, without their secrets
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

/// Revoke a key: it opens nothing any more
#[derive(Debug, clap::Args)]
struct Revoke {
    /// Its id
    key: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Allows {
    /// See everything but keys
    Read,
    /// Also make, use and delete sandboxes
    Run,
    /// Also make and revoke keys
    Admin,
}

impl From<Allows> for Scope {
    fn from(allows: Allows) -> Self {
        match allows {
            Allows::Read => Self::Read,
            Allows::Run => Self::Run,
            Allows::Admin => Self::Admin,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Create(Create { scope, note, remote }) => {
            let wanted = CreateKey { scope: scope.into(), note };
            let made = remote.ask(async |client| client.create_key(&wanted).await)?;
            remote::answer(&remote, &made, |made| format!("{}\n", made.secret))
        }
        Command::List(List { remote }) => {
            let found = remote.ask(async |client| client.list_keys().await)?.keys;
            let row = |key: &atoll_api::key::Key| {
                let (id, scope) = (key.id.to_string(), key.scope.to_string());
                [id, scope, key.created_at.to_string(), key.note.clone()]
            };
            let text = listed(remote.format(), &found, ["ID", "SCOPE", "CREATED", "NOTE"], row);
            say(&text).map(|_| Status::SUCCESS)
        }
        Command::Revoke(Revoke { key, remote }) => {
            remote.ask(async |client| client.revoke_key(&key).await).map(|()| Status::SUCCESS)
        }
    }
}
