//! Carries the changes of a session over to the project.
//!
//! First the session's upper is made to stand on its own (`materialise.rs`), for
//! its moved directories take their content from the project. Then in three
//! steps, so that a failure costs as little as possible:
//!
//! 1. *Stage*: every new file, link and directory is made complete (content,
//!    holes, attributes, owner, mode, times) in one directory of its own at the
//!    top of the project, named after the session. A full disk or an unreadable
//!    file ends it here, with the project untouched.
//! 2. *Commit*: each staged object is renamed into place. A path that is new
//!    must still be free (`RENAME_NOREPLACE`); one that exists is exchanged
//!    (`RENAME_EXCHANGE`), and what came out must be the file that was compared,
//!    else the two are exchanged back and the path is a conflict. So no moment
//!    shows half a file, and a write of the host in the last moment is not lost.
//! 3. *Finish*: deletions, the same way and last, whole directories in one
//!    move; then modes and times of directories, innermost first.
//!
//! Names of one file stay so: among what is new; with names that the project has
//! as they should be; and for files that come with a directory that root's overlay
//! moved, with every name that the host's file has, since then the file itself is
//! linked to its new place before its old name goes. A session of an ordinary user
//! has copies of such files, which do not tell whose they are, so names that were
//! moved apart are files of their own.
//!
//! When the program is killed, the staging directory is all that stays behind,
//! and the next apply, or [`sweep`], removes it. An apply can be repeated: what
//! is done already is no longer a change.

mod commit;
mod copy;
mod finish;
mod materialise;
mod select;
mod stage;

use self::materialise::Origins;
use crate::beneath;
use crate::changes::{self, Changes, ChangesError, Conflict};
use crate::remove;
use crate::view::View;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What to apply, and how.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// Names the staging directory and the host's versions that are kept.
    pub session: &'a str,
    /// Apply only what is at or beneath these paths; everything when empty.
    pub paths: &'a [PathBuf],
    /// Where a conflict is settled for the session: at or beneath these paths
    /// the host's version is renamed to `NAME.orig-SESSION` first.
    pub force: &'a [PathBuf],
    /// Where the [`Baseline`](crate::view::Baseline) is kept: opened for
    /// appending. Without it a second apply may report conflicts needlessly.
    pub baseline: Option<&'a File>,
}

/// What [`apply`] did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Paths that now are as the session left them.
    pub applied: Vec<PathBuf>,
    /// Paths that were left alone.
    pub conflicts: Vec<(PathBuf, Conflict)>,
    /// Where the host's version of a forced path is now.
    pub kept: Vec<(PathBuf, PathBuf)>,
    /// Changes that were not asked for.
    pub left_out: usize,
}

/// Why an apply stopped.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("could not make the staging directory {}", path.display())]
    Stage { path: PathBuf, source: io::Error },
    #[error("could not write down the state of the project's directories")]
    Baseline { source: io::Error },
    #[error("could not prepare {}; the project is unchanged", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error("could not put {} in place; {applied} changes were applied before it", path.display())]
    Commit { path: PathBuf, applied: usize, source: io::Error },
    #[error("could not set the mode or times of {}; everything else was applied", path.display())]
    Finish { path: PathBuf, source: io::Error },
    #[error("could not read the session again after preparing it")]
    Changes {
        #[from]
        source: ChangesError,
    },
    #[error("no change of the session is at {}", path.display())]
    NoSuchChange { path: PathBuf },
}

/// Applies `changes`, which were read from `view`, to the project.
///
/// # Errors
///
/// At the first failure that is not a conflict. Changes made before it stay,
/// nothing else does, and the same apply can be repeated.
pub fn apply(view: &View, changes: &Changes, request: &Request<'_>) -> Result<Outcome, ApplyError> {
    match materialise::materialise(view, changes, request.session)? {
        Some(origins) => apply_own(view, &changes::read(view)?, request, origins),
        None => apply_own(view, changes, request, Origins::new()),
    }
}

/// Applies changes whose content is all in the upper.
fn apply_own(
    view: &View,
    changes: &Changes,
    request: &Request<'_>,
    origins: Origins,
) -> Result<Outcome, ApplyError> {
    let selected = select::select(changes, request)?;
    let mut run = commit::Run::new(view, changes, request);
    run.origins = origins;
    run.outcome.left_out = changes.list.len() - selected.len();
    let selected = run.set_conflicts_aside(selected);
    if !selected.is_empty() {
        run.note_baseline()?;
        let outcome = stage::Stage::make(&mut run).and_then(|stage| {
            let staged = stage.fill(&mut run, &selected)?;
            run.commit(&stage, &staged, &selected)
        });
        // Modes that were widened to get here come back in any case, and after
        // the stage is gone, whose removal may need them.
        let finished = run.finish();
        let noted = run.note_touched();
        outcome.and(finished).and(noted)?;
    }
    let mut outcome = run.outcome;
    outcome.applied.sort();
    outcome.conflicts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(outcome)
}

/// Removes what a killed apply of `session` left in the project.
///
/// # Errors
///
/// When the directory is there and cannot be removed.
pub fn sweep(project: &Path, session: &str) -> io::Result<()> {
    let project = beneath::open_root(project)?;
    Ok(remove::remove(project.as_fd(), &stage_name(session))?)
}

/// How staging directories are called, in the project and in the upper. Names
/// like this at the top of an upper are not looked at, so that what a killed
/// session was in the middle of making is no change.
pub const STAGE_PREFIX: &str = ".atoll-apply-";

/// The name of the staging directory at the top of the project.
pub(crate) fn stage_name(session: &str) -> OsString {
    format!("{STAGE_PREFIX}{session}").into()
}
