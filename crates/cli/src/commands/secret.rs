//! `atoll secret`.

use crate::error::CliError;
use crate::prompt;
use crate::remote::{self, EXIT_REFUSED, Remote, listed, say};
use crate::serve::places::Places;
use crate::status::Status;
use atoll_api::secret::{PutSecret, Secret, SecretName};
use atoll_engine::clock::{Clock as _, SystemClock};
use atoll_engine::secrets::{stored_name, view};
use atoll_store::secret::{SecretError, Secrets, VALUE_BYTES_MAX, Value};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Keep secrets that sandboxes use and never see
///
/// They are encrypted in the state directory of `atoll serve`, whether a server runs or not.
/// Where a server is named, it is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Set(Set),
    List(List),
    Delete(Delete),
}

/// Set a secret to what standard input has, or to what is typed unseen
///
/// One line break at the end of the input is not part of the value.
///
/// Example: atoll secret set GITHUB < token
#[derive(Debug, clap::Args)]
struct Set {
    /// Its name: letters, digits, dots, dashes and underscores
    name: SecretName,
    /// Take the input as it is, a line break at its end included
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    place: Place,
}

/// List the secrets, without their values
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    place: Place,
}

/// Delete a secret
#[derive(Debug, clap::Args)]
struct Delete {
    /// Its name
    name: SecretName,
    #[command(flatten)]
    place: Place,
}

/// Whose secrets they are.
#[derive(Debug, clap::Args)]
struct Place {
    /// The state directory, where no server is named [default: as for `atoll serve`]
    #[arg(long, value_name = "DIR", conflicts_with = "host")]
    state: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

impl Place {
    /// Whether a server is to be asked.
    fn is_remote(&self) -> bool {
        self.state.is_none() && self.remote.names_a_server()
    }

    fn here(&self) -> Result<Places, CliError> {
        Places::choose(self.state.clone(), None)
    }

    fn secrets(&self) -> Result<Secrets, CliError> {
        Ok(Secrets::of(self.here()?.state))
    }
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Set(args) => set(&args),
        Command::List(List { place }) => list(&place),
        Command::Delete(Delete { name, place }) => delete(&name, &place),
    }
}

fn set(args: &Set) -> Result<Status, CliError> {
    let Set { name, exact, place } = args;
    let value = read(name, *exact)?;
    let secret = if place.is_remote() {
        let wanted = PutSecret::of(value.as_bytes());
        place.remote.ask(async |client| client.set_secret(name, &wanted).await)?.0
    } else {
        place.here()?.make_state()?;
        let (secrets, stored) = (place.secrets()?, stored_name(name));
        secrets.set(&stored, &value, SystemClock.now().unix_us()).map_err(failed)?;
        let all = secrets.all().map_err(failed)?;
        let found = all.iter().find(|secret| secret.name == stored);
        view(found.ok_or_else(|| CliError::new(format!("{name} was deleted meanwhile")))?)
    };
    remote::answer(&place.remote, &secret, |_| String::new())
}

fn list(place: &Place) -> Result<Status, CliError> {
    let secrets: Vec<Secret> = if place.is_remote() {
        place.remote.ask(async |client| client.list_secrets().await)?.secrets
    } else {
        place.secrets()?.all().map_err(failed)?.iter().map(view).collect()
    };
    let row = |secret: &Secret| {
        let Secret { name, created_at, updated_at } = secret;
        [name.to_string(), created_at.to_string(), updated_at.to_string()]
    };
    let text = listed(place.remote.format(), &secrets, ["NAME", "CREATED", "UPDATED"], row);
    say(&text).map(|_| Status::SUCCESS)
}

fn delete(name: &SecretName, place: &Place) -> Result<Status, CliError> {
    if place.is_remote() {
        place.remote.ask(async |client| client.delete_secret(name).await)?;
    } else {
        let missing = || failed(SecretError::NotFound { name: stored_name(name) });
        // A look, so that nothing is made where nothing is.
        if place.secrets()?.all().map_err(failed)?.is_empty() {
            return Err(missing());
        }
        place.secrets()?.delete(&stored_name(name)).map_err(failed)?;
    }
    Ok(Status::SUCCESS)
}

/// Reads the value from where nobody else sees it.
fn read(name: &SecretName, exact: bool) -> Result<Value, CliError> {
    let bytes = if io::stdin().is_terminal() {
        prompt::unseen(&format!("value of {name}: "))?
    } else {
        // One byte more than a value has, and a line break; grown, it would leave copies.
        let most = VALUE_BYTES_MAX + 3;
        let mut bytes = Zeroizing::new(Vec::with_capacity(most));
        io::stdin()
            .take(most as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| CliError::new("cannot read the value").because(error))?;
        if !exact && bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        bytes
    };
    let mut bytes = bytes;
    Value::new(std::mem::take(&mut *bytes)).map_err(failed)
}

fn failed(error: SecretError) -> CliError {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    let told = CliError::new(error.to_string());
    let told = match source {
        Some(source) => told.because(source),
        None => told,
    };
    match error {
        SecretError::NotFound { .. } => {
            told.hint("`atoll secret list` shows those that there are").exit_with(EXIT_REFUSED)
        }
        SecretError::NotPrivate { .. } => told.hint("make it yours alone, with mode 600"),
        SecretError::KeyMissing { .. }
        | SecretError::KeyDamaged { .. }
        | SecretError::WrongKey { .. } => told.hint(
            "put the key back from where it was kept; else move the secrets away and set them anew",
        ),
        SecretError::Damaged { .. } => {
            told.hint("put the file back from where it was kept, or move it away and set them anew")
        }
        SecretError::Empty | SecretError::TooLarge | SecretError::TooMany | SecretError::Full => {
            told.exit_with(EXIT_REFUSED)
        }
        SecretError::File { .. } | SecretError::TooNew { .. } | SecretError::Cipher { .. } => told,
    }
}
