//! Host paths shown inside: what is never granted, and what is granted twice.

use super::{Layer, MergeErrorKind, Merger, WarningKind, covering};
use crate::policy::document::{List, Located};
use crate::policy::effective::{Grant, Level, Sourced};
use std::path::{Path, PathBuf};

/// Neither these, nor what lies in them, nor what holds them: they are the
/// machine, and who writes there owns it.
const NEVER_WRITABLE: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Not these themselves, since others' files and sockets are in them; what
/// lies in them may be granted.
const TOO_WIDE_TO_WRITE: &[&str] =
    &["/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/tmp"];

/// The sandbox has its own, and the host's would open the host.
const NEVER_READABLE: &[&str] = &["/dev", "/proc", "/sys"];

/// Which of the two lists of grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Read => "files.read",
            Self::Write => "files.write",
        }
    }
}

impl Merger<'_> {
    pub(super) fn apply_grants(&mut self, layer: &Layer) {
        let files = &layer.document.files;
        for (access, list) in [(Access::Read, &files.read), (Access::Write, &files.write)] {
            let found = self.found_grants(layer, access, list.as_ref());
            for grant in found {
                if let Some(why) = self.refusal(access, &grant.value.path) {
                    let kind = MergeErrorKind::Refused { path: grant.value.path, why };
                    self.error(grant.origin, access.key(), kind);
                } else {
                    self.grants(access).push(grant);
                }
            }
        }
    }

    fn refusal(&self, access: Access, path: &Path) -> Option<&'static str> {
        match access {
            Access::Write if self.host.trusted.iter().any(|file| file.starts_with(path)) => Some(
                "the user's own policy lies there, and who writes it decides what the next run may do",
            ),
            Access::Write => write_refusal(path, self.host.home.as_deref()),
            Access::Read if path == Path::new("/") => Some(WHOLE_MACHINE),
            Access::Read if NEVER_READABLE.iter().any(|dir| path.starts_with(dir)) => {
                Some("the sandbox has its own, and the host's would open the host")
            }
            Access::Read => None,
        }
    }

    pub(super) fn grants(&mut self, access: Access) -> &mut Vec<Sourced<Grant>> {
        match access {
            Access::Read => &mut self.policy.files.read,
            Access::Write => &mut self.policy.files.write,
        }
    }

    /// The grants of a list that exist. A missing one is an error on the command
    /// line, where somebody has just typed it, and a warning in a file, which may
    /// serve several machines.
    pub(super) fn found_grants(
        &mut self,
        layer: &Layer,
        access: Access,
        list: Option<&List<PathBuf>>,
    ) -> Vec<Sourced<Grant>> {
        let mut found = Vec::new();
        for item in list.into_iter().flat_map(|list| &list.items) {
            let origin = layer.origin(item);
            match resolved(layer, item) {
                Ok((grant, is_socket)) => {
                    if is_socket || grant.path.starts_with("/run") {
                        self.warn(
                            origin.clone(),
                            access.key(),
                            WarningKind::Sockets { path: grant.path.clone() },
                        );
                    }
                    found.push(Sourced { value: grant, origin });
                }
                Err(path) if layer.level == Level::Flag => {
                    self.error(origin, access.key(), MergeErrorKind::Missing { path });
                }
                Err(path) => self.warn(origin, access.key(), WarningKind::Missing { path }),
            }
        }
        found
    }

    /// Leaves out grants that give nothing, after all levels have spoken: until
    /// then what covers them may still be dropped.
    pub(super) fn tidy_grants(&mut self) {
        let write = std::mem::take(&mut self.policy.files.write);
        let kept_write = self.tidy(Access::Write, write, &[]);
        let read = std::mem::take(&mut self.policy.files.read);
        self.policy.files.read = self.tidy(Access::Read, read, &kept_write);
        self.policy.files.write = kept_write;
    }

    fn tidy(
        &mut self,
        access: Access,
        grants: Vec<Sourced<Grant>>,
        wider: &[Sourced<Grant>],
    ) -> Vec<Sourced<Grant>> {
        let mut kept: Vec<Sourced<Grant>> = Vec::new();
        for (index, grant) in grants.iter().enumerate() {
            let path = &grant.value.path;
            if path.starts_with(&self.host.project) {
                self.warn(
                    grant.origin.clone(),
                    access.key(),
                    WarningKind::InProject { path: path.clone() },
                );
                continue;
            }
            // The same path twice, from two levels, is nobody's mistake.
            if grants[..index].iter().any(|other| other.value.path == *path) {
                continue;
            }
            let others = grants
                .iter()
                .filter(|other| other.value.path != *path)
                .cloned()
                .collect::<Vec<_>>();
            if let Some(cover) = covering(wider, path).or_else(|| covering(&others, path)) {
                let (cover, by) = (cover.value.path.clone(), cover.origin.clone());
                self.warn(
                    grant.origin.clone(),
                    access.key(),
                    WarningKind::Covered { path: path.clone(), cover, by },
                );
                continue;
            }
            self.warn_about_place(access, grant);
            kept.push(grant.clone());
        }
        kept
    }

    fn warn_about_place(&mut self, access: Access, grant: &Sourced<Grant>) {
        let path = &grant.value.path;
        let system = self.host.system.iter().find(|system| path.starts_with(system));
        let kind = if self.host.home.as_ref().is_some_and(|home| home.starts_with(path)) {
            WarningKind::ShowsHome { path: path.clone() }
        } else if self.host.project.starts_with(path) {
            WarningKind::AroundProject { path: path.clone() }
        } else if let Some(system) = system {
            WarningKind::System { path: path.clone(), system: system.clone() }
        } else {
            return;
        };
        self.warn(grant.origin.clone(), access.key(), kind);
    }
}

fn resolved(layer: &Layer, item: &Located<PathBuf>) -> Result<(Grant, bool), PathBuf> {
    let Some(found) = layer.paths.get(&item.value) else { return Err(item.value.clone()) };
    match &found.real {
        Some(real) => {
            Ok((Grant { path: real.clone(), spelled: found.spelled.clone() }, found.is_socket))
        }
        None => Err(found.spelled.clone()),
    }
}

/// Why a directory can never be writable from inside, be it granted or the project
/// itself: it is the machine, the home directory, or everybody's. `path` and `home`
/// are real paths.
pub fn write_refusal(path: &Path, home: Option<&Path>) -> Option<&'static str> {
    let overlaps = |dir: &&str| path.starts_with(dir) || Path::new(dir).starts_with(path);
    if path == Path::new("/") {
        return Some(WHOLE_MACHINE);
    }
    if home.is_some_and(|home| home.starts_with(path)) {
        return Some(
            "it is or holds the home directory; name the directories in it that are needed",
        );
    }
    if NEVER_WRITABLE.iter().any(overlaps) {
        return Some(
            "it is or holds a directory of the system, and who writes there owns the machine",
        );
    }
    let is_too_wide = TOO_WIDE_TO_WRITE.iter().any(|dir| path == Path::new(dir));
    is_too_wide.then_some(
        "it holds the files of other programs; name the directories in it that are needed",
    )
}

const WHOLE_MACHINE: &str = "it is the whole machine; name the directories that are needed";
