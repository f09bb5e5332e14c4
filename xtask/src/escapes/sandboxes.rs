//! What attempts run in.

use super::scene::Scene;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sandbox {
    /// None, the control: here an attempt must get through, or it shows nothing.
    Bare,
    AtollLive,
    AtollReview,
    /// The whole system read-only and the project writable, as its manual's first example.
    Bubblewrap,
    /// The few directories of `demos/bubblewrap-shell.sh` in its sources, and the project.
    BubblewrapDemo,
    /// As it comes: the profile for programs that it has none for.
    Firejail,
}

/// How a command is put into a sandbox.
pub(super) struct Way {
    pub(super) words: Vec<String>,
    /// Whether it asks the user database who runs it.
    pub(super) wants_account: bool,
}

impl Sandbox {
    pub(super) const ALL: [Self; 6] = [
        Self::Bare,
        Self::AtollLive,
        Self::AtollReview,
        Self::Bubblewrap,
        Self::BubblewrapDemo,
        Self::Firejail,
    ];

    /// Heads a column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "no sandbox",
            Self::AtollLive => "Atoll live",
            Self::AtollReview => "Atoll review",
            Self::Bubblewrap => "bwrap, all of /",
            Self::BubblewrapDemo => "bwrap, its demo",
            Self::Firejail => "firejail",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::AtollLive | Self::AtollReview)
    }

    /// Why it cannot be tried here.
    pub(super) fn missing(self) -> Option<&'static str> {
        let program = match self {
            Self::Bubblewrap | Self::BubblewrapDemo => "/usr/bin/bwrap",
            Self::Firejail => "/usr/bin/firejail",
            _ => return None,
        };
        (!Path::new(program).exists()).then_some("not installed")
    }

    pub(super) fn way(self, scene: &Scene, atoll: &Path) -> Way {
        let (atoll, project) = (atoll.display(), scene.project.display());
        let line = match self {
            Self::Bare => String::new(),
            Self::AtollLive => format!("{atoll} run --workspace live --"),
            Self::AtollReview => format!("{atoll} run --workspace review --"),
            Self::Bubblewrap => format!(
                "/usr/bin/bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
                 --bind {project} {project} --unshare-all --die-with-parent --new-session"
            ),
            Self::BubblewrapDemo => format!(
                "/usr/bin/bwrap --ro-bind /usr /usr --symlink usr/lib /lib \
                 --symlink usr/lib64 /lib64 --symlink usr/bin /bin --symlink usr/sbin /sbin \
                 --dir /tmp --dir /var --symlink ../tmp /var/tmp --proc /proc --dev /dev \
                 --bind {project} {project} --unshare-all --die-with-parent --new-session"
            ),
            Self::Firejail => "/usr/bin/firejail --quiet --".to_owned(),
        };
        Way {
            words: line.split_whitespace().map(str::to_owned).collect(),
            wants_account: self == Self::Firejail,
        }
    }
}
