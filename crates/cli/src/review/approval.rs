//! A person's word on what a session applies, where the policy under which it was made says so.
//!
//! On a terminal that is who sits there; elsewhere somebody who decides at the server. What was
//! approved is named by its digest, and nothing else is applied.

use super::{Review, letter, risk_lines, word};
use crate::cut::cut;
use crate::error::CliError;
use crate::prompt;
use crate::remote::{Remote, neutral};
use crate::session::EXIT_UNDECIDED;
use atoll_api::approval::{
    ASK_ITEMS_MAX, ASK_PATH_CHARS_MAX, Approval, ApprovalStatus, AskApproval, REASON_CHARS_MAX,
    RiskyChange,
};
use atoll_client::{ApprovalStream, Client, ClientError};
use atoll_store::changes::{self, Change, ChangeKind};
use atoll_store::digest::Digest;
use atoll_store::escape::escape;
use atoll_store::risk::Risk;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Changes that are listed on a terminal.
const LISTED_MAX: usize = 50;

/// How often it is said that there is still somebody waited for.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Longer than an approval is pending.
const PATIENCE: Duration = Duration::from_secs(11 * 60);

/// What of a session is to be applied.
pub(crate) struct Chosen<'a> {
    pub(crate) id: &'a str,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) force: &'a [PathBuf],
}

impl Chosen<'_> {
    /// What is applied of these changes.
    pub(crate) fn of<'c>(&self, review: &'c Review) -> Vec<&'c Change> {
        let is_chosen = |change: &&Change| {
            let is_named =
                change.is_at_or_beneath(self.paths) || change.is_at_or_beneath(self.force);
            let is_free = change.conflict.is_none() || change.is_at_or_beneath(self.force);
            (self.paths.is_empty() || is_named) && is_free
        };
        review.changes.list.iter().filter(is_chosen).collect()
    }

    fn digest(&self, review: &Review) -> Result<Digest, CliError> {
        let project = review.session.record().project.as_os_str().as_bytes();
        let mut others = vec![self.id.as_bytes(), project];
        others.extend(self.force.iter().map(|path| path.as_os_str().as_bytes()));
        changes::digest(&review.view, self.of(review), &others).map_err(|error| {
            CliError::new(format!("cannot read all of session {}", self.id)).because(error)
        })
    }
}

/// Has a person approve what was chosen. `read` reads the session once more: what is given is
/// what was approved.
///
/// # Errors
///
/// It was not approved, or is something else by now.
pub(crate) fn approved(
    review: Review,
    chosen: &Chosen<'_>,
    said_in: &str,
    remote: &Remote,
    read: impl FnOnce() -> Result<Review, CliError>,
) -> Result<Review, CliError> {
    let changes = chosen.of(&review);
    if changes.is_empty() {
        return Ok(review);
    }
    let digest = chosen.digest(&review)?;
    let risky: Vec<(&Change, Vec<Risk>)> = changes
        .iter()
        .map(|change| (*change, review.risks(change)))
        .filter(|(_, risks)| !risks.is_empty())
        .collect();
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        ask_here(&changes, &risky, said_in)?;
    } else {
        let wanted = wanted(&review, chosen, &digest, &changes, &risky, said_in);
        ask_server(remote, &wanted, chosen.id)?;
    }
    drop(review);
    let review = read()?;
    if chosen.digest(&review)? != digest {
        return Err(refused(
            "approval-outdated",
            "the session or the project has changed since this was approved",
            "look at it with `atoll diff`, and apply it again",
        ));
    }
    Ok(review)
}

fn refused(code: &str, message: &str, hint: &str) -> CliError {
    CliError::new(format!("{message}; nothing was applied [{code}]"))
        .hint(hint)
        .exit_with(EXIT_UNDECIDED)
}

fn ask_here(
    changes: &[&Change],
    risky: &[(&Change, Vec<Risk>)],
    said_in: &str,
) -> Result<(), CliError> {
    let mut text = format!("A person approves what is applied ({}):\n", neutral(said_in));
    for change in changes.iter().take(LISTED_MAX) {
        text += &format!("  {} {}\n", letter(change.kind), escape(&change.path));
    }
    if let Some(more) = changes.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        text += &format!("  and {more} more: `atoll diff` shows them\n");
    }
    text += &risk_lines(risky);
    text += &match changes.len() {
        1 => "Apply it?".to_owned(),
        count => format!("Apply all {count}?"),
    };
    let unsaid = || refused("approval-denied", "it was not approved", "`atoll diff` shows it");
    match prompt::is_confirmed(&text).map_err(|error| unsaid().because(error))? {
        true => Ok(()),
        false => Err(unsaid()),
    }
}

fn wanted(
    review: &Review,
    chosen: &Chosen<'_>,
    digest: &Digest,
    changes: &[&Change],
    risky: &[(&Change, Vec<Risk>)],
    said_in: &str,
) -> AskApproval {
    let count =
        |is: fn(ChangeKind) -> bool| changes.iter().filter(|change| is(change.kind)).count() as u64;
    let forced = chosen.force.iter().map(|path| format!("{} (--force)", escape(path)));
    let mut paths: Vec<String> =
        chosen.paths.iter().map(|path| escape(path)).chain(forced).collect();
    if paths.len() > ASK_ITEMS_MAX {
        let more = paths.len() - (ASK_ITEMS_MAX - 1);
        paths.truncate(ASK_ITEMS_MAX - 1);
        paths.push(format!("and {more} more"));
    }
    let risk = |(change, risks): &(&Change, Vec<Risk>)| {
        let reasons: Vec<&str> = risks.iter().map(|risk| risk.reason).collect();
        RiskyChange {
            path: cut(&escape(&change.path), ASK_PATH_CHARS_MAX),
            change: word(change.kind).to_owned(),
            why: cut(&reasons.join("; "), REASON_CHARS_MAX),
        }
    };
    AskApproval::Apply {
        session: chosen.id.to_owned(),
        project: cut(&escape(&review.session.record().project), ASK_PATH_CHARS_MAX),
        digest: digest.to_string(),
        paths: paths.iter().map(|path| cut(path, ASK_PATH_CHARS_MAX)).collect(),
        added: count(|kind| kind == ChangeKind::Added),
        modified: count(|kind| !matches!(kind, ChangeKind::Added | ChangeKind::Deleted)),
        deleted: count(|kind| kind == ChangeKind::Deleted),
        risky: risky.len() as u64,
        risks: risky.iter().take(ASK_ITEMS_MAX).map(risk).collect(),
        said_in: cut(&neutral(said_in), ASK_PATH_CHARS_MAX),
    }
}

/// Asks at the server, and waits until somebody has decided.
fn ask_server(remote: &Remote, wanted: &AskApproval, id: &str) -> Result<(), CliError> {
    let told = |error: ClientError| match error {
        ClientError::NoServer { .. } | ClientError::Connect { .. } => refused(
            "approval-unavailable",
            &format!("a person has to approve it, and there is nobody to ask: {error}"),
            &format!(
                "run `atoll apply {id}` on a terminal; or start `atoll serve`, run it again, and \
                 approve it with `atoll approvals`"
            ),
        ),
        error => remote.failed(error),
    };
    let client = remote.client()?;
    remote.wait(async {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let asked = client.ask_approval(wanted).await.map_err(told)?;
            let decided = match asked.status {
                // With this answer it is used.
                ApprovalStatus::Approved => return Ok(()),
                ApprovalStatus::Pending => wait(&client, asked).await.map_err(told)?,
                ApprovalStatus::Denied | ApprovalStatus::Expired => asked,
            };
            match decided.status {
                ApprovalStatus::Approved => {}
                ApprovalStatus::Denied => {
                    let reason = decided.decided.and_then(|decided| decided.reason);
                    let reason = reason.map(|reason| format!(": {}", neutral(&reason)));
                    let message = format!("it was not approved{}", reason.unwrap_or_default());
                    let hint = "`atoll diff` shows it, and `atoll discard` throws it away";
                    return Err(refused("approval-denied", &message, hint));
                }
                ApprovalStatus::Pending | ApprovalStatus::Expired => break,
            }
        }
        Err(refused(
            "approval-expired",
            "nobody approved it in time",
            &format!("run `atoll apply {id}` again when somebody is there to decide"),
        ))
    })?
}

/// Waits until an approval is decided, and says so.
async fn wait(client: &Client, asked: Approval) -> Result<Approval, ClientError> {
    let id = asked.id.to_string();
    let mut pending_until = asked.pending_until;
    loop {
        let text = format!(
            "atoll: waiting until {pending_until} for somebody to approve {id}: `atoll approvals \
             show {id}`, then `approve` or `deny`\n"
        );
        // A closed stderr leaves nobody to tell.
        io::stderr().write_all(text.as_bytes()).ok();
        // Before it is looked at, so that nothing falls in between.
        let changes = client.follow_approvals().await?;
        let now = client.get_approval(&id).await?;
        if now.status != ApprovalStatus::Pending {
            return Ok(now);
        }
        pending_until = now.pending_until;
        // After a while it is said once more.
        if let Ok(decided) = timeout(SAID_EVERY, decided(changes, &asked)).await {
            match decided? {
                Some(decided) => return Ok(decided),
                // The server ends, and with it what is pending.
                None => return client.get_approval(&id).await,
            }
        }
    }
}

/// The approval as it is decided; nothing if its stream ends before.
async fn decided(
    mut changes: ApprovalStream,
    asked: &Approval,
) -> Result<Option<Approval>, ClientError> {
    loop {
        match changes.next().await? {
            Some(Ok(one)) if one.id == asked.id && one.status != ApprovalStatus::Pending => {
                return Ok(Some(one));
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Ok(None),
        }
    }
}
