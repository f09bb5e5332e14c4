//! `atoll diff`.

use crate::error::CliError;
use crate::review::{self, Review, Sink};
use crate::session;
use crate::status::Status;
use atoll_store::changes::Change;
use atoll_store::escape::escape;
use atoll_store::session::Listed;
use std::io::{self, Write};

/// Show what a review session changed
///
/// Without options it is a unified diff that `git apply` understands. Names with
/// control characters or bytes that are not UTF-8 are written with \xNN.
///
/// Example: atoll diff --stat
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session [default: the newest of the project around the current directory]
    session: Option<String>,
    /// Show only how many lines changed in each file
    #[arg(long, conflicts_with_all = ["json", "name_only"])]
    stat: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "name_only")]
    json: bool,
    /// Show only the paths
    #[arg(long)]
    name_only: bool,
    /// List the sessions instead
    #[arg(long, conflicts_with_all = ["session", "stat", "name_only"])]
    list: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let sessions = session::sessions()?;
    if args.list {
        let listed = sessions.list().map_err(session::tell)?;
        return print(|sink| list(sink, &listed, args.json));
    }
    let review = Review::read(session::pick(&sessions, args.session.as_deref())?)?;
    if review.session.running_pid().is_some() {
        let note = format!("note: session {} is still running\n", review.session.id());
        // A closed stderr leaves nobody to tell.
        io::stderr().write_all(note.as_bytes()).ok();
    }
    print(|sink| {
        if args.json {
            return sink.line(&format!("{:#}\n", review::changes_json(&review)));
        }
        for change in &review.changes.list {
            if args.name_only {
                sink.line(&format!("{}\n", escape(&change.path)))?;
            } else if args.stat {
                sink.line(&stat(&review, change))?;
            } else {
                review::write_patch(sink, &review.view, change, &notes(&review, change))?;
            }
        }
        if args.stat {
            sink.line(&summary(&review))?;
        }
        Ok(())
    })?;
    // After the diff, so that a pager or a file gets only that.
    let rejected = review::rejected_lines(&review.changes.rejected);
    io::stderr().write_all(rejected.as_bytes()).ok();
    Ok(Status::SUCCESS)
}

/// Why a change needs attention.
fn notes(review: &Review, change: &Change) -> Vec<String> {
    let risks = review.risks(change);
    let risks = risks.iter().map(|risk| format!("risky: {}", risk.reason));
    let conflict = change.conflict.map(|conflict| format!("conflict: {}", conflict.reason()));
    conflict.into_iter().chain(risks).collect()
}

fn stat(review: &Review, change: &Change) -> String {
    let counts = match review::stat(&review.view, change) {
        Some((0, 0)) => String::new(),
        Some((added, removed)) => format!(" | +{added} -{removed}"),
        None => " | binary".into(),
    };
    let notes: Vec<String> = notes(review, change);
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("{} {}{counts}{notes}\n", review::letter(change.kind), escape(&change.path))
}

fn summary(review: &Review) -> String {
    let list = &review.changes.list;
    let conflicts = list.iter().filter(|change| change.conflict.is_some()).count();
    let risky = list.iter().filter(|change| !review.risks(change).is_empty()).count();
    format!("{} changed, {risky} risky, {conflicts} in conflict\n", list.len())
}

fn list<W: Write>(sink: &mut Sink<W>, listed: &Listed, json: bool) -> io::Result<()> {
    if json {
        return sink.line(&format!("{:#}\n", review::list_json(listed)));
    }
    for session in &listed.sessions {
        let state = match session.running_pid() {
            Some(pid) => format!("running as {pid}"),
            None => "ended".into(),
        };
        sink.line(&format!("{}  {state}  {}\n", session.id(), escape(&session.record().project)))?;
    }
    for (id, error) in &listed.broken {
        sink.line(&format!("{id}  broken: {error}\n"))?;
    }
    Ok(())
}

/// Writes to stdout; a reader that has seen enough ends it without an error.
fn print(
    write: impl FnOnce(&mut Sink<io::BufWriter<io::StdoutLock<'static>>>) -> io::Result<()>,
) -> Result<Status, CliError> {
    let mut sink = Sink::stdout();
    match write(&mut sink).and_then(|()| sink.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::new("cannot write to standard output").because(error))
        }
        Ok(()) | Err(_) => Ok(Status::SUCCESS),
    }
}
