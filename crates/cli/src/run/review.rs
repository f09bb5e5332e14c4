//! The review session of a run: made before it, closed after it.

use crate::error::CliError;
use crate::review::word;
use crate::session::{sessions, tell};
use atoll_api::policy::{ApplyMode, Sourced};
use atoll_jail::spec::User;
use atoll_store::Format;
use atoll_store::changes;
use atoll_store::escape::escape;
use atoll_store::session::{NewSession, Session, SessionError};
use rustix::fs::AtFlags;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Makes a session for `project` that the workload's user can write.
pub(super) fn start(
    project: &Path,
    masked: BTreeSet<PathBuf>,
    apply: &Sourced<ApplyMode>,
    user: User,
) -> Result<Session, CliError> {
    // An overlay does not look into them: what they hold would seem to be gone.
    let mounts = atoll_jail::mountinfo::below(project)
        .map_err(|error| CliError::new("the mounts cannot be read").because(error))?;
    if let Some(mount) = mounts.first() {
        let mount = escape(mount);
        let text = format!("the project holds another file system, mounted at {mount}");
        return Err(CliError::new(text)
            .because("a review would not see what is in it")
            .hint("unmount it, or work without a review: --workspace live"));
    }
    let is_root = rustix::process::geteuid().is_root();
    let format = if is_root { Format::Trusted } else { Format::User };
    let owner = std::fs::symlink_metadata(project).map(|found| (found.uid(), found.gid()));
    let writer = (user.outside_uid, user.outside_gid);
    let written_by = (is_root && owner.is_ok_and(|owner| owner != writer)).then_some(writer);
    let apply_asks = (apply.value == ApplyMode::Ask).then(|| apply.origin.to_string());
    let new = NewSession { project, format, masked, written_by, apply_asks };
    let session = sessions()?.create(&new).map_err(tell)?;
    if is_root {
        give_to(&session.upper(), user)
            .and_then(|()| give_to(&session.work(), user))
            .map_err(|error| CliError::new("the review session cannot be made").because(error))?;
    }
    Ok(session)
}

fn failed(error: SessionError) -> CliError {
    CliError::new("the review session cannot be made").because(error)
}

/// Root made the directories; the workload's user writes them. Nothing inside
/// has run yet, and links are not followed.
fn give_to(path: &Path, user: User) -> std::io::Result<()> {
    let uid = rustix::fs::Uid::from_raw(user.outside_uid);
    let gid = rustix::fs::Gid::from_raw(user.outside_gid);
    rustix::fs::chownat(rustix::fs::CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            // A whiteout is nobody's; only directories get written into.
            if std::fs::symlink_metadata(&path)?.is_dir() {
                give_to(&path, user)?;
            }
        }
    }
    Ok(())
}

/// What a closed session holds.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// `None` where nothing was changed: the session is gone.
    pub(crate) session: Option<String>,
    pub(crate) changed: Vec<(&'static str, PathBuf)>,
}

/// Ends the session; one without changes is removed.
pub(super) fn finish(mut session: Session) -> Result<Reviewed, CliError> {
    session.end().map_err(failed)?;
    let view = session.view().map_err(failed)?;
    let read = changes::read(&view)
        .map_err(|error| CliError::new("the session's changes cannot be read").because(error))?;
    let changed: Vec<(&'static str, PathBuf)> =
        read.list.iter().map(|change| (word(change.kind), change.path.clone())).collect();
    if changed.is_empty() && read.rejected.is_empty() {
        drop(view);
        sessions()?.discard(session.id()).map_err(failed)?;
        return Ok(Reviewed { session: None, changed });
    }
    Ok(Reviewed { session: Some(session.id().to_owned()), changed })
}
