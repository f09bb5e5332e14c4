//! The decisions, as a function of facts: no call to the system is made here.

use super::denial::{Class, Rule};
use super::git::layout::Part;
use super::ledger::Why;

/// What is at a name, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    Other,
}

/// What a call does to one name. A rename is two of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Makes something new and empty under a name that is free.
    Create(Kind),
    /// Changes what an existing file holds.
    Write,
    Remove,
    /// Takes it away to another name.
    MoveOut(Kind),
    /// Puts under this name what existed before.
    Place(Kind),
    /// Gives it a second name.
    Share,
    /// Changes only who may execute it, and whether anybody may afterwards.
    Execute {
        by_anybody: bool,
    },
    /// Any other change of its mode.
    Mode {
        executable: bool,
    },
    /// Owner or extended attributes.
    Attributes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lineage {
    Existing,
    Born,
}

/// What a name is to the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Site {
    Free,
    /// A directory's `.git`, itself.
    DotGit(Lineage),
    /// Something that is `.git` to other eyes, or lies in such a thing.
    Lookalike,
    /// In a git directory.
    Git {
        git_directory: Vec<u8>,
        part: Part,
        lineage: Lineage,
    },
    /// With this name its directory is a bare repository.
    CompletesBare {
        directory: Vec<u8>,
    },
    /// A path that a repository's configuration names, or a link with a protected name.
    Linked(Why),
    /// A file that tools obey; `is_place` where they do. `top` is the topmost
    /// protected name of it.
    Tool {
        is_place: bool,
        top: Vec<u8>,
    },
    /// A name that may be written, and is told at the end.
    Told,
    /// Above protected names: what lies below, `None` if that has wildcards.
    Above {
        rule: Rule,
        rests: Vec<Option<Vec<u8>>>,
    },
    UserDenied,
    /// In strict mode: what may not be read or changed.
    Hidden,
    /// The supervisor's own directory of procfs.
    Supervisor,
}

/// What the call's surroundings say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// A moved directory comes from the same git directory.
    pub(super) is_from_inside: bool,
    /// A moved directory has one of the protected names below it.
    pub(super) holds_protected: bool,
}

/// How a call is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// `EACCES`.
    Denied,
    /// `EBUSY`: a directory that cannot be moved; tools give up better on it.
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    /// Allow, and tell at the end.
    Note,
    Refuse {
        rule: Rule,
        class: Class,
        failure: Failure,
    },
    /// Allow, and remember the new directory as a repository's (or a work tree's) own.
    Birth,
    /// Allow if what is there already is harmless, and remember the directory.
    BirthOfBare,
    /// Create it without execute permission.
    WithoutExecute,
    /// Read what is put here, and write it anew if all of it may be set.
    JudgeConfig,
    /// Let the caller write elsewhere and take it over if it names a place where
    /// config and hooks are judged.
    WritePointer,
    /// The content is known: write it, and let the caller write elsewhere.
    WriteCommondir,
}

pub(super) fn decide(act: Act, site: &Site, facts: Facts) -> Verdict {
    match site {
        Site::Free => Verdict::Allow,
        Site::DotGit(lineage) => dot_git(act, *lineage),
        Site::Lookalike => refuse(act, Rule::GitLookalike, Class::Repository),
        Site::Git { part, lineage, .. } => git(act, *part, *lineage, facts),
        Site::CompletesBare { .. } => match act {
            Act::Create(Kind::File | Kind::Directory)
            | Act::Place(Kind::File | Kind::Directory) => Verdict::BirthOfBare,
            Act::Create(_) | Act::Place(_) => {
                refuse(act, Rule::BareRepository, Class::BornRepository)
            }
            _ => Verdict::Allow,
        },
        Site::Linked(why) => refuse(act, why.rule, class_of_name(why.rule)),
        Site::Tool { is_place: true, .. } => refuse(act, Rule::ProjectTool, Class::ProjectTool),
        Site::Tool { is_place: false, .. } => match act {
            Act::Create(_) | Act::Write | Act::Place(_) => Verdict::Note,
            _ => Verdict::Allow,
        },
        Site::Told => match act {
            Act::Create(_)
            | Act::Write
            | Act::Remove
            | Act::MoveOut(_)
            | Act::Place(_)
            | Act::Share => Verdict::Note,
            Act::Execute { .. } | Act::Mode { .. } | Act::Attributes => Verdict::Allow,
        },
        Site::Above { rule, .. } => above(act, *rule, facts),
        Site::UserDenied => refuse(act, Rule::UserDeny, Class::User),
        Site::Hidden => refuse(act, Rule::Hidden, Class::User),
        Site::Supervisor => refuse(act, Rule::Supervisor, Class::Supervisor),
    }
}

fn refuse(act: Act, rule: Rule, class: Class) -> Verdict {
    let failure = match act {
        Act::MoveOut(Kind::Directory) | Act::Place(Kind::Directory) => Failure::Busy,
        _ => Failure::Denied,
    };
    Verdict::Refuse { rule, class, failure }
}

/// A name on the way to a protected one: it must stay a directory of its own.
fn above(act: Act, rule: Rule, facts: Facts) -> Verdict {
    let class = class_of_name(rule);
    match act {
        Act::Create(Kind::Link) | Act::Place(Kind::Link) => refuse(act, rule, class),
        Act::MoveOut(Kind::Directory) | Act::Place(Kind::Directory) if facts.holds_protected => {
            refuse(act, rule, class)
        }
        _ => Verdict::Allow,
    }
}

/// Of the rules that names and links to them come under.
fn class_of_name(rule: Rule) -> Class {
    match rule {
        Rule::ProjectTool => Class::ProjectTool,
        Rule::UserDeny => Class::User,
        _ => Class::Repository,
    }
}

fn dot_git(act: Act, lineage: Lineage) -> Verdict {
    let is_born = lineage == Lineage::Born;
    let refused = refuse(act, Rule::GitPointer, class(lineage));
    match act {
        Act::Create(Kind::Directory) => Verdict::Birth,
        Act::Create(Kind::File) => Verdict::WritePointer,
        Act::Write if is_born => Verdict::WritePointer,
        Act::Remove | Act::Execute { .. } | Act::Mode { .. } | Act::Attributes if is_born => {
            Verdict::Allow
        }
        Act::MoveOut(Kind::Directory) | Act::Place(Kind::Directory) => {
            refuse(act, Rule::GitMove, class(lineage))
        }
        _ => refused,
    }
}

fn class(lineage: Lineage) -> Class {
    match lineage {
        Lineage::Existing => Class::Repository,
        Lineage::Born => Class::BornRepository,
    }
}

fn git(act: Act, part: Part, lineage: Lineage, facts: Facts) -> Verdict {
    let is_born = lineage == Lineage::Born;
    let refused = |rule| refuse(act, rule, class(lineage));
    let if_born = |rule| if is_born { Verdict::Allow } else { refused(rule) };
    // No part of a git directory may lead elsewhere or have been something else.
    let is_foreign = matches!(
        act,
        Act::Create(Kind::Link | Kind::Other) | Act::Place(_) | Act::MoveOut(_) | Act::Share
    );
    match part {
        Part::Probe if act == Act::Create(Kind::Link) => Verdict::Allow,
        // Git on the host follows links when it writes messages, logs and heads.
        Part::Free | Part::Probe => match act {
            Act::Create(Kind::Link) | Act::Place(Kind::Link) => refused(Rule::GitLink),
            Act::Place(Kind::Directory) if !facts.is_from_inside => refused(Rule::GitMove),
            _ => Verdict::Allow,
        },
        Part::Holder => match act {
            _ if is_foreign => refused(Rule::GitMove),
            _ => Verdict::Allow,
        },
        Part::Config => match act {
            Act::Place(Kind::File) => Verdict::JudgeConfig,
            // Git tries out whether the file system keeps the bit.
            Act::Execute { .. } => Verdict::Allow,
            Act::Remove | Act::Mode { .. } | Act::Attributes => if_born(Rule::GitConfig),
            _ => refused(Rule::GitConfig),
        },
        Part::HooksDirectory => match act {
            Act::Create(Kind::Directory)
            | Act::Remove
            | Act::Execute { .. }
            | Act::Mode { .. }
            | Act::Attributes => if_born(Rule::GitHooks),
            _ => refused(Rule::GitHooks),
        },
        Part::Hook { is_sample } => hook(act, is_sample, lineage),
        Part::Info => match act {
            _ if is_foreign => refused(Rule::GitInfo),
            _ => if_born(Rule::GitInfo),
        },
        Part::Alternates => match act {
            Act::Create(Kind::Link | Kind::Other) => refused(Rule::GitInfo),
            _ => if_born(Rule::GitInfo),
        },
        Part::Pointer => match act {
            Act::Remove => if_born(Rule::GitPointer),
            _ => refused(Rule::GitPointer),
        },
        Part::WorktreeEntry => match act {
            Act::Create(Kind::Directory) => Verdict::Birth,
            _ if is_foreign => refused(Rule::GitWorktree),
            _ => Verdict::Allow,
        },
        Part::WorktreeGitdir => match act {
            _ if is_foreign => refused(Rule::GitWorktree),
            _ => if_born(Rule::GitWorktree),
        },
        Part::WorktreeCommondir => match act {
            Act::Create(Kind::File) if is_born => Verdict::WriteCommondir,
            Act::Remove => if_born(Rule::GitWorktree),
            _ => refused(Rule::GitWorktree),
        },
        Part::Module => match act {
            Act::Create(Kind::Directory) => Verdict::Birth,
            _ if is_foreign => refused(Rule::GitModules),
            _ => Verdict::Allow,
        },
    }
}

fn hook(act: Act, is_sample: bool, lineage: Lineage) -> Verdict {
    let refused = refuse(act, Rule::GitHooks, class(lineage));
    if lineage == Lineage::Existing {
        return refused;
    }
    match act {
        Act::Remove => Verdict::Allow,
        Act::Create(Kind::File) if is_sample => Verdict::WithoutExecute,
        Act::Write | Act::Attributes if is_sample => Verdict::Allow,
        Act::Execute { by_anybody: false } | Act::Mode { executable: false } if is_sample => {
            Verdict::Allow
        }
        _ => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Act = Act::Create(Kind::File);
    const EXECUTE: Act = Act::Execute { by_anybody: true };

    fn site(part: Part, lineage: Lineage) -> Site {
        Site::Git { git_directory: b"/w/.git".to_vec(), part, lineage }
    }

    fn in_old(part: Part, act: Act) -> Verdict {
        decide(act, &site(part, Lineage::Existing), Facts::default())
    }

    fn in_born(part: Part, act: Act) -> Verdict {
        decide(act, &site(part, Lineage::Born), Facts::default())
    }

    #[track_caller]
    fn is_refused(verdict: Verdict, expected: Rule, how: Failure) {
        match verdict {
            Verdict::Refuse { rule, failure, .. } => assert_eq!((rule, failure), (expected, how)),
            other => panic!("{other:?}"),
        }
    }

    fn every_act() -> Vec<Act> {
        let kinds = [Kind::File, Kind::Directory, Kind::Link, Kind::Other];
        let mut acts = vec![Act::Write, Act::Remove, Act::Share, Act::Attributes, EXECUTE];
        acts.push(Act::Execute { by_anybody: false });
        acts.extend([true, false].map(|executable| Act::Mode { executable }));
        acts.extend(kinds.map(Act::Create));
        acts.extend(kinds.map(Act::MoveOut));
        acts.extend(kinds.map(Act::Place));
        acts
    }

    #[test]
    fn hooks_and_info_of_old_repositories_refuse_everything() {
        for act in every_act() {
            for part in [
                Part::HooksDirectory,
                Part::Hook { is_sample: true },
                Part::Info,
                Part::Alternates,
                Part::Pointer,
                Part::WorktreeCommondir,
            ] {
                assert!(matches!(in_old(part, act), Verdict::Refuse { .. }), "{part:?} {act:?}");
            }
        }
    }

    #[test]
    fn free_parts_refuse_only_links_and_directories_from_elsewhere() {
        for act in every_act() {
            let verdict = in_old(Part::Free, act);
            if act == Act::Place(Kind::Directory) {
                is_refused(verdict, Rule::GitMove, Failure::Busy);
            } else if matches!(act, Act::Create(Kind::Link) | Act::Place(Kind::Link)) {
                is_refused(verdict, Rule::GitLink, Failure::Denied);
            } else {
                assert_eq!(verdict, Verdict::Allow, "{act:?}");
            }
        }
        assert_eq!(in_old(Part::Probe, Act::Create(Kind::Link)), Verdict::Allow);
        is_refused(in_old(Part::Probe, Act::Place(Kind::Link)), Rule::GitLink, Failure::Denied);
        let inside = Facts { is_from_inside: true, ..Facts::default() };
        let site = site(Part::Free, Lineage::Existing);
        assert_eq!(decide(Act::Place(Kind::Directory), &site, inside), Verdict::Allow);
    }

    #[test]
    fn config_comes_only_by_a_judged_rename() {
        for act in [FILE, Act::Write, Act::Share, Act::Place(Kind::Link), Act::MoveOut(Kind::File)]
        {
            is_refused(in_old(Part::Config, act), Rule::GitConfig, Failure::Denied);
            is_refused(in_born(Part::Config, act), Rule::GitConfig, Failure::Denied);
        }
        for judged in [in_old, in_born] {
            assert_eq!(judged(Part::Config, Act::Place(Kind::File)), Verdict::JudgeConfig);
            assert_eq!(judged(Part::Config, EXECUTE), Verdict::Allow);
        }
        is_refused(in_old(Part::Config, Act::Remove), Rule::GitConfig, Failure::Denied);
        assert_eq!(in_born(Part::Config, Act::Remove), Verdict::Allow);
    }

    #[test]
    fn born_hooks_are_samples_that_nobody_can_execute() {
        let sample = Part::Hook { is_sample: true };
        assert_eq!(in_born(sample, FILE), Verdict::WithoutExecute);
        assert_eq!(in_born(sample, Act::Write), Verdict::Allow);
        assert_eq!(in_born(sample, Act::Mode { executable: false }), Verdict::Allow);
        for act in [EXECUTE, Act::Mode { executable: true }, Act::Place(Kind::File), Act::Share] {
            is_refused(in_born(sample, act), Rule::GitHooks, Failure::Denied);
        }
        let hook = Part::Hook { is_sample: false };
        for act in every_act().into_iter().filter(|act| *act != Act::Remove) {
            assert!(matches!(in_born(hook, act), Verdict::Refuse { .. }), "{act:?}");
        }
    }

    #[test]
    fn dot_git_is_born_once_and_never_moves() {
        let check = |act, lineage| decide(act, &Site::DotGit(lineage), Facts::default());
        assert_eq!(check(Act::Create(Kind::Directory), Lineage::Existing), Verdict::Birth);
        assert_eq!(check(FILE, Lineage::Existing), Verdict::WritePointer);
        for lineage in [Lineage::Existing, Lineage::Born] {
            for act in [Act::MoveOut(Kind::Directory), Act::Place(Kind::Directory)] {
                is_refused(check(act, lineage), Rule::GitMove, Failure::Busy);
            }
            for act in [Act::Create(Kind::Link), Act::Place(Kind::File), Act::MoveOut(Kind::File)] {
                is_refused(check(act, lineage), Rule::GitPointer, Failure::Denied);
            }
        }
        is_refused(check(Act::Write, Lineage::Existing), Rule::GitPointer, Failure::Denied);
        is_refused(check(Act::Remove, Lineage::Existing), Rule::GitPointer, Failure::Denied);
        assert_eq!(check(Act::Remove, Lineage::Born), Verdict::Allow);
    }

    #[test]
    fn tools_files_are_refused_where_tools_look() {
        let site = |is_place| Site::Tool { is_place, top: b"/w/.vscode".to_vec() };
        for act in every_act() {
            let verdict = decide(act, &site(true), Facts::default());
            assert!(matches!(verdict, Verdict::Refuse { .. }), "{act:?}");
            let verdict = decide(act, &site(false), Facts::default());
            assert!(matches!(verdict, Verdict::Allow | Verdict::Note), "{act:?}");
        }
        assert_eq!(decide(FILE, &site(false), Facts::default()), Verdict::Note);
    }

    #[test]
    fn a_directory_above_protected_names_moves_only_without_them() {
        let site = Site::Above { rule: Rule::ProjectTool, rests: Vec::new() };
        let holds = Facts { holds_protected: true, ..Facts::default() };
        for act in [Act::MoveOut(Kind::Directory), Act::Place(Kind::Directory)] {
            assert_eq!(decide(act, &site, Facts::default()), Verdict::Allow);
            is_refused(decide(act, &site, holds), Rule::ProjectTool, Failure::Busy);
        }
        is_refused(
            decide(Act::Create(Kind::Link), &site, Facts::default()),
            Rule::ProjectTool,
            Failure::Denied,
        );
        assert_eq!(decide(Act::Create(Kind::Directory), &site, Facts::default()), Verdict::Allow);
    }

    #[test]
    fn a_bare_repository_is_born_when_it_is_complete() {
        let site = Site::CompletesBare { directory: b"/w/x".to_vec() };
        let check = |act| decide(act, &site, Facts::default());
        assert_eq!(check(Act::Create(Kind::Directory)), Verdict::BirthOfBare);
        assert_eq!(check(Act::Place(Kind::File)), Verdict::BirthOfBare);
        is_refused(check(Act::Create(Kind::Link)), Rule::BareRepository, Failure::Denied);
        assert_eq!(check(Act::Write), Verdict::Allow);
    }
}
