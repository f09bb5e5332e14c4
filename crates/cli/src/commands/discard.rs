//! `atoll discard`.

use crate::error::CliError;
use crate::prompt;
use crate::session::{self, EXIT_UNDECIDED};
use crate::status::Status;
use atoll_store::apply;
use atoll_store::escape::escape;
use std::io::{self, IsTerminal as _, Write as _};

/// Throw a review session away
///
/// The project stays as it is. What the session changed is gone for good.
///
/// Example: atoll discard ses_0123456789abcdef
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session [default: the newest of the project around the current directory]
    session: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let sessions = session::sessions()?;
    // A named one may have a record that cannot be read any more.
    let (id, project) = match args.session {
        Some(id) => {
            let project = sessions.get(&id).ok().map(|session| session.record().project.clone());
            (id, project)
        }
        None => {
            let session = session::pick(&sessions, None)?;
            (session.id().to_owned(), Some(session.record().project.clone()))
        }
    };
    let lock = sessions.lock(&id).map_err(session::tell)?;
    if let Ok(session) = sessions.get(&id) {
        session.check_ended().map_err(session::tell)?;
    }
    if !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal() {
        confirm(&id, project.as_deref())?;
    }
    if let Some(project) = &project {
        // What a killed apply of it left; a project that is gone has nothing.
        apply::sweep(project, &id).ok();
    }
    sessions.discard_held(&id, lock).map_err(session::tell)?;
    let text = if args.json {
        format!("{:#}\n", serde_json::json!({"session": id, "discarded": true}))
    } else {
        String::new()
    };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| CliError::new("cannot write to standard output").because(error))?;
    Ok(Status::SUCCESS)
}

fn confirm(id: &str, project: Option<&std::path::Path>) -> Result<(), CliError> {
    let refused = || CliError::new("nothing was discarded").exit_with(EXIT_UNDECIDED);
    let project = project.map_or_else(String::new, |project| format!(" of {}", escape(project)));
    let question = format!("Throw session {id}{project} away?");
    match prompt::is_confirmed(&question).map_err(|error| refused().because(error))? {
        true => Ok(()),
        false => Err(refused()),
    }
}
