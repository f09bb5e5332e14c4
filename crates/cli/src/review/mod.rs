//! What `atoll diff`, `apply` and `discard` have in common: a session's changes
//! with their risks, for people and as JSON.

pub(crate) mod approval;
mod json;
mod names;
mod patch;

pub(crate) use json::{apply_json, changes_json, list_json};
pub(crate) use patch::{Sink, stat, write_patch};

use crate::error::CliError;
use atoll_store::changes::{self, Change, ChangeKind, Changes, Rejected};
use atoll_store::escape::escape;
use atoll_store::risk::{self, Item, Risk};
use atoll_store::session::Session;
use atoll_store::view::View;
use std::fs::File;
use std::io::Read as _;

/// The changes of a session and what they were read from.
pub(crate) struct Review {
    pub(crate) session: Session,
    pub(crate) view: View,
    pub(crate) changes: Changes,
    targets: names::Targets,
}

impl Review {
    pub(crate) fn read(session: Session) -> Result<Self, CliError> {
        let view = session.view().map_err(crate::session::tell)?;
        let changes = changes::read(&view).map_err(|error| {
            let message = format!("cannot read the changes of session {}", session.id());
            CliError::new(message).because(error)
        })?;
        let targets = names::Targets::of(&session.record().project);
        Ok(Self { session, view, changes, targets })
    }

    /// Why a change should be looked at before it is applied.
    pub(crate) fn risks(&self, change: &Change) -> Vec<Risk> {
        let mut risks = self.known_risks(change);
        if risks.is_empty() {
            risks.extend(self.targets.risk(change));
        }
        risks
    }

    fn known_risks(&self, change: &Change) -> Vec<Risk> {
        let mut item = Item::of(change);
        if !risk::wants_content(&change.path) {
            return risk::classify(&item);
        }
        let before = content(change.open_before(&self.view));
        let after = content(change.open_after(&self.view));
        item.before_content = before.as_deref();
        item.after_content = after.as_deref();
        risk::classify(&item)
    }
}

/// A file's content if it is small enough to be looked into.
fn content(file: std::io::Result<Option<File>>) -> Option<Vec<u8>> {
    let file = file.ok().flatten()?;
    let mut content = Vec::new();
    file.take(risk::LONGEST_CONTENT + 1).read_to_end(&mut content).ok()?;
    let fits = u64::try_from(content.len()).is_ok_and(|length| length <= risk::LONGEST_CONTENT);
    fits.then_some(content)
}

/// One letter for the kind of a change.
pub(crate) fn letter(kind: ChangeKind) -> char {
    match kind {
        ChangeKind::Added => 'A',
        ChangeKind::Modified => 'M',
        ChangeKind::Mode => 'P',
        ChangeKind::Attributes => 'X',
        ChangeKind::TypeChanged => 'T',
        ChangeKind::Deleted => 'D',
    }
}

/// A word for the kind of a change, part of the JSON contract.
pub(crate) fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Mode => "mode",
        ChangeKind::Attributes => "attributes",
        ChangeKind::TypeChanged => "type_changed",
        ChangeKind::Deleted => "deleted",
    }
}

/// The line that tells a risky path.
fn risk_line(change: &Change, risks: &[Risk]) -> String {
    let reasons: Vec<&str> = risks.iter().map(|risk| risk.reason).collect();
    format!("  {} {}: {}\n", letter(change.kind), escape(&change.path), reasons.join("; "))
}

/// What says that risky paths are among those that are applied; nothing where none is.
pub(crate) fn risk_lines(risky: &[(&Change, Vec<Risk>)]) -> String {
    let lines = risky.iter().map(|(change, risks)| risk_line(change, risks));
    match risky.is_empty() {
        true => String::new(),
        false => std::iter::once("These can make something run on this machine:\n".to_owned())
            .chain(lines)
            .collect(),
    }
}

/// Lines about what a session left that is never applied.
pub(crate) fn rejected_lines(rejected: &[Rejected]) -> String {
    let line = |rejected: &Rejected| {
        format!("not applicable: {} {}\n", escape(&rejected.path), rejected.why.reason())
    };
    rejected.iter().map(line).collect()
}
