//! What is seen of a place that is not the project's own: the jail's view is asked,
//! as the next run would have it.

use super::{Answer, Disk, RuleKind, Word, guarded, parts};
use crate::policy::load::Loaded;
use crate::run::Outline;
use atoll_api::policy::{Grant, Image, Sourced};
use atoll_api::protect;
use atoll_jail::host::{self, InEtc};
use atoll_jail::spec::{Access, Entry, Source, What};
use std::path::{Path, PathBuf};

const READ_ONLY: &str = "it is shown read-only; --write PATH or files.write makes a place writable";

/// A place of the host that is seen inside.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) entry: &'a Entry,
    /// The directory or file of the host that the entry shows.
    pub(super) tree: &'a Path,
    /// Where the place is seen.
    pub(super) inside: PathBuf,
    access: Access,
}

/// The entry that decides what is at `path` inside.
fn deciding<'a>(entries: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    let above = entries.iter().filter(|entry| path.starts_with(&entry.at));
    above.max_by_key(|entry| entry.at.components().count())
}

/// Finds where `place` is seen inside: at its own path, else at another.
pub(super) fn seen<'a>(entries: &'a [Entry], place: &Path) -> Option<Seen<'a>> {
    let mut found: Vec<Seen<'_>> = Vec::new();
    for entry in entries {
        let What::Bind { source: Source::Path { path, .. }, access, .. } = &entry.what else {
            continue;
        };
        let Ok(below) = place.strip_prefix(path) else { continue };
        // Without the slash at the end that joining nothing would give.
        let inside: PathBuf = entry.at.components().chain(below.components()).collect();
        if deciding(entries, &inside).is_some_and(|deciding| std::ptr::eq(deciding, entry)) {
            found.push(Seen { entry, tree: path, inside, access: *access });
        }
    }
    let own = found.iter().position(|seen| seen.inside == place);
    let at = own.unwrap_or(0);
    (at < found.len()).then(|| found.swap_remove(at))
}

/// The answers for reading and writing what is seen.
pub(super) fn shown(
    loaded: &Loaded,
    outline: &Outline,
    seen: &Seen<'_>,
    place: &Path,
) -> (Answer, Answer) {
    let files = &loaded.merged.policy.files;
    let at = &seen.entry.at;
    if let Some(grant) = grant_of(&files.write, at) {
        let write = protected(loaded, &grant.value.path, place, granted(grant, "write"));
        return (granted(grant, "write"), write);
    }
    if let Some(grant) = grant_of(&files.read, at) {
        let write = Answer::new(Word::No, RuleKind::Grant, READ_ONLY).from(&grant.origin);
        return (granted(grant, "read"), write);
    }
    let in_home = at.starts_with(&outline.home);
    let (rule, reason) = match () {
        () if outline.repository.as_ref() == Some(at) => {
            (RuleKind::Workspace, "it is the project's repository, which lies outside of it")
        }
        () if outline.cache == *at => {
            (RuleKind::Cache, "it is the project's private cache, which is ~/.cache inside")
        }
        () if in_home => (RuleKind::Home, "it belongs to a toolchain in the home directory"),
        () => (RuleKind::System, "it belongs to the system"),
    };
    let read = Answer::new(Word::Yes, rule, reason);
    let write = match seen.access {
        Access::ReadOnly if rule == RuleKind::Workspace => {
            Answer::new(Word::No, rule, "under review the repository can only be read")
        }
        Access::ReadOnly => Answer::new(Word::No, rule, READ_ONLY),
        Access::ReadWrite => {
            let answer = Answer::new(Word::Yes, rule, reason);
            if rule == RuleKind::Workspace { protected(loaded, at, place, answer) } else { answer }
        }
    };
    (read, write)
}

/// The answer for a place that can be written, after the protected names. A
/// repository's own names count from the directory that holds it.
fn protected(loaded: &Loaded, root: &Path, place: &Path, write: Answer) -> Answer {
    let policy = &loaded.merged.policy;
    let root = match root.components().position(|part| part.as_os_str() == ".git") {
        Some(at) => root.components().take(at).collect(),
        None => root.to_owned(),
    };
    let parts = parts(place.strip_prefix(&root).unwrap_or(place));
    let disk = Disk { root: &root, parts: &parts };
    guarded(write, protect::judge(policy, &parts, &disk))
}

/// The grant that put an entry where it is; the later one of the same place counts.
fn grant_of<'a>(grants: &'a [Sourced<Grant>], at: &Path) -> Option<&'a Sourced<Grant>> {
    grants.iter().rfind(|grant| grant.value.path == at)
}

fn granted(grant: &Sourced<Grant>, verb: &str) -> Answer {
    let reason =
        format!("granted by files.{verb} {} ({})", grant.value.path.display(), grant.origin);
    Answer::new(Word::Yes, RuleKind::Grant, reason).from(&grant.origin)
}

/// The answers for what of the host is not seen, or only as a copy.
pub(super) fn unseen(loaded: &Loaded, outline: &Outline, place: &Path) -> (Answer, Answer) {
    let entry = deciding(&outline.entries, place);
    let is_host = loaded.merged.policy.image.value == Image::Host;
    if is_host && entry.is_some_and(|entry| entry.at == Path::new("/etc")) {
        return etc(place);
    }
    device(entry, place).unwrap_or_else(|| {
        let why = || why_unseen(loaded, outline, entry, place);
        (why(), why())
    })
}

fn etc(place: &Path) -> (Answer, Answer) {
    let no = |reason: &str| Answer::new(Word::No, RuleKind::Private, reason);
    let own = "the sandbox has an /etc of its own, with what programs need and no secrets";
    match host::in_etc(place) {
        InEtc::Copied => {
            let copied = "it is copied into the sandbox's own /etc";
            (
                Answer::new(Word::Yes, RuleKind::System, copied),
                no("the sandbox's /etc is read-only"),
            )
        }
        InEtc::Made | InEtc::Absent => (no(own), no(own)),
    }
}

/// The few devices that are the host's own.
fn device(entry: Option<&Entry>, place: &Path) -> Option<(Answer, Answer)> {
    let entry = entry.filter(|entry| entry.what == What::Devices)?;
    let name = place.strip_prefix(&entry.at).ok()?;
    let is_shown = atoll_jail::plan::DEVICES.iter().any(|device| name == Path::new(device));
    let yes =
        || Answer::new(Word::Yes, RuleKind::System, "it is a device that every program needs");
    is_shown.then(|| (yes(), yes()))
}

fn why_unseen(loaded: &Loaded, outline: &Outline, entry: Option<&Entry>, place: &Path) -> Answer {
    let no = |rule, reason: &str| Answer::new(Word::No, rule, reason);
    if entry.is_some_and(|entry| matches!(entry.what, What::Mask { .. })) {
        return no(RuleKind::Home, "it is what a tool publishes with, and is held back");
    }
    if place.starts_with(&outline.home) {
        return no(RuleKind::Home, "the home directory is hidden; inside it is private and empty");
    }
    if entry.is_some() {
        return no(RuleKind::Private, "the sandbox has its own there, nothing of the host's");
    }
    let image = &loaded.merged.policy.image;
    if image.value != Image::Host {
        let reason = "the root is an image, so the host's files are not shown";
        return no(RuleKind::Image, reason).from(&image.origin);
    }
    no(RuleKind::Outside, "it is not part of the view; --read PATH or files.read shows it")
}
