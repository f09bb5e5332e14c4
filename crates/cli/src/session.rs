//! Which review session a command is about, and what its failures say.

use crate::env;
use crate::error::CliError;
use atoll_store::escape::escape;
use atoll_store::session::{Session, SessionError, Sessions};
use std::path::{Path, PathBuf};

/// Exit status when there is something to decide: a conflict, a risk that
/// nobody confirmed.
pub(crate) const EXIT_UNDECIDED: u8 = 1;

/// Opens the sessions of the caller, in `$XDG_STATE_HOME/atoll/sessions`, else
/// `~/.local/state/atoll/sessions`.
pub(crate) fn sessions() -> Result<Sessions, CliError> {
    let state = home().ok_or_else(|| {
        CliError::new("cannot tell where review sessions are kept")
            .hint("set HOME or XDG_STATE_HOME")
    })?;
    Sessions::open(&state).map_err(tell)
}

/// Where [`sessions`] are, whether they are there or not.
pub(crate) fn home() -> Option<PathBuf> {
    let state = env::XDG_STATE_HOME.path();
    let state = state.or_else(|| env::HOME.path().map(|home| home.join(".local/state")))?;
    Some(state.join("atoll"))
}

/// The session of this id, else the newest one of the project that holds the
/// current directory; of nested projects the innermost counts.
pub(crate) fn pick(sessions: &Sessions, id: Option<&str>) -> Result<Session, CliError> {
    if let Some(id) = id {
        return sessions.get(id).map_err(tell);
    }
    let here = std::env::current_dir()
        .map_err(|error| CliError::new("cannot tell the current directory").because(error))?;
    let listed = sessions.list().map_err(tell)?;
    let others = listed.sessions.len();
    let of_here = listed.sessions.into_iter().filter_map(|session| {
        let project = real(&session.record().project);
        here.starts_with(&project).then(|| (project.components().count(), session))
    });
    // The list is newest first, and the first of equals is to be taken.
    let innermost = of_here.reduce(|best, other| if other.0 > best.0 { other } else { best });
    innermost.map(|(_, session)| session).ok_or_else(|| {
        let message = format!("no review session of a project that holds {}", escape(&here));
        let error = CliError::new(message);
        if others > 0 {
            error.hint(
                "`atoll diff --list` shows the sessions of other projects; name one by its id",
            )
        } else {
            error.hint("start one with `atoll run --workspace review -- COMMAND`")
        }
    })
}

/// The project's directory with links resolved, if it is there.
pub(crate) fn real(project: &Path) -> PathBuf {
    std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned())
}

/// Whether a word of the command line is meant as a session and not as a path.
pub(crate) fn is_id(word: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.strip_prefix("ses_").is_some_and(|digits| digits.len() == 16 && is_hex(digits))
}

/// A session's failure with what would help.
pub(crate) fn tell(error: SessionError) -> CliError {
    let (hint, exit) = match &error {
        SessionError::Running { .. } => {
            (Some("wait for it to end, or stop it; `atoll diff` works meanwhile"), EXIT_UNDECIDED)
        }
        SessionError::Busy { .. } => (Some("try again when it is done"), EXIT_UNDECIDED),
        SessionError::NoSuch { .. } | SessionError::BadId { .. } => {
            (Some("`atoll diff --list` shows the sessions there are"), EXIT_UNDECIDED)
        }
        SessionError::NotPrivate { .. } => {
            (Some("make it yours, with mode 700"), crate::error::EXIT_OURS)
        }
        SessionError::InsideProject { .. } => {
            (Some("set XDG_STATE_HOME to a directory outside the project"), crate::error::EXIT_OURS)
        }
        SessionError::OtherProject { .. } => {
            (Some("move the project back, or discard the session"), EXIT_UNDECIDED)
        }
        SessionError::Damaged { .. } => {
            (Some("`atoll discard` with its id removes it"), crate::error::EXIT_OURS)
        }
        SessionError::Directory { .. }
        | SessionError::Read { .. }
        | SessionError::Newer { .. }
        | SessionError::Project { .. }
        | SessionError::Make { .. }
        | SessionError::Hide { .. }
        | SessionError::Remove { .. } => (None, crate::error::EXIT_OURS),
    };
    let message = error.to_string();
    let told = CliError::new(message).exit_with(exit);
    let told = match std::error::Error::source(&error) {
        Some(source) => told.because(source.to_string()),
        None => told,
    };
    match hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_paths() {
        assert!(is_id("ses_0123456789abcdef"));
        for path in ["ses_", "ses_0123456789abcde", "./ses_0123456789abcdef", "src", ""] {
            assert!(!is_id(path), "{path:?}");
        }
    }
}
