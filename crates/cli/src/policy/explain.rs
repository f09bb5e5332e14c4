//! What the policy means for one path.
//!
//! A rule is about a place, not about a spelling: links are resolved first, and the
//! answer is about where they lead.

use super::ignore::Rule;
use super::load::Loaded;
use super::show::{ShownOrigin, to_line};
use super::view;
use crate::error::CliError;
use atoll_api::policy::{Grant, Image, Sourced, WorkspaceMode};
use atoll_api::protect::{self, Handling, Protection};
use serde::Serialize;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Whether one path of the host can be read and written inside.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    /// Where the path leads, links resolved.
    path: String,
    exists: bool,
    read: Answer,
    write: Answer,
}

#[derive(Debug, Serialize)]
struct Answer {
    answer: Word,
    /// Which kind of rule decides.
    rule: RuleKind,
    reason: String,
    /// Where the rule stands, when somebody wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<ShownOrigin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Yes,
    No,
    /// Into a copy; the host keeps its file until the changes are applied.
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum RuleKind {
    Workspace,
    Hidden,
    Protected,
    Grant,
    System,
    Home,
    Private,
    Image,
    Outside,
}

/// Explains `path`, taken from the current directory. It need not exist.
pub(crate) fn explain(loaded: &Loaded, path: &Path) -> Result<Explanation, CliError> {
    let place = locate(&loaded.cwd.join(path))?;
    let metadata = std::fs::symlink_metadata(&place);
    let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
    let is_dir = metadata.as_ref().map_or(ends_in_slash, std::fs::Metadata::is_dir);
    let (read, write) = match place.strip_prefix(&loaded.project.root) {
        Ok(inside) => in_project(loaded, inside, is_dir)?,
        Err(_) => outside_project(loaded, &place),
    };
    Ok(Explanation {
        path: place.to_string_lossy().into_owned(),
        exists: metadata.is_ok(),
        read,
        write,
    })
}

impl Explanation {
    /// Three lines for people.
    pub(crate) fn text(&self) -> String {
        let missing = if self.exists { "" } else { " (does not exist)" };
        let line = |verb: &str, answer: &Answer| {
            let word = match answer.answer {
                Word::Yes => "yes",
                Word::No => "no",
                Word::Copy => "copy",
            };
            format!("{verb:5} {word:4} {}\n", answer.reason)
        };
        format!(
            "{}{missing}\n{}{}",
            self.path,
            line("read", &self.read),
            line("write", &self.write)
        )
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        to_line(self)
    }
}

impl Answer {
    fn new(answer: Word, rule: RuleKind, reason: impl Into<String>) -> Self {
        Self { answer, rule, reason: reason.into(), origin: None }
    }

    fn from(mut self, origin: impl Into<ShownOrigin>) -> Self {
        self.origin = Some(origin.into());
        self
    }
}

/// Resolves every link in a path, the last component's too; what does not exist
/// stays as it is.
fn locate(path: &Path) -> Result<PathBuf, CliError> {
    let mut place = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = VecDeque::new();
    push_front(&mut rest, path);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(CliError::new(format!(
                        "{} leads through too many links",
                        path.display()
                    )));
                }
                if target.is_absolute() {
                    place = PathBuf::from("/");
                }
                push_front(&mut rest, &target);
            }
            Err(_) => place = next,
        }
    }
    Ok(place)
}

fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}

fn in_project(loaded: &Loaded, inside: &Path, is_dir: bool) -> Result<(Answer, Answer), CliError> {
    let policy = &loaded.merged.policy;
    let mode = &policy.workspace.mode;
    if mode.value == WorkspaceMode::None {
        let no = || {
            Answer::new(
                Word::No,
                RuleKind::Workspace,
                "the workspace mode is none: the project is not shown",
            )
        };
        return Ok((no().from(&mode.origin), no().from(&mode.origin)));
    }
    let (rules, _) = loaded.scan_hidden()?;
    if let Some(rule) = rules.is_hidden(inside, is_dir) {
        return Ok((hidden(&rule), hidden(&rule)));
    }
    let read =
        Answer::new(Word::Yes, RuleKind::Workspace, "it is in the project").from(&mode.origin);
    Ok((read, write_in_project(loaded, inside)))
}

fn hidden(rule: &Rule) -> Answer {
    Answer::new(Word::No, RuleKind::Hidden, format!("hidden by {rule}")).from(&rule.source)
}

fn write_in_project(loaded: &Loaded, inside: &Path) -> Answer {
    let policy = &loaded.merged.policy;
    let mode = &policy.workspace.mode;
    let parts = parts(inside);
    let disk = Disk { root: &loaded.project.root, parts: &parts };
    let protection = protect::judge(policy, &parts, &disk);
    if mode.value == WorkspaceMode::Review {
        let asks = match protection {
            Some(protection) => {
                format!("; that asks first, since {}", protection_reason(&protection))
            }
            None => String::new(),
        };
        let reason = format!("into a copy, which reaches the project by `atoll apply`{asks}");
        return Answer::new(Word::Copy, RuleKind::Workspace, reason).from(&mode.origin);
    }
    let allowed =
        Answer::new(Word::Yes, RuleKind::Workspace, "it is in the project").from(&mode.origin);
    guarded(allowed, protection)
}

/// The answer for a writable place, after the protected names have been asked.
fn guarded(mut allowed: Answer, protection: Option<Protection<'_>>) -> Answer {
    let Some(protection) = protection else { return allowed };
    let reason = protection_reason(&protection);
    if !protection.refuses() {
        allowed.reason = format!("{}; {reason}", allowed.reason);
        return allowed;
    }
    let reason = format!("{reason}; --allow-write PATTERN or protect.allow lifts it");
    let answer = Answer::new(Word::No, RuleKind::Protected, reason);
    match protection {
        Protection::Rule(rule) => answer.from(&rule.origin),
        Protection::IgnoreFile(name) => answer.from(&name.origin),
        Protection::GitInternal(_) | Protection::GitPointer | Protection::Name(_) => answer,
    }
}

fn parts(path: &Path) -> Vec<&[u8]> {
    path.components().map(|part| part.as_os_str().as_bytes()).collect()
}

fn protection_reason(protection: &Protection<'_>) -> String {
    match protection {
        Protection::Rule(rule) => {
            let verb = if protection.refuses() { "protected" } else { "allowed" };
            format!("{verb} by {:?} ({})", rule.value.pattern.as_str(), rule.origin)
        }
        Protection::IgnoreFile(name) => {
            format!("{:?} is protected (what the next run hides)", name.value)
        }
        Protection::GitInternal(internal) => {
            format!("{:?} of a repository is protected ({})", internal.name, internal.why)
        }
        Protection::GitPointer => "\".git\" is protected (where the repository is)".to_owned(),
        Protection::Name(name) if name.handling == Handling::Report => {
            format!("a change to {:?} is reported ({})", name.name, name.why)
        }
        Protection::Name(name) => format!("{:?} is protected ({})", name.name, name.why),
    }
}

/// What is on the disk now.
struct Disk<'a> {
    root: &'a Path,
    parts: &'a [&'a [u8]],
}

impl Disk<'_> {
    fn at(&self, depth: usize) -> PathBuf {
        let parts = self.parts.iter().take(depth).map(|part| std::ffi::OsStr::from_bytes(part));
        parts.fold(self.root.to_owned(), |path, part| path.join(part))
    }
}

impl protect::Tree for Disk<'_> {
    fn holds_git(&self, depth: usize) -> bool {
        std::fs::symlink_metadata(self.at(depth).join(".git")).is_ok()
    }

    fn is_file(&self, depth: usize) -> bool {
        std::fs::symlink_metadata(self.at(depth)).is_ok_and(|metadata| !metadata.is_dir())
    }
}

fn outside_project(loaded: &Loaded, place: &Path) -> (Answer, Answer) {
    let policy = &loaded.merged.policy;
    if let Some(grant) = grant_of(&policy.files.write, place) {
        let parts = parts(place.strip_prefix(&grant.value.path).unwrap_or(place));
        let disk = Disk { root: &grant.value.path, parts: &parts };
        let write = guarded(granted(grant, "write"), protect::judge(policy, &parts, &disk));
        return (granted(grant, "write"), write);
    }
    let read_only = "it is shown read-only; --write PATH or files.write makes a place writable";
    if let Some(grant) = grant_of(&policy.files.read, place) {
        return (
            granted(grant, "read"),
            Answer::new(Word::No, RuleKind::Grant, read_only).from(&grant.origin),
        );
    }
    let answer = without_grant(loaded, place);
    let write = match answer.answer {
        Word::Yes => Answer::new(Word::No, answer.rule, read_only),
        Word::No | Word::Copy => without_grant(loaded, place),
    };
    (answer, write)
}

fn grant_of<'a>(grants: &'a [Sourced<Grant>], place: &Path) -> Option<&'a Sourced<Grant>> {
    grants.iter().find(|grant| place.starts_with(&grant.value.path))
}

fn granted(grant: &Sourced<Grant>, verb: &str) -> Answer {
    let reason =
        format!("granted by files.{verb} {} ({})", grant.value.path.display(), grant.origin);
    Answer::new(Word::Yes, RuleKind::Grant, reason).from(&grant.origin)
}

/// Whether a place that nobody has granted can be read.
fn without_grant(loaded: &Loaded, place: &Path) -> Answer {
    let image = &loaded.merged.policy.image;
    let is_in = |list: &[&str], place: &Path| list.iter().any(|dir| place.starts_with(dir));
    let in_home = loaded.home.as_deref().and_then(|home| place.strip_prefix(home).ok());
    if let Some(inside) = in_home {
        if is_in(view::HOME_TOOLCHAINS, inside) {
            return Answer::new(
                Word::Yes,
                RuleKind::Home,
                "it belongs to a toolchain in the home directory",
            );
        }
        return Answer::new(
            Word::No,
            RuleKind::Home,
            "the home directory is hidden; inside it is private and empty",
        );
    }
    if is_in(view::PRIVATE, place) {
        return Answer::new(
            Word::No,
            RuleKind::Private,
            "the sandbox has its own there, nothing of the host's",
        );
    }
    if image.value != Image::Host {
        let reason = "the root is an image, so the host's files are not shown";
        return Answer::new(Word::No, RuleKind::Image, reason).from(&image.origin);
    }
    if is_in(view::SYSTEM, place) {
        return Answer::new(Word::Yes, RuleKind::System, "it belongs to the system");
    }
    if place.starts_with("/etc") {
        let reason = "the sandbox has an /etc of its own, with what programs need and no secrets";
        return Answer::new(Word::No, RuleKind::Private, reason);
    }
    Answer::new(
        Word::No,
        RuleKind::Outside,
        "it is not part of the view; --read PATH or files.read shows it",
    )
}
