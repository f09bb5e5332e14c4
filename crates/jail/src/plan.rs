//! From a [`Spec`] to the steps that make it, in order. No system calls here.

use crate::spec::{Access, Entry, Kind, Source, Spec, Watches, What};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// One act of making the view. Paths are absolute in the new root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Mounts an overlay, detached, while the host's paths are still there; the
    /// n-th is bound by [`Step::BindOverlay`].
    MountOverlay {
        lower: PathBuf,
        expect: (u64, u64),
        upper: PathBuf,
        work: PathBuf,
    },
    /// Binds the n-th overlay.
    BindOverlay {
        at: PathBuf,
        index: usize,
    },
    /// A new, empty root of this many bytes; the old one stays reachable by a
    /// descriptor until [`Step::LeaveOldRoot`].
    EmptyRoot {
        bytes: u64,
    },
    MakeDirectory {
        path: PathBuf,
        mode: u32,
    },
    MakeFile {
        path: PathBuf,
        mode: u32,
        content: Vec<u8>,
    },
    MakeLink {
        path: PathBuf,
        to: PathBuf,
    },
    /// Binds a tree, with everything mounted beneath it.
    Bind {
        at: PathBuf,
        source: Source,
        access: Access,
    },
    /// Keeps a directory of the root writable when the root is sealed.
    KeepWritable {
        at: PathBuf,
    },
    MountProc {
        at: PathBuf,
    },
    /// Lets nobody inside make a user namespace, whatever the filter says:
    /// through the procfs that is mounted there.
    ForbidUserNamespaces {
        proc: PathBuf,
    },
    /// Bounds what can be watched inside.
    LimitWatches {
        proc: PathBuf,
        limits: Watches,
    },
    /// Lets a file of procfs read as empty.
    Blank {
        at: PathBuf,
    },
    /// Makes a place below procfs read-only.
    Cover {
        at: PathBuf,
    },
    MountPts {
        at: PathBuf,
    },
    /// Binds one device of the host.
    Device {
        at: PathBuf,
        name: &'static str,
    },
    /// Makes the empty file and the empty directory that hide others.
    MakeMasks,
    Mask {
        at: PathBuf,
        kind: Kind,
    },
    LeaveOldRoot,
    /// Makes the root read-only.
    SealRoot,
    SetHostname {
        name: String,
    },
}

/// Why a spec cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0:?} is not an absolute path without . and ..")]
    NotPlain(PathBuf),
    #[error("{0:?} is listed twice in the view")]
    Twice(PathBuf),
    #[error("{below:?} cannot be placed below {above:?}, which is not a directory of the view")]
    Below { above: PathBuf, below: PathBuf },
    #[error("host name {0:?} is empty or longer than 64 bytes")]
    Hostname(String),
}

/// The devices of the host that are in `/dev` inside.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What of procfs belongs to the root of a namespace rather than of the machine:
/// a workload that is root inside could write it without any capability. All else
/// belongs to the machine's root, who is nobody inside.
const ROOT_WRITABLE: &str = "sys";

/// What procfs shows of the user's keyrings outside, which are none of the
/// workload's business: keys(7) lists names to whoever has the same uid.
const KEYRINGS: [&str; 2] = ["keys", "key-users"];

/// Plans the view of `spec`: parents before children, the order of the steps is
/// the order of the kernel's calls.
///
/// # Errors
///
/// A path that is not plain, is listed twice or lies below a file.
pub fn plan(spec: &Spec) -> Result<Vec<Step>, PlanError> {
    if spec.hostname.is_empty() || spec.hostname.len() > 64 {
        return Err(PlanError::Hostname(spec.hostname.clone()));
    }
    let mut entries: Vec<&Entry> = spec.view.iter().collect();
    entries.sort_by(|a, b| a.at.cmp(&b.at));
    check(&entries)?;
    let mut steps = overlays(&entries);
    let mut overlays = 0;
    steps.push(Step::EmptyRoot { bytes: spec.private_bytes });
    if entries.iter().any(|entry| matches!(entry.what, What::Mask { .. })) {
        steps.push(Step::MakeMasks);
    }
    let mut made: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::from("/")]);
    // A writable place is bound onto itself when all below it has been made,
    // except what is bound there: a later bind onto a private directory lands
    // on top of it either way, so the order is only: make, keep, then place.
    for entry in entries {
        if let What::Mask { kind } = entry.what {
            steps.push(Step::Mask { at: entry.at.clone(), kind });
            continue;
        }
        parents(&entry.at, &mut made, &mut steps);
        place(entry, &mut overlays, &mut steps);
        made.insert(entry.at.clone());
    }
    steps.extend([
        Step::LeaveOldRoot,
        Step::SealRoot,
        Step::SetHostname { name: spec.hostname.clone() },
    ]);
    Ok(steps)
}

/// `entries` are sorted by their place.
fn check(entries: &[&Entry]) -> Result<(), PlanError> {
    for entry in entries {
        let plain = entry.at.is_absolute()
            && entry.at != Path::new("/")
            && entry.at.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
        if !plain {
            return Err(PlanError::NotPlain(entry.at.clone()));
        }
    }
    for pair in entries.windows(2) {
        if pair[0].at == pair[1].at {
            return Err(PlanError::Twice(pair[0].at.clone()));
        }
    }
    // In the order of paths what lies below a place comes right after it.
    let mut closed: Option<&Path> = None;
    for entry in entries {
        if let Some(above) = closed.filter(|above| entry.at.starts_with(above)) {
            return Err(PlanError::Below { above: above.to_owned(), below: entry.at.clone() });
        }
        if !holds_entries(&entry.what) {
            closed = Some(&entry.at);
        }
    }
    Ok(())
}

fn holds_entries(what: &What) -> bool {
    match what {
        What::Directory { .. } | What::Private { .. } | What::Devices => true,
        What::Bind { kind, .. } => *kind == Kind::Directory,
        What::File { .. } | What::Link { .. } | What::Proc { .. } | What::Mask { .. } => false,
    }
}

fn parents(at: &Path, made: &mut BTreeSet<PathBuf>, steps: &mut Vec<Step>) {
    let missing: Vec<&Path> =
        at.ancestors().skip(1).take_while(|above| !made.contains(*above)).collect();
    for path in missing.into_iter().rev() {
        steps.push(Step::MakeDirectory { path: path.to_owned(), mode: 0o755 });
        made.insert(path.to_owned());
    }
}

fn place(entry: &Entry, overlays: &mut usize, steps: &mut Vec<Step>) {
    let at = entry.at.clone();
    let directory = |mode: u32| Step::MakeDirectory { path: at.clone(), mode };
    match &entry.what {
        What::Directory { mode } => steps.push(directory(*mode)),
        What::Private { mode } => {
            steps.push(directory(*mode));
            steps.push(Step::KeepWritable { at: at.clone() });
        }
        What::File { content, mode } => {
            let content = content.clone();
            steps.push(Step::MakeFile { path: at.clone(), mode: *mode, content });
        }
        What::Link { to } => steps.push(Step::MakeLink { path: at.clone(), to: to.clone() }),
        What::Bind { source, kind, access } => {
            steps.push(match kind {
                Kind::Directory => directory(0o755),
                Kind::File => Step::MakeFile { path: at.clone(), mode: 0o600, content: Vec::new() },
            });
            steps.push(match source {
                Source::Overlay { .. } => {
                    let index = *overlays;
                    *overlays += 1;
                    Step::BindOverlay { at: at.clone(), index }
                }
                _ => Step::Bind { at: at.clone(), source: source.clone(), access: *access },
            });
        }
        What::Proc { cover_root_writable, nested_userns, watches } => {
            steps.push(directory(0o555));
            steps.push(Step::MountProc { at: at.clone() });
            if !nested_userns {
                steps.push(Step::ForbidUserNamespaces { proc: at.clone() });
            }
            if let Some(limits) = *watches {
                steps.push(Step::LimitWatches { proc: at.clone(), limits });
            }
            steps.extend(KEYRINGS.map(|name| Step::Blank { at: at.join(name) }));
            if *cover_root_writable {
                steps.push(Step::Cover { at: at.join(ROOT_WRITABLE) });
            }
        }
        What::Devices => devices(&at, steps),
        // Placed by the caller: it needs nothing made.
        What::Mask { .. } => {}
    }
}

/// One mount for each overlay of the view, in the order of the entries.
fn overlays(entries: &[&Entry]) -> Vec<Step> {
    let sources = entries.iter().filter_map(|entry| match &entry.what {
        What::Bind { source, .. } => Some(source),
        _ => None,
    });
    sources
        .filter_map(|source| match source.clone() {
            Source::Overlay { lower, expect, upper, work } => {
                Some(Step::MountOverlay { lower, expect, upper, work })
            }
            _ => None,
        })
        .collect()
}

fn devices(at: &Path, steps: &mut Vec<Step>) {
    steps.push(Step::MakeDirectory { path: at.to_owned(), mode: 0o755 });
    for name in DEVICES {
        let path = at.join(name);
        steps.push(Step::MakeFile { path: path.clone(), mode: 0o600, content: Vec::new() });
        steps.push(Step::Device { at: path, name });
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, to) in links {
        steps.push(Step::MakeLink { path: at.join(name), to: to.into() });
    }
    steps.push(Step::MakeDirectory { path: at.join("pts"), mode: 0o755 });
    steps.push(Step::MountPts { at: at.join("pts") });
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MountOverlay { lower, upper, .. } => {
                write!(f, "mount an overlay of {lower:?} with writes in {upper:?}")
            }
            Self::BindOverlay { at, index } => write!(f, "bind overlay {index} at {at:?}"),
            Self::EmptyRoot { bytes } => write!(f, "make an empty root of {bytes} bytes"),
            Self::MakeDirectory { path, mode } => write!(f, "make directory {path:?} {mode:04o}"),
            Self::MakeFile { path, mode, content } => {
                write!(f, "make file {path:?} {mode:04o} of {} bytes", content.len())
            }
            Self::MakeLink { path, to } => write!(f, "make link {path:?} to {to:?}"),
            Self::Bind { at, source, access } => {
                let how = match access {
                    Access::ReadOnly => "read-only",
                    Access::ReadWrite => "read-write",
                };
                match source {
                    Source::Path { path, .. } => write!(f, "bind {path:?} at {at:?} {how}"),
                    Source::Handed(index) => write!(f, "bind tree {index} at {at:?} {how}"),
                    Source::Late => write!(f, "bind the next tree at {at:?} {how}"),
                    Source::Overlay { lower, .. } => write!(f, "bind {lower:?} at {at:?} {how}"),
                }
            }
            Self::KeepWritable { at } => write!(f, "keep {at:?} writable"),
            Self::MountProc { at } => write!(f, "mount proc at {at:?}"),
            Self::ForbidUserNamespaces { proc } => {
                write!(f, "forbid user namespaces through {proc:?}")
            }
            Self::LimitWatches { proc, limits } => {
                let Watches { instances, watches } = limits;
                write!(f, "limit watches to {instances} and {watches} through {proc:?}")
            }
            Self::Blank { at } => write!(f, "blank {at:?}"),
            Self::Cover { at } => write!(f, "cover {at:?}"),
            Self::MountPts { at } => write!(f, "mount devpts at {at:?}"),
            Self::Device { at, name } => write!(f, "bind device {name} at {at:?}"),
            Self::MakeMasks => write!(f, "make the masks"),
            Self::Mask { at, .. } => write!(f, "mask {at:?}"),
            Self::LeaveOldRoot => write!(f, "leave the old root"),
            Self::SealRoot => write!(f, "make the root read-only"),
            Self::SetHostname { name } => write!(f, "set host name {name:?}"),
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
