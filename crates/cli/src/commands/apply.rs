//! `atoll apply`.

use crate::error::CliError;
use crate::prompt;
use crate::remote::Remote;
use crate::review::approval::{self, Chosen};
use crate::review::{self, Review};
use crate::session::{self, EXIT_UNDECIDED};
use crate::status::Status;
use atoll_jail::paths::normalise;
use atoll_store::apply::{self, ApplyError, Outcome, Request};
use atoll_store::changes::{Change, RejectReason};
use atoll_store::escape::escape;
use atoll_store::risk::Risk;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Apply the changes of a review session to the project
///
/// Files that can make something run on this machine (hooks, CI, build scripts,
/// editor and agent settings) are listed and have to be confirmed. A file that
/// changed on the host since the session started is left alone and reported;
/// the exit status is then 1 and the session stays. A session that was applied
/// whole is removed.
///
/// Where the policy of the session says `workspace.apply = "ask"`, a person
/// approves all of it: here on a terminal, else by `atoll approvals` at the server.
/// --yes is no such word.
///
/// Example: atoll apply src docs/guide.md
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, and the paths to apply [default: the newest session, everything]
    #[arg(value_name = "SESSION | PATH")]
    words: Vec<OsString>,
    /// Confirm risky files
    #[arg(long)]
    yes: bool,
    /// Apply a path although the host changed it; the host's version is kept
    /// beside it as PATH.orig-SESSION
    #[arg(long, value_name = "PATH")]
    force: Vec<PathBuf>,
    /// Keep the session although all of it was applied
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let sessions = session::sessions()?;
    let (id, paths) = split(&args.words);
    let id = session::pick(&sessions, id.as_deref())?.id().to_owned();
    let lock = sessions.lock(&id).map_err(session::tell)?;
    // Only now is it certain that nobody else changes it.
    let session = sessions.get(&id).map_err(session::tell)?;
    session.check_ended().map_err(session::tell)?;
    let project = session.record().project.clone();
    let paths = in_project(&project, paths)?;
    let force = in_project(&project, args.force.clone())?;
    let review = Review::read(session)?;
    let chosen = Chosen { id: &id, paths: &paths, force: &force };
    let asks = review.session.record().apply_asks.clone();
    let review = if let Some(said_in) = asks {
        let again = || Review::read(sessions.get(&id).map_err(session::tell)?);
        approval::approved(review, &chosen, &said_in, &args.remote, again)?
    } else {
        let changes = chosen.of(&review).into_iter();
        let risky: Vec<(&Change, Vec<Risk>)> = changes
            .map(|change| (change, review.risks(change)))
            .filter(|(_, risks)| !risks.is_empty())
            .collect();
        if !args.yes && !risky.is_empty() {
            confirm(&risky)?;
        }
        review
    };
    let baseline = review.session.open_baseline().map_err(session::tell)?;
    let request = Request { session: &id, paths: &paths, force: &force, baseline: Some(&baseline) };
    let outcome = apply::apply(&review.view, &review.changes, &request).map_err(tell)?;
    let is_whole = outcome.conflicts.is_empty() && outcome.left_out == 0 && is_all(&review);
    let rejected = review::rejected_lines(&review.changes.rejected);
    drop(review);
    if is_whole && !args.keep {
        sessions.discard_held(&id, lock).map_err(session::tell)?;
    }
    report(&args, &id, &outcome, is_whole && !args.keep, &rejected)
}

/// Whether the session holds nothing that is worth keeping: what cannot be
/// applied is gone with it only if it could never be.
fn is_all(review: &Review) -> bool {
    let never = |why| matches!(why, RejectReason::Special(_) | RejectReason::ForgedMark);
    review.changes.rejected.iter().all(|rejected| never(rejected.why))
}

/// Takes a session's id off the front.
fn split(words: &[OsString]) -> (Option<String>, Vec<PathBuf>) {
    match words.split_first() {
        Some((first, rest)) if first.to_str().is_some_and(session::is_id) => {
            (first.to_str().map(str::to_owned), rest.iter().map(PathBuf::from).collect())
        }
        _ => (None, words.iter().map(PathBuf::from).collect()),
    }
}

/// Turns paths from the command line into paths within the project. They may not
/// exist, so they are taken apart as text.
fn in_project(project: &Path, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, CliError> {
    if paths.is_empty() {
        return Ok(paths);
    }
    let here = std::env::current_dir()
        .map_err(|error| CliError::new("cannot tell the current directory").because(error))?;
    let real = session::real(project);
    let inside = |path: PathBuf| {
        let whole = normalise(&here.join(&path));
        let rest = whole.strip_prefix(&real).or_else(|_| whole.strip_prefix(project));
        rest.map(Path::to_owned).map_err(|_| {
            let message = format!("{} is not in the project {}", escape(&path), escape(project));
            CliError::new(message).exit_with(EXIT_UNDECIDED)
        })
    };
    paths.into_iter().map(inside).collect()
}

/// Lists the risky files and asks, if there is anyone to ask.
fn confirm(risky: &[(&Change, Vec<Risk>)]) -> Result<(), CliError> {
    let mut stderr = io::stderr();
    // A closed stderr leaves nobody to tell; the question below then fails too.
    stderr.write_all(review::risk_lines(risky).as_bytes()).ok();
    let refused = || CliError::new("nothing was applied").exit_with(EXIT_UNDECIDED);
    if !(io::stdin().is_terminal() && stderr.is_terminal()) {
        let hint =
            "look at them with `atoll diff`, then confirm with --yes, or name the paths to apply";
        return Err(CliError::new("risky files have to be confirmed; nothing was applied")
            .hint(hint)
            .exit_with(EXIT_UNDECIDED));
    }
    match prompt::is_confirmed("Apply them?").map_err(|error| refused().because(error))? {
        true => Ok(()),
        false => Err(refused()),
    }
}

fn tell(error: ApplyError) -> CliError {
    let exit = match &error {
        ApplyError::NoSuchChange { .. } => EXIT_UNDECIDED,
        ApplyError::Stage { .. }
        | ApplyError::Baseline { .. }
        | ApplyError::Prepare { .. }
        | ApplyError::Commit { .. }
        | ApplyError::Finish { .. }
        | ApplyError::Changes { .. } => crate::error::EXIT_OURS,
    };
    let hint = match exit {
        EXIT_UNDECIDED => "`atoll diff --name-only` lists the paths that changed",
        _ => "the session is kept; the same command can be repeated",
    };
    let told = CliError::new(error.to_string()).hint(hint).exit_with(exit);
    match std::error::Error::source(&error) {
        Some(source) => told.because(source.to_string()),
        None => told,
    }
}

fn report(
    args: &Args,
    id: &str,
    outcome: &Outcome,
    is_removed: bool,
    rejected: &str,
) -> Result<Status, CliError> {
    if args.remote.json {
        let text = format!("{:#}\n", review::apply_json(id, outcome, is_removed));
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| CliError::new("cannot write to standard output").because(error))?;
    }
    let mut text = rejected.to_owned();
    for (path, kept) in &outcome.kept {
        text += &format!("kept: {} as {}\n", escape(path), escape(kept));
    }
    for (path, conflict) in &outcome.conflicts {
        text += &format!("conflict: {} {}\n", escape(path), conflict.reason());
    }
    text += &format!("applied {} of {}", outcome.applied.len(), total(outcome));
    text += &if is_removed {
        format!("; session {id} is removed\n")
    } else {
        format!("; session {id} stays\n")
    };
    // A closed stderr leaves nobody to tell; the exit status still speaks.
    io::stderr().write_all(text.as_bytes()).ok();
    if outcome.conflicts.is_empty() {
        return Ok(Status::SUCCESS);
    }
    Err(CliError::new("some paths changed on the host and were left alone")
        .hint("compare with `atoll diff`; --force PATH takes the session's version and keeps the host's beside it")
        .exit_with(EXIT_UNDECIDED))
}

fn total(outcome: &Outcome) -> usize {
    outcome.applied.len() + outcome.conflicts.len() + outcome.left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_first_or_not_at_all() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let (id, paths) = split(&words(&["ses_0123456789abcdef", "a"]));
        assert_eq!((id.as_deref(), paths), (Some("ses_0123456789abcdef"), vec!["a".into()]));
        let (id, paths) = split(&words(&["a", "ses_0123456789abcdef"]));
        assert_eq!((id, paths.len()), (None, 2));
        assert_eq!(split(&[]), (None, vec![]));
    }

    #[test]
    fn paths_are_taken_apart_as_text() {
        let here = std::env::current_dir().unwrap();
        let inside = |path: &str| in_project(&here, vec![path.into()]);
        assert_eq!(inside("x/../y").unwrap(), [PathBuf::from("y")]);
        assert_eq!(inside(".").unwrap(), [PathBuf::new()]);
        assert!(inside("../x").is_err());
    }
}
