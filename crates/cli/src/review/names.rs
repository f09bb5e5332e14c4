//! Names that a live workspace would not let be written are risky to apply.
//!
//! The store knows names by how they are run; this adds what else is protected,
//! and what protected names lead to that are links on the host.

use atoll_api::protect::{Handling, Kind, NAMES, ProtectedName, find};
use atoll_store::changes::{Change, ChangeKind};
use atoll_store::risk::{Risk, RiskKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Where protected names at the top of a project lead, relative to it.
#[derive(Debug, Default)]
pub(crate) struct Targets(Vec<(PathBuf, &'static ProtectedName)>);

impl Targets {
    /// Looks at the links that `project` has now.
    pub(crate) fn of(project: &Path) -> Self {
        let plain = |name: &&ProtectedName| name.handling == Handling::Refuse && is_literal(name);
        let mut targets = Vec::new();
        for name in NAMES.iter().filter(plain) {
            let Ok(target) = std::fs::read_link(project.join(name.name)) else { continue };
            let parent = Path::new(name.name).parent().unwrap_or(Path::new(""));
            let named = beneath(&parent.join(target));
            let real = std::fs::canonicalize(project.join(name.name)).ok();
            let real = real.as_deref().and_then(|real| beneath(real.strip_prefix(project).ok()?));
            targets.extend(named.into_iter().chain(real).map(|target| (target, name)));
        }
        Self(targets)
    }

    /// The risk of a change by its name alone.
    pub(crate) fn risk(&self, change: &Change) -> Option<Risk> {
        let after = change.after.as_ref().filter(|_| change.kind != ChangeKind::Deleted)?;
        if after.kind == atoll_store::node::FileKind::Dir {
            return None;
        }
        let parts: Vec<&[u8]> =
            change.path.components().map(|part| part.as_os_str().as_bytes()).collect();
        let refused = |start: usize| {
            find(&parts[start..], true).filter(|name| name.handling == Handling::Refuse)
        };
        let led_to = || {
            let found = self.0.iter().find(|(target, _)| change.path.starts_with(target));
            found.map(|(_, name)| *name)
        };
        let name = (0..parts.len()).find_map(refused).or_else(led_to)?;
        Some(Risk { kind: kind(name.kind), reason: name.why })
    }
}

fn is_literal(name: &ProtectedName) -> bool {
    !name.name.contains('*')
}

/// A relative path without `.` and `..`, if it stays in the project and is not
/// all of it: then everything would be risky, and nothing told apart.
fn beneath(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}

fn kind(kind: Kind) -> RiskKind {
    match kind {
        Kind::Git => RiskKind::Git,
        Kind::Ide => RiskKind::Editor,
        Kind::Agent => RiskKind::Agent,
        Kind::Shell => RiskKind::Shell,
        Kind::Package => RiskKind::Build,
        Kind::Atoll => RiskKind::Environment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_places_in_the_project() {
        let directory = tempfile::tempdir().unwrap();
        let project = std::fs::canonicalize(directory.path()).unwrap();
        for (target, name) in [
            ("conf/code", ".vscode"),
            ("/etc/passwd", ".envrc"),
            (".", ".cursor"),
            ("x/../y", ".zed"),
        ] {
            std::os::unix::fs::symlink(target, project.join(name)).unwrap();
        }
        let targets = Targets::of(&project);
        let mut found: Vec<_> =
            targets.0.iter().map(|(target, name)| (target.to_str().unwrap(), name.name)).collect();
        found.sort_unstable();
        assert_eq!(found, [("conf/code", ".vscode"), ("y", ".zed")]);
    }
}
