//! What lasts from one call to the next, and how a verdict is reached and told.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, statat};
use rustix::io::Errno;
use rustix::process::umask;

use super::call::{Call, PathArgument};
use super::caller::Caller;
use super::decide::{Act, Facts, Failure, Kind, Site, Verdict, decide};
use super::denial::{Class, Denial, Report, Rule, Sink};
use super::ledger::{Ledger, Why, join, within};
use super::open::Waiting;
use super::pointer::Pointer;
use super::rules::{Hidden, Rules};
use super::stand_in::Home;
use super::survey::survey;
use super::told::Told;
use super::walk::{Spot, Walk};

/// What procfs adds to the path of something that has no name any more (proc(5)).
const DELETED: &[u8] = b" (deleted)";

/// How a call is answered.
pub(super) enum Answer {
    Done,
    File {
        file: OwnedFd,
        cloexec: bool,
        /// It must be closed here before the caller goes on.
        is_program: bool,
    },
    /// It cannot be answered yet and must not keep others waiting.
    Later {
        waiting: Waiting,
        cloexec: bool,
    },
    /// The kernel runs it: only for calls that can do no harm whatever the memory
    /// holds that they take.
    Continue,
}

pub(super) struct State {
    pub(super) rules: Rules,
    pub(super) ledger: Ledger,
    pub(super) told: Told,
    pub(super) hidden: Option<Box<dyn Hidden>>,
    pub(super) is_strict: bool,
    /// (path, whether it is a directory)
    pub(super) masked: Vec<(Vec<u8>, bool)>,
    pub(super) umask: Umask,
    pub(super) pointers: Vec<Pointer>,
    /// Where callers can be in other user namespaces than the judge.
    pub(super) home: Option<Home>,
}

pub(super) struct Umask {
    /// What the workload started with.
    pub(super) start: u32,
    /// Somebody set another one, so everybody's must be read.
    pub(super) is_changed: bool,
    /// What this process has now.
    pub(super) own: Option<u32>,
}

impl Umask {
    fn take_over(&mut self, caller: Caller<'_>) -> Result<(), Errno> {
        let wanted = if self.is_changed { caller.umask()? } else { self.start };
        if self.own != Some(wanted) {
            umask(Mode::from_raw_mode(wanted));
            self.own = Some(wanted);
        }
        Ok(())
    }
}

/// One call, its caller, and where denials go.
pub(super) struct Case<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) operation: &'static str,
    pub(super) sink: &'a mut dyn Sink,
    /// Where the name was made: closed when the caller has its answer, which
    /// waits for nothing else.
    pub(super) leftover: Option<OwnedFd>,
}

/// A name with what it is to the rules.
pub(super) struct Judged {
    pub(super) path: Vec<u8>,
    pub(super) site: Site,
}

impl State {
    pub(super) fn answer(&mut self, case: &mut Case<'_>, call: Call) -> Result<Answer, Errno> {
        match call {
            Call::Open { path, flags, mode } => self.open(case, path, flags, mode),
            Call::MakeDirectory { path, mode } => self.make_directory(case, path, mode),
            Call::MakeNode { path, mode, device } => self.make_node(case, path, mode, device),
            Call::MakeLink { target, path } => self.make_link(case, target, path),
            Call::HardLink { from, to, flags } => self.hard_link(case, from, to, flags),
            Call::Rename { from, to, flags } => self.rename(case, from, to, flags),
            Call::Unlink { path, flags } => self.unlink(case, path, flags),
            Call::Truncate { path, length } => self.truncate(case, path, length),
            Call::Change { target, change } => self.change(case, target, change),
            Call::Bind { socket, address, length } => self.bind(case, socket, address, length),
            Call::Umask { mask } => {
                self.umask.is_changed |= mask != self.umask.start;
                Ok(Answer::Continue)
            }
            Call::TooNew => Err(Errno::NOSYS),
        }
    }

    /// Makes files that this process creates come out as the caller's would.
    pub(super) fn become_creator(&mut self, case: &Case<'_>) -> Result<(), Errno> {
        self.umask.take_over(case.caller)
    }

    pub(super) fn judged(&mut self, case: &Case<'_>, path: Vec<u8>) -> Judged {
        let site = if self.is_hidden(&path) {
            Site::Hidden
        } else {
            survey(&mut self.ledger, &self.rules, case.caller.footing.pid, &path)
        };
        let site = match site {
            Site::Free if self.told.covers(&self.ledger, &path) => Site::Told,
            site => site,
        };
        Judged { path, site }
    }

    /// Decides, lifts what the user lifted, and tells what is refused.
    pub(super) fn verdict(
        &mut self,
        case: &mut Case<'_>,
        act: Act,
        judged: &Judged,
        facts: Facts,
    ) -> Result<Verdict, Errno> {
        let verdict = decide(act, &judged.site, facts);
        let is_free = matches!(verdict, Verdict::Allow | Verdict::Birth | Verdict::BirthOfBare);
        if is_free {
            return Ok(verdict);
        }
        let is_final = matches!(
            judged.site,
            Site::UserDenied
                | Site::Hidden
                | Site::Supervisor
                | Site::Above { rule: Rule::UserDeny, .. }
                | Site::Linked(Why { rule: Rule::UserDeny, .. })
        );
        if !is_final && self.is_lifted(&judged.path) {
            return Ok(Verdict::Allow);
        }
        match verdict {
            Verdict::Refuse { rule, class, failure } => {
                let detail = self.link_of(&judged.site);
                Err(self.deny(case, &judged.path, rule, class, failure, detail))
            }
            Verdict::Note => {
                match &judged.site {
                    Site::Tool { top, .. } => self.ledger.note(top.clone()),
                    _ => self.told.note(&judged.path),
                }
                Ok(Verdict::Allow)
            }
            other => Ok(other),
        }
    }

    /// Says what link leads to a place that is protected only by that.
    fn link_of(&self, site: &Site) -> Option<String> {
        let Site::Linked(Why { link: Some(link), .. }) = site else { return None };
        let link = self.relative(link).unwrap_or(link);
        Some(format!("{} leads here", String::from_utf8_lossy(link)))
    }

    /// The path as patterns see it: relative to its root.
    pub(super) fn relative<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        within(path, self.ledger.root_of(path)?)
    }

    fn is_lifted(&self, path: &[u8]) -> bool {
        self.relative(path).is_some_and(|relative| {
            self.rules.allows(&relative.split(|byte| *byte == b'/').collect::<Vec<_>>())
        })
    }

    /// Tells the refusal and gives the error for the caller.
    pub(super) fn deny(
        &self,
        case: &mut Case<'_>,
        path: &[u8],
        rule: Rule,
        class: Class,
        failure: Failure,
        detail: Option<String>,
    ) -> Errno {
        case.sink.denied(Denial {
            rule: rule.code(),
            class,
            operation: case.operation,
            path: to_path(path),
            pid: case.caller.thread.get(),
            detail,
            suggestion: self.suggestion(path, class),
        });
        match failure {
            Failure::Denied => Errno::ACCESS,
            Failure::Busy => Errno::BUSY,
        }
    }

    fn suggestion(&self, path: &[u8], class: Class) -> Option<String> {
        if matches!(class, Class::User | Class::Supervisor) {
            return None;
        }
        let relative = str::from_utf8(self.relative(path)?).ok()?;
        let mut pattern = String::from("/");
        for c in relative.chars() {
            if matches!(c, '*' | '?' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        Some(pattern)
    }

    fn is_hidden(&self, path: &[u8]) -> bool {
        let Some(hidden) = self.hidden.as_ref().filter(|_| self.is_strict) else { return false };
        let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
        let is_directory = found.is_ok_and(|found| kind(found.st_mode) == Kind::Directory);
        // What the host has replaced since somebody took hold of it.
        let was = path.strip_suffix(DELETED).unwrap_or(path);
        [path, was]
            .iter()
            .any(|path| hidden.is_hidden(Path::new(OsStr::from_bytes(path)), is_directory))
    }

    /// Follows masks in directories that have been moved.
    pub(super) fn moved(&mut self, from: &[u8], to: &[u8], is_exchange: bool) {
        for (path, _) in &mut self.masked {
            let back = || within(path, to).filter(|_| is_exchange).map(|rest| join(from, rest));
            if let Some(new) = within(path, from).map(|rest| join(to, rest)).or_else(back) {
                *path = new;
            }
        }
        self.told.moved(&self.ledger, from, to);
        if is_exchange {
            self.ledger.exchanged(from, to);
        } else {
            self.ledger.moved(from, to);
        }
    }

    /// What was let through and should be looked at.
    pub(super) fn report(&self) -> Report {
        let mut report = self.ledger.report();
        let (told, is_cut) = self.told.report();
        report.told_files = told;
        report.is_truncated |= is_cut;
        report
    }

    /// Whether moving a directory would bring to light what is hidden in it.
    pub(super) fn would_unhide(&self, directory: &[u8], target: &[u8]) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        if !self.is_strict {
            return self.masked.iter().any(|(path, is_directory)| {
                within(path, directory).is_some_and(|rest| {
                    !hidden.is_hidden(&to_path(&join(target, rest)), *is_directory)
                })
            });
        }
        unhides(hidden.as_ref(), &to_path(directory), &to_path(target)).unwrap_or(true)
    }
}

impl<'a> Case<'a> {
    pub(super) fn walk(&self) -> Walk<'a> {
        Walk::new(self.caller)
    }

    /// Resolves a path argument up to its last name.
    pub(super) fn spot(
        &self,
        walk: &mut Walk<'a>,
        argument: PathArgument,
    ) -> Result<Spot<'a>, Errno> {
        let path = self.caller.path(argument.address)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let base = self.caller.base(path.to_bytes(), argument)?;
        if !self.caller.is_waiting() {
            return Err(Errno::SRCH);
        }
        walk.start(base, &path)
    }

    /// The real path of a name: its directory's, and the name.
    pub(super) fn path_at(&self, spot: &Spot<'_>) -> Result<Vec<u8>, Errno> {
        let parent = self.caller.footing.path_of(spot.parent.as_fd())?;
        Ok(join(&parent, spot.name.to_bytes()))
    }
}

/// A directory that cannot be read may hold anything.
fn unhides(hidden: &dyn Hidden, from: &Path, to: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if hidden.is_hidden(&old, is_directory) {
            if !hidden.is_hidden(&new, is_directory) {
                return Ok(true);
            }
        } else if is_directory && unhides(hidden, &old, &new)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is at a name, links not followed.
pub(super) fn kind_at(parent: BorrowedFd<'_>, name: &CStr) -> Option<Kind> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(kind(found.st_mode))
}

pub(super) fn kind(mode: u32) -> Kind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

pub(super) fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
