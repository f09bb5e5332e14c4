//! What the policy means for one path, or for one destination.
//!
//! A rule is about a place, not about a spelling: links are resolved first, and the
//! answer is about where they lead. The view is the jail's own, planned as for a run.

pub(crate) mod network;
mod outside;
mod rights;

use crate::error::CliError;
use crate::policy::ignore::{IgnoreSet, Rule};
use crate::policy::load::Loaded;
use crate::policy::show::{ShownOrigin, to_line};
use crate::run::{Outline, outline};
use atoll_api::policy::WorkspaceMode;
use atoll_api::protect::{self, Handling, Protection};
use outside::Seen;
use rights::Right;
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
    /// Where it is seen inside, if not at the same path.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<String>,
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
    Cache,
    Image,
    /// Owner and mode of what is shown.
    Rights,
    Outside,
}

/// Explains `path`, taken from the current directory. It need not exist.
pub(crate) fn explain(loaded: &Loaded, path: &Path) -> Result<Explanation, CliError> {
    let place = locate(&loaded.cwd.join(path))?;
    let metadata = std::fs::symlink_metadata(&place);
    let ends_in_slash = path.as_os_str().as_bytes().ends_with(b"/");
    let is_dir = metadata.as_ref().map_or(ends_in_slash, std::fs::Metadata::is_dir);
    let outline = outline(loaded)?;
    let seen = outside::seen(&outline.entries, &place);
    let in_project = place
        .strip_prefix(&loaded.project.root)
        .ok()
        .filter(|_| seen.as_ref().is_none_or(|seen| seen.entry.at == loaded.project.root));
    let (mut read, mut write) = match (in_project, &seen) {
        (Some(inside), _) => self::in_project(loaded, &outline.rules, inside, is_dir),
        (None, Some(seen)) => outside::shown(loaded, &outline, seen, &place),
        (None, None) => outside::unseen(loaded, &outline, &place),
    };
    if let Some(seen) = &seen {
        read.check(&outline, seen, &place, Right::Read);
        write.check(&outline, seen, &place, Right::Write);
    }
    let inside = seen.map(|seen| seen.inside).filter(|inside| *inside != place);
    Ok(Explanation {
        path: place.to_string_lossy().into_owned(),
        exists: metadata.is_ok(),
        inside: inside.map(|inside| inside.to_string_lossy().into_owned()),
        read,
        write,
    })
}

impl Explanation {
    /// Three lines for people.
    pub(crate) fn text(&self) -> String {
        let missing = if self.exists { "" } else { " (does not exist)" };
        let inside = self.inside.as_ref().map(|inside| format!(" (inside: {inside})"));
        let line = |verb: &str, answer: &Answer| {
            let word = match answer.answer {
                Word::Yes => "yes",
                Word::No => "no",
                Word::Copy => "copy",
            };
            format!("{verb:5} {word:4} {}\n", answer.reason)
        };
        format!(
            "{}{missing}{}\n{}{}",
            self.path,
            inside.unwrap_or_default(),
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

    /// Takes a yes back where owner and mode say no.
    fn check(&mut self, outline: &Outline, seen: &Seen<'_>, place: &Path, right: Right) {
        if self.answer != Word::No && !rights::allow(outline, seen, place, right) {
            let reason = "it is shown, but its owner and mode keep the command's user out";
            *self = Self::new(Word::No, RuleKind::Rights, reason);
        }
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

fn in_project(loaded: &Loaded, rules: &IgnoreSet, inside: &Path, is_dir: bool) -> (Answer, Answer) {
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
        return (no().from(&mode.origin), no().from(&mode.origin));
    }
    let hiding = rules.is_hidden(inside, is_dir);
    let is_strict = policy.workspace.strict_ignore.value && mode.value == WorkspaceMode::Live;
    if let Some(rule) = hiding.as_ref().filter(|_| is_strict || is_there(loaded, rules, inside)) {
        return (hidden(rule), hidden(rule));
    }
    let mut read =
        Answer::new(Word::Yes, RuleKind::Workspace, "it is in the project").from(&mode.origin);
    let mut write = write_in_project(loaded, inside);
    if let Some(rule) = hiding {
        let later = format!("; once it is there, the next run hides it by {rule}");
        read.reason += &later;
        write.reason += &later;
    }
    (read, write)
}

fn hidden(rule: &Rule) -> Answer {
    Answer::new(Word::No, RuleKind::Hidden, format!("hidden by {rule}")).from(&rule.source)
}

/// Whether what hides a path is there to be hidden: only strict mode hides what
/// comes during a run.
fn is_there(loaded: &Loaded, rules: &IgnoreSet, inside: &Path) -> bool {
    inside.ancestors().filter(|path| !path.as_os_str().is_empty()).any(|path| {
        let found = std::fs::symlink_metadata(loaded.project.root.join(path));
        found.is_ok_and(|found| rules.is_hidden(path, found.is_dir()).is_some())
    })
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
