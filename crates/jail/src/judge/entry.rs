//! Calls that make, move or remove a name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, linkat, mkdirat, mknodat, openat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::call::PathArgument;
use super::decide::{Act, Facts, Failure, Kind, Site, Verdict};
use super::denial::{Class, Rule};
use super::footing::number;
use super::git::layout::Part;
use super::ledger::join;
use super::state::{Answer, Case, Judged, State, kind, kind_at};
use super::walk::{Followed, Spot};

/// Where git's try at a link leads: beside it, so to what is judged as well.
const PROBE_TARGET: &[u8] = b"testing";

impl State {
    pub(super) fn make_directory(
        &mut self,
        case: &mut Case<'_>,
        path: PathArgument,
        mode: u32,
    ) -> Result<Answer, Errno> {
        let spot = case.spot(&mut case.walk(), path)?;
        let (judged, verdict) = self.creation(case, &spot, Kind::Directory)?;
        self.become_creator(case)?;
        mkdirat(
            spot.parent.as_fd(),
            spot.with_slash().as_c_str(),
            Mode::from_raw_mode(mode & 0o7777),
        )?;
        if verdict == Verdict::Birth {
            self.ledger.birth(judged.path);
        }
        Ok(Answer::Done)
    }

    pub(super) fn make_node(
        &mut self,
        case: &mut Case<'_>,
        path: PathArgument,
        mode: u32,
        device: u64,
    ) -> Result<Answer, Errno> {
        let spot = case.spot(&mut case.walk(), path)?;
        let made = if mode & libc::S_IFMT == 0 { Kind::File } else { kind(mode) };
        self.creation(case, &spot, made)?;
        self.become_creator(case)?;
        let file_type = match mode & libc::S_IFMT {
            0 => FileType::RegularFile,
            other => FileType::from_raw_mode(other),
        };
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        mknodat(spot.parent.as_fd(), spot.with_slash().as_c_str(), file_type, permissions, device)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_link(
        &mut self,
        case: &mut Case<'_>,
        target: u64,
        path: PathArgument,
    ) -> Result<Answer, Errno> {
        let target = case.caller.path(target)?;
        let spot = case.spot(&mut case.walk(), path)?;
        let (judged, _) = self.creation(case, &spot, Kind::Link)?;
        let is_probe = matches!(judged.site, Site::Git { part: Part::Probe, .. });
        if is_probe && target.to_bytes() != PROBE_TARGET {
            let (rule, class) = (Rule::GitLink, Class::Repository);
            return Err(self.deny(case, &judged.path, rule, class, Failure::Denied, None));
        }
        symlinkat(&target, spot.parent.as_fd(), spot.with_slash().as_c_str())?;
        Ok(Answer::Done)
    }

    /// Judges a new, empty name. What exists already is the kernel's to refuse.
    pub(super) fn creation(
        &mut self,
        case: &mut Case<'_>,
        spot: &Spot<'_>,
        made: Kind,
    ) -> Result<(Judged, Verdict), Errno> {
        let judged = self.judged(case, case.path_at(spot)?);
        if judged.site == Site::Free || spot.is_dots() {
            return Ok((judged, Verdict::Allow));
        }
        if kind_at(spot.parent.as_fd(), &spot.name).is_some() {
            return Err(Errno::EXIST);
        }
        let verdict = self.verdict(case, Act::Create(made), &judged, Facts::default())?;
        self.settle(case, &judged, verdict).map(|()| (judged, verdict))
    }

    /// Does what a verdict asks for before a name appears, and refuses those
    /// that only an open or a rename can carry out.
    fn settle(
        &mut self,
        case: &mut Case<'_>,
        judged: &Judged,
        verdict: Verdict,
    ) -> Result<(), Errno> {
        let rule = match verdict {
            Verdict::BirthOfBare => {
                let Site::CompletesBare { directory } = &judged.site else { return Ok(()) };
                self.examine_bare(case, directory)?;
                self.ledger.birth(directory.clone());
                return Ok(());
            }
            Verdict::WritePointer => Rule::GitPointer,
            Verdict::WriteCommondir => Rule::GitWorktree,
            Verdict::WithoutExecute => Rule::GitHooks,
            Verdict::JudgeConfig => Rule::GitConfig,
            Verdict::Allow | Verdict::Birth | Verdict::Note | Verdict::Refuse { .. } => {
                return Ok(());
            }
        };
        let class = Class::BornRepository;
        Err(self.deny(case, &judged.path, rule, class, Failure::Denied, None))
    }

    pub(super) fn unlink(
        &mut self,
        case: &mut Case<'_>,
        path: PathArgument,
        flags: u32,
    ) -> Result<Answer, Errno> {
        let spot = case.spot(&mut case.walk(), path)?;
        let judged = self.judged(case, case.path_at(&spot)?);
        let flags = AtFlags::from_bits_retain(flags);
        let is_judged = judged.site != Site::Free && !spot.is_dots();
        // What could not work anyway is the kernel's to refuse: git tries.
        let could_work = || match kind_at(spot.parent.as_fd(), &spot.name) {
            None => false,
            Some(Kind::Directory) => {
                flags.contains(AtFlags::REMOVEDIR) && is_empty(&judged.path).unwrap_or(true)
            }
            Some(_) => !flags.contains(AtFlags::REMOVEDIR),
        };
        if is_judged && could_work() {
            self.verdict(case, Act::Remove, &judged, Facts::default())?;
        }
        unlinkat(spot.parent.as_fd(), spot.with_slash().as_c_str(), flags)?;
        if is_judged {
            self.ledger.removed(&judged.path);
        }
        Ok(Answer::Done)
    }

    pub(super) fn hard_link(
        &mut self,
        case: &mut Case<'_>,
        from: PathArgument,
        to: PathArgument,
        flags: u32,
    ) -> Result<Answer, Errno> {
        let source = Source::find(case, from, flags)?;
        let spot = case.spot(&mut case.walk(), to)?;
        let path = match &source {
            Source::Name(spot) => case.path_at(spot)?,
            Source::Object(object) => case.caller.footing.path_of(object.as_fd())?,
        };
        let (made, target) = (source.kind(), self.judged(case, case.path_at(&spot)?));
        let source_judged = self.judged(case, path);
        if let Some(made) = made {
            if kind_at(spot.parent.as_fd(), &spot.name).is_some() {
                return Err(Errno::EXIST);
            }
            if source_judged.site != Site::Free {
                self.verdict(case, Act::Share, &source_judged, Facts::default())?;
            }
            if target.site != Site::Free {
                let verdict = self.verdict(case, Act::Place(made), &target, Facts::default())?;
                self.settle(case, &target, verdict)?;
            }
        }
        let (parent, name) = (spot.parent.as_fd(), spot.with_slash());
        match &source {
            Source::Name(from) => linkat(
                from.parent.as_fd(),
                from.with_slash().as_c_str(),
                parent,
                name.as_c_str(),
                AtFlags::empty(),
            )?,
            Source::Object(object) => linkat(
                case.caller.footing.own_fds(),
                number(object.as_fd()).as_c_str(),
                parent,
                name.as_c_str(),
                AtFlags::SYMLINK_FOLLOW,
            )?,
        }
        Ok(Answer::Done)
    }

    pub(super) fn rename(
        &mut self,
        case: &mut Case<'_>,
        from: PathArgument,
        to: PathArgument,
        flags: u32,
    ) -> Result<Answer, Errno> {
        let from = case.spot(&mut case.walk(), from)?;
        let to = case.spot(&mut case.walk(), to)?;
        self.rename_at(case, &from, &to, flags)
    }

    /// As [`Self::rename`], where both names have been found.
    pub(super) fn rename_at(
        &mut self,
        case: &mut Case<'_>,
        from: &Spot<'_>,
        to: &Spot<'_>,
        flags: u32,
    ) -> Result<Answer, Errno> {
        let flags = RenameFlags::from_bits_retain(flags);
        let perform = || {
            let (old, new) = (from.with_slash(), to.with_slash());
            let (from, to) = (from.parent.as_fd(), to.parent.as_fd());
            renameat_with(from, old.as_c_str(), to, new.as_c_str(), flags)
        };
        let moved = kind_at(from.parent.as_fd(), &from.name);
        let replaced = kind_at(to.parent.as_fd(), &to.name);
        let Some(moved) = moved else { return perform().map(|()| Answer::Done) };
        if from.is_dots() || to.is_dots() {
            return perform().map(|()| Answer::Done);
        }
        if flags.contains(RenameFlags::NOREPLACE) && replaced.is_some() {
            return Err(Errno::EXIST);
        }
        let source = self.judged(case, case.path_at(from)?);
        let target = self.judged(case, case.path_at(to)?);
        let is_config = self.judge_move(case, &source, &target, moved)?;
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        if is_config && flags.difference(RenameFlags::NOREPLACE).is_empty() {
            self.install_config(case, from, to, &target)?;
            return Ok(Answer::Done);
        }
        let is_config = match replaced {
            Some(replaced) if is_exchange => {
                is_config | self.judge_move(case, &target, &source, replaced)?
            }
            _ => is_config,
        };
        if is_config {
            let (rule, class) = (Rule::GitConfig, Class::Repository);
            return Err(self.deny(case, &target.path, rule, class, Failure::Denied, None));
        }
        perform()?;
        if moved == Kind::Directory || replaced == Some(Kind::Directory) {
            self.moved(&source.path, &target.path, is_exchange);
        }
        Ok(Answer::Done)
    }

    /// Judges both ends of one move. Gives whether what is moved becomes a
    /// configuration, which is then to be judged by what it holds.
    fn judge_move(
        &mut self,
        case: &mut Case<'_>,
        source: &Judged,
        target: &Judged,
        moved: Kind,
    ) -> Result<bool, Errno> {
        if source.path == target.path {
            return Ok(false);
        }
        let is_directory = moved == Kind::Directory;
        if is_directory && self.would_unhide(&source.path, &target.path) {
            let (rule, class) = (Rule::Hidden, Class::User);
            let detail = Some("something hidden is in it".to_owned());
            return Err(self.deny(case, &source.path, rule, class, Failure::Busy, detail));
        }
        if source.site != Site::Free {
            let holds_protected = is_directory && holds(&source.path, &source.site);
            let facts = Facts { holds_protected, ..Facts::default() };
            self.verdict(case, Act::MoveOut(moved), source, facts)?;
        }
        if target.site == Site::Free {
            return Ok(false);
        }
        let facts = Facts {
            is_from_inside: is_same_git_directory(&source.site, &target.site),
            holds_protected: is_directory && holds(&source.path, &target.site),
        };
        match self.verdict(case, Act::Place(moved), target, facts)? {
            Verdict::JudgeConfig => Ok(true),
            verdict => self.settle(case, target, verdict).map(|()| false),
        }
    }
}

fn is_same_git_directory(source: &Site, target: &Site) -> bool {
    match (source, target) {
        (Site::Git { git_directory: a, .. }, Site::Git { git_directory: b, .. }) => a == b,
        _ => false,
    }
}

/// Whether one of the names that `site` protects is below `directory` now.
fn holds(directory: &[u8], site: &Site) -> bool {
    let Site::Above { rests, .. } = site else { return false };
    rests.iter().any(|rest| match rest {
        Some(rest) => reaches(directory, rest),
        None => !is_empty(directory).unwrap_or(false),
    })
}

/// Whether `rest` is below `directory`, or a link on the way may lead to it once
/// the directory is somewhere else.
fn reaches(directory: &[u8], rest: &[u8]) -> bool {
    let mut path = directory.to_vec();
    for name in rest.split(|byte| *byte == b'/') {
        path = join(&path, name);
        match statat(CWD, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if kind(found.st_mode) == Kind::Link => return true,
            Ok(_) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return false,
            Err(_) => return true,
        }
    }
    true
}

/// `None` if it cannot be read.
fn is_empty(directory: &[u8]) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, directory, flags, Mode::empty()).ok()?;
    let mut names = Dir::read_from(&file).ok()?.flatten();
    Some(names.all(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")))
}

/// What gets a second name.
enum Source<'a> {
    Name(Spot<'a>),
    /// A descriptor, or what a magic link led to.
    Object(OwnedFd),
}

impl<'a> Source<'a> {
    fn find(case: &Case<'a>, argument: PathArgument, flags: u32) -> Result<Self, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if flags.contains(AtFlags::EMPTY_PATH) && case.caller.path(argument.address)?.is_empty() {
            let object = case.caller.descriptor(argument.directory)?;
            return if case.caller.is_waiting() {
                Ok(Self::Object(object))
            } else {
                Err(Errno::SRCH)
            };
        }
        let mut walk = case.walk();
        let mut spot = case.spot(&mut walk, argument)?;
        if flags.contains(AtFlags::SYMLINK_FOLLOW) {
            while kind_at(spot.parent.as_fd(), &spot.name) == Some(Kind::Link) {
                match walk.follow(spot)? {
                    Followed::Spot(next) => spot = next,
                    Followed::Object(object) => return Ok(Self::Object(object)),
                }
            }
        }
        Ok(Self::Name(spot))
    }

    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Name(spot) => kind_at(spot.parent.as_fd(), &spot.name),
            Self::Object(object) => kind_of(object.as_fd()),
        }
    }
}

fn kind_of(file: BorrowedFd<'_>) -> Option<Kind> {
    rustix::fs::fstat(file).ok().map(|found| kind(found.st_mode))
}
