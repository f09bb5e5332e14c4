//! `atoll doctor`.

use crate::doctor::{self, Color, Surroundings};
use crate::env;
use crate::error::CliError;
use crate::status::Status;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Say what works on this machine and how to fix what does not
///
/// Exits with 0 if the container tier works, else with 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the AppArmor profile for this program's own path, and nothing else
    #[arg(long, conflicts_with = "json")]
    apparmor: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let own_path = own_path()?;
    if args.apparmor {
        print(&doctor::profile(&own_path)?)?;
        if let Some(warning) = doctor::path_warning(&own_path) {
            // Nobody is left to warn where stderr is closed.
            writeln!(std::io::stderr(), "hint: {warning}").ok();
        }
        return Ok(Status::SUCCESS);
    }
    let diagnosis = doctor::diagnose(&own_path, &surroundings());
    let text = if args.json { doctor::json(&diagnosis) } else { doctor::text(&diagnosis, color()) };
    print(&text)?;
    Ok(if diagnosis.is_fit() { Status::SUCCESS } else { Status::FAILURE })
}

fn own_path() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::new("cannot find this program's own path").because(error))
}

fn surroundings() -> Surroundings {
    let editors = [env::REMOTE_CONTAINERS, env::CODESPACES];
    Surroundings {
        search_path: env::PATH.get().unwrap_or_default(),
        is_devcontainer: editors.into_iter().any(|variable| variable.get().is_some()),
    }
}

/// Source: no-color.org.
fn color() -> Color {
    let is_wanted = env::NO_COLOR.get().is_none();
    if std::io::stdout().is_terminal() && is_wanted { Color::Ansi } else { Color::Plain }
}

/// A reader that went away, as `head` does, is no failure.
fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::new("cannot write the answer").because(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
