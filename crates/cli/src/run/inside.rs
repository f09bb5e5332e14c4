//! The half of a run that is PID 1.

use super::masker::{self, Mask};
use super::supervisor;
use crate::policy::ignore::IgnoreSet;
use atoll_guest::init::{self, TerminalSpec};
use atoll_guest::message::{Failure, FailureKind};
use atoll_guest::workload::{Slave, Workload};
use atoll_jail::apply;
use atoll_jail::confine::{ConfineError, Confinement, Filters, Listening, Walls};
use atoll_jail::enter::{Bond, Newborn};
use atoll_jail::judge::{self, Condition, Config, Hidden, Pattern, Root};
use atoll_jail::plan::Step;
use atoll_jail::seccomp::Trap;
use atoll_jail::spec::{Kind, User};
use atoll_jail::tell;
use atoll_sys::process::{self, SignalSet};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All that PID 1 needs, planned before it exists.
pub(super) struct Inside {
    pub(super) user: User,
    pub(super) steps: Vec<Step>,
    pub(super) confinement: Confinement,
    pub(super) filters: Filters,
    pub(super) workload: Workload,
    pub(super) terminal: Option<TerminalSpec>,
    /// Hidden files of a live workspace.
    pub(super) masks: Vec<Mask>,
    pub(super) supervision: Supervision,
}

/// What PID 1 does about the workload's calls, beside telling what is refused.
#[derive(Debug)]
pub(super) enum Supervision {
    /// Nothing.
    Tell,
    /// Judges calls that change names where they change the host's at once; beside
    /// it, moves directories as below.
    Judge(Rules, Option<PathBuf>),
    /// Moves directories of the review workspace at this place, whose overlay
    /// cannot.
    Move(PathBuf),
}

/// Whether there is anything beyond loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaches {
    Nothing,
    /// The gateway, which tells what it refuses itself.
    Gateway,
}

impl Supervision {
    /// The filter that hands the calls over.
    pub(super) fn filters(&self, confinement: &Confinement, reaches: Reaches) -> Filters {
        let mut traps = self.traps();
        // Where there is nothing but loopback, what leaves it is worth a word.
        traps.extend((reaches == Reaches::Nothing).then_some(tell::CONNECT));
        let listening = match self {
            Self::Judge(..) => Listening::Judges,
            // An older kernel moves no directories of a review.
            Self::Move(_) => Listening::Performs,
            Self::Tell => Listening::Tells,
        };
        Filters::build(confinement, &traps, listening)
    }

    /// The workspace, if it is the host's own directory.
    fn live(&self) -> Option<&Path> {
        match self {
            Self::Judge(Rules { project: Judged::Live(root), .. }, _) => Some(&root.path),
            Self::Judge(..) | Self::Move(_) | Self::Tell => None,
        }
    }

    /// The calls to be handed over, as the filter wants them.
    fn traps(&self) -> Vec<Trap> {
        let (traps, is_strict): (&[judge::Trap], _) = match self {
            Self::Tell => (&[], false),
            Self::Judge(rules, _) => (judge::TRAPS, rules.is_strict),
            Self::Move(_) => (judge::RENAMES, false),
        };
        traps
            .iter()
            .map(|trap| if is_strict { trap.strict() } else { *trap })
            .map(|trap| Trap {
                number: u32::try_from(trap.number).unwrap_or(u32::MAX),
                when: match trap.condition {
                    Condition::Always => None,
                    Condition::AnyBit { argument, mask } => Some((u32::from(argument), mask)),
                },
            })
            .collect()
    }
}

/// What the judge goes by.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) project: Judged,
    /// Directories that are granted for writing.
    pub(super) grants: Vec<PathBuf>,
    pub(super) tool_names: Vec<Pattern>,
    pub(super) allow: Vec<Pattern>,
    pub(super) deny: Vec<Pattern>,
    pub(super) told_names: Vec<Pattern>,
    /// What a live project hides whatever the host puts there, if anything is.
    pub(super) hidden: Option<Arc<IgnoreSet>>,
    /// The judge hides it, not only the masks.
    pub(super) is_strict: bool,
    /// User namespaces can be made inside.
    pub(super) has_nested_users: bool,
}

/// How the judge takes the project.
#[derive(Debug)]
pub(super) enum Judged {
    /// A live one is judged.
    Live(Root),
    /// Names of one under review are free.
    Copy(PathBuf),
    /// It is not shown.
    Absent,
}

/// Becomes PID 1.
pub(super) fn become_init(newborn: Newborn, inside: Inside, handed: Vec<OwnedFd>) -> ! {
    // Nothing is lost: what arrives meanwhile waits for the signal descriptor.
    process::set_signal_mask(SignalSet::ALL).ok();
    process::scrub_arguments(c"atoll-init");
    // The modes in the plan are meant as they are; the workload gets its own.
    rustix::process::umask(rustix::fs::Mode::empty());
    let admitted = match newborn.admitted(inside.user, Bond::Launcher) {
        Ok(admitted) => admitted,
        // There is nobody to tell.
        Err(_) => process::exit_now(1),
    };
    let applied = apply::apply(&inside.steps, &handed, &mut || admitted.next_tree());
    drop(handed);
    let control = admitted.control;
    if let Err(error) = applied {
        let errno = error.source.raw_os_error().unwrap_or(0);
        // What went wrong with a whole file system says more than the call does.
        let step = match inside.steps.get(error.index) {
            Some(Step::MountProc { .. }) => "mount_proc",
            Some(Step::MountOverlay { .. }) => "overlay",
            _ => error.call,
        };
        init::fail(&control, failure(step, &error, errno));
    }
    let walls = match Walls::prepare(&inside.confinement, inside.filters) {
        Ok(walls) => walls,
        Err(error) => init::fail(&control, not_confined(&error)),
    };
    let live = inside.supervision.live();
    if let Some(Err(failure)) = live.map(|root| masker::start(root, &inside.masks)) {
        init::fail(&control, failure);
    }
    let Inside { workload, masks, supervision, .. } = inside;
    let workload = &workload;
    let start = |slave: Option<&Slave>| match supervision {
        Supervision::Judge(rules, moved) => {
            let config = rules.config(workload.umask, masks);
            supervisor::judged(workload, slave, walls, config, moved.as_deref())
        }
        Supervision::Move(root) => supervisor::moved(workload, slave, walls, &root),
        Supervision::Tell => supervisor::told(workload, slave, walls),
    };
    init::run(&control, inside.terminal.as_ref(), start)
}

impl Rules {
    fn config(self, umask: u32, masks: Vec<Mask>) -> Config {
        let (root, free) = match self.project {
            Judged::Live(root) => (Some(root), None),
            Judged::Copy(path) => (None, Some(path)),
            Judged::Absent => (None, None),
        };
        let hidden = self.hidden.zip(root.as_ref()).map(|(set, root)| {
            let root = root.path.clone();
            Box::new(move |path: &Path, is_dir: bool| {
                path != root
                    && path
                        .strip_prefix(&root)
                        .is_ok_and(|path| set.is_hidden(path, is_dir).is_some())
            }) as Box<dyn Hidden>
        });
        Config {
            root,
            free,
            grants: self.grants,
            tool_names: self.tool_names,
            allow: self.allow,
            deny: self.deny,
            told_names: self.told_names,
            umask,
            is_strict: self.is_strict,
            has_nested_users: self.has_nested_users,
            masked: masks.into_iter().map(|(path, kind)| (path, kind == Kind::Directory)).collect(),
            hidden,
        }
    }
}

/// A wall that could not be raised.
pub(super) fn not_confined(error: &ConfineError) -> Failure {
    let (step, errno) = error.step();
    failure(step, error, errno)
}

/// An error with its causes on one line.
pub(super) fn failure(step: &str, error: &dyn Error, errno: i32) -> Failure {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    Failure { kind: FailureKind::Jail, step: step.to_owned(), text, errno }
}
