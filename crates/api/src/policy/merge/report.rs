//! What merging has to say: rules that cannot be had, and rules that are odd.

use crate::policy::effective::Origin;
use crate::policy::value::suggest;
use std::path::{Path, PathBuf};

/// A rule that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {kind}", place(.origin, .key))]
pub struct MergeError {
    /// Where it stands.
    pub origin: Origin,
    /// Table and key.
    pub key: &'static str,
    /// What is wrong.
    pub kind: MergeErrorKind,
}

/// Why a rule cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeErrorKind {
    /// The project's file asks for more than the user gave.
    #[error("a project's policy may only narrow; {why}")]
    Widens {
        /// What would become wider.
        why: String,
        /// The line for the user's own file that allows it (`memory = "8GiB"`), to be
        /// written under the table of the key; nothing when no line can.
        user_line: Option<String>,
    },
    /// Known, but not built yet.
    #[error("{what} is not available yet; {instead}")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// What to write meanwhile.
        instead: &'static str,
    },
    /// A limit under which nothing can run.
    #[error("{value} is too little to run anything; the least is {least}")]
    TooLittle {
        /// What was written.
        value: String,
        /// What is accepted.
        least: String,
    },
    /// A host path that is never granted.
    #[error("{} cannot be granted: {why}", .path.display())]
    Refused {
        /// The real path.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// Something about the network that is not understood.
    #[error("{problem}{}", suggest(.did_you_mean.as_deref()))]
    NotUnderstood {
        /// What was written, and what is wrong with it.
        problem: String,
        /// What may have been meant.
        did_you_mean: Option<String>,
    },
    /// A path that was asked for by a flag, or that is needed, does not exist.
    #[error("{} does not exist", .path.display())]
    Missing {
        /// As it was written, `~` expanded.
        path: PathBuf,
    },
}

/// A rule that does nothing, or more than it seems to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {kind}", place(.origin, .key))]
pub struct Warning {
    /// Where it stands.
    pub origin: Origin,
    /// Table and key.
    pub key: &'static str,
    /// What is odd.
    pub kind: WarningKind,
}

/// What is odd about a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    /// The path is not there.
    #[error("{} does not exist, so nothing is granted{}", .path.display(), glob_note(.path))]
    Missing {
        /// As it was written, `~` expanded.
        path: PathBuf,
    },
    /// Another grant gives the same or more.
    #[error("{} is granted already by {} ({by}); a grant takes nothing away", .path.display(), .cover.display())]
    Covered {
        /// The path that is granted twice.
        path: PathBuf,
        /// The path that covers it.
        cover: PathBuf,
        /// Where that stands.
        by: Origin,
    },
    /// The workspace mode decides in the project.
    #[error("{} lies in the project, where the workspace mode decides; the grant is left out", .path.display())]
    InProject {
        /// The path.
        path: PathBuf,
    },
    /// The grant holds the project.
    #[error("{} holds the project, where the workspace mode still decides", .path.display())]
    AroundProject {
        /// The path.
        path: PathBuf,
    },
    /// Seen anyway.
    #[error("{} is seen anyway: {} belongs to the system that is shown", .path.display(), .system.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The system directory.
        system: PathBuf,
    },
    /// The home directory, whole.
    #[error("{} shows the whole home directory, with every secret in it", .path.display())]
    ShowsHome {
        /// The path.
        path: PathBuf,
    },
    /// Read-only does not keep anybody from connecting.
    #[error("{} is or holds sockets; read-only does not keep programs from connecting to them", .path.display())]
    Sockets {
        /// The path.
        path: PathBuf,
    },
    /// Nothing in a project can match.
    #[error("{pattern:?} hides nothing: {why}")]
    HidesNothing {
        /// As written.
        pattern: String,
        /// Why not.
        why: &'static str,
    },
    /// Something about the network does nothing, or more than it seems to.
    #[error("{text:?} {why}")]
    Network {
        /// As written.
        text: String,
        /// What is odd.
        why: String,
    },
    /// Nothing protects that name.
    #[error("{pattern:?} names nothing that is protected{}", directory_note(pattern))]
    AllowsNothing {
        /// As written.
        pattern: String,
    },
}

/// The file and the key; a flag says both.
fn place(origin: &Origin, key: &str) -> String {
    if origin.flag().is_some() { origin.to_string() } else { format!("{origin}: {key}") }
}

fn glob_note(path: &Path) -> &'static str {
    if path.to_string_lossy().contains('*') { " (a star has no meaning in a grant)" } else { "" }
}

fn directory_note(pattern: &str) -> &'static str {
    if pattern.ends_with('/') { "" } else { "; end it with / to mean whatever lies below" }
}
