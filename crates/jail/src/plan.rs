//! From a [`Spec`] to the steps that make it, in order. No system calls here.

use crate::spec::{Access, Entry, Kind, Lower, Source, Spec, Watches, What};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// One act of making the view. Paths are absolute in the new root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Mounts an overlay, detached, while the host's paths are still there; the
    /// n-th is bound by [`Step::BindOverlay`].
    MountOverlay {
        /// The lowest first.
        lowers: Vec<Lower>,
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
    /// Binds a directory of the root at a place in a writable root file system.
    Place {
        from: PathBuf,
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
    /// Binds a file of the view over another one, read-only.
    Twin {
        of: PathBuf,
        at: PathBuf,
    },
    LeaveOldRoot,
    /// Makes one mount read-only: the root, or a directory of ours in another.
    Seal {
        at: PathBuf,
    },
    /// Has what is at a place be the root, and leaves the one that it was made in.
    EnterRoot {
        at: PathBuf,
    },
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
    let mut steps = overlays(spec.root.as_ref(), &entries);
    let mut builder = Builder::default();
    steps.push(Step::EmptyRoot { bytes: spec.private_bytes });
    if let Some(source) = &spec.root {
        builder.begin(source, &mut steps);
    }
    if entries.iter().any(|entry| matches!(entry.what, What::Mask { .. })) {
        steps.push(Step::MakeMasks);
    }
    // A writable place is bound onto itself when all below it has been made,
    // except what is bound there: a later bind onto a private directory lands
    // on top of it either way, so the order is only: make, keep, then place.
    let mut twins = Vec::new();
    for entry in entries {
        match &entry.what {
            What::Mask { kind } => {
                steps.push(Step::Mask { at: builder.at(&entry.at), kind: *kind });
                continue;
            }
            What::Twin { of } => {
                twins.push(Step::Twin { of: builder.at(of), at: builder.at(&entry.at) });
                continue;
            }
            _ => {}
        }
        builder.parents(&entry.at, &mut steps);
        builder.place(entry, &mut steps);
        builder.made.insert(entry.at.clone());
    }
    // What they are of is there now.
    steps.append(&mut twins);
    steps.push(Step::LeaveOldRoot);
    builder.finish(&mut steps);
    steps.push(Step::SetHostname { name: spec.hostname.clone() });
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
        // Over itself, what can be written there cannot be any more.
        let is_own = matches!(&pair[1].what, What::Twin { of } if *of == pair[1].at);
        if pair[0].at == pair[1].at && !is_own {
            return Err(PlanError::Twice(pair[0].at.clone()));
        }
    }
    // In the order of paths what lies below a place comes right after it.
    let mut closed: Option<&Path> = None;
    for entry in entries {
        let is_below = |above: &&Path| entry.at != **above && entry.at.starts_with(above);
        if let Some(above) = closed.filter(is_below) {
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
        What::File { .. } | What::Link { .. } | What::Proc { .. } => false,
        What::Mask { .. } | What::Twin { .. } => false,
    }
}

/// Where a writable root file system lies until it is entered: in the empty root, whose
/// other directories are the private space.
pub const WRITABLE_ROOT: &str = "/system";

/// What has been made so far.
struct Builder {
    /// The writable root file system that all is placed in.
    root: Option<PathBuf>,
    made: BTreeSet<PathBuf>,
    overlays: usize,
    private: usize,
    /// Places that are not to be written when all is there.
    sealed: Vec<PathBuf>,
}

impl Default for Builder {
    fn default() -> Self {
        let made = BTreeSet::from([PathBuf::from("/")]);
        Self { root: None, made, overlays: 0, private: 0, sealed: Vec::new() }
    }
}

impl Builder {
    fn begin(&mut self, source: &Source, steps: &mut Vec<Step>) {
        let at = PathBuf::from(WRITABLE_ROOT);
        steps.push(Step::MakeDirectory { path: at.clone(), mode: 0o755 });
        steps.push(self.bind(at.clone(), source, Access::ReadWrite));
        self.root = Some(at);
    }

    /// Where a path of the view is while the view is made.
    fn at(&self, path: &Path) -> PathBuf {
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(below)) => root.join(below),
            _ => path.to_owned(),
        }
    }

    fn parents(&mut self, at: &Path, steps: &mut Vec<Step>) {
        let missing: Vec<&Path> =
            at.ancestors().skip(1).take_while(|above| !self.made.contains(*above)).collect();
        for path in missing.into_iter().rev() {
            steps.push(Step::MakeDirectory { path: self.at(path), mode: 0o755 });
            self.made.insert(path.to_owned());
        }
    }

    fn bind(&mut self, at: PathBuf, source: &Source, access: Access) -> Step {
        match source {
            Source::Overlay { .. } => {
                let index = self.overlays;
                self.overlays += 1;
                Step::BindOverlay { at, index }
            }
            _ => Step::Bind { at, source: source.clone(), access },
        }
    }

    /// A directory of the private space at a place.
    fn private(&mut self, at: &Path, mode: u32, steps: &mut Vec<Step>) {
        let from = PathBuf::from(format!("/private-{}", self.private));
        self.private += 1;
        steps.extend([
            Step::MakeDirectory { path: from.clone(), mode },
            Step::MakeDirectory { path: at.to_owned(), mode: 0o755 },
            Step::Place { from, at: at.to_owned() },
        ]);
    }

    fn place(&mut self, entry: &Entry, steps: &mut Vec<Step>) {
        let at = self.at(&entry.at);
        let directory = |mode: u32| Step::MakeDirectory { path: at.clone(), mode };
        match &entry.what {
            What::Directory { mode } => steps.push(directory(*mode)),
            What::Private { mode } if self.root.is_some() => self.private(&at, *mode, steps),
            What::Private { mode } => {
                steps.push(directory(*mode));
                steps.push(Step::KeepWritable { at });
            }
            What::File { content, mode } => {
                let content = content.clone();
                steps.push(Step::MakeFile { path: at, mode: *mode, content });
            }
            What::Link { to } => steps.push(Step::MakeLink { path: at, to: to.clone() }),
            What::Bind { source, kind, access } => {
                steps.push(match kind {
                    Kind::Directory => directory(0o755),
                    Kind::File => {
                        Step::MakeFile { path: at.clone(), mode: 0o600, content: Vec::new() }
                    }
                });
                steps.push(self.bind(at, source, *access));
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
            What::Devices => {
                if self.root.is_some() {
                    self.private(&at, 0o755, steps);
                    self.sealed.push(at.clone());
                } else {
                    steps.push(directory(0o755));
                }
                devices(&at, steps);
            }
            // Placed by the caller: they need nothing made.
            What::Mask { .. } | What::Twin { .. } => {}
        }
    }

    fn finish(self, steps: &mut Vec<Step>) {
        let Some(root) = self.root else {
            steps.push(Step::Seal { at: "/".into() });
            return;
        };
        steps.extend(self.sealed.into_iter().map(|at| Step::Seal { at }));
        steps.push(Step::EnterRoot { at: root });
    }
}

/// One mount for each overlay, in the order of the steps that bind them.
fn overlays(root: Option<&Source>, entries: &[&Entry]) -> Vec<Step> {
    let sources = entries.iter().filter_map(|entry| match &entry.what {
        What::Bind { source, .. } => Some(source),
        _ => None,
    });
    root.into_iter()
        .chain(sources)
        .filter_map(|source| match source.clone() {
            Source::Overlay { lowers, upper, work } => {
                Some(Step::MountOverlay { lowers, upper, work })
            }
            _ => None,
        })
        .collect()
}

fn devices(at: &Path, steps: &mut Vec<Step>) {
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

/// The layers of an overlay in words, the lowest first.
struct Stack<'a>(&'a [Lower]);

impl fmt::Display for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, lower) in self.0.iter().enumerate() {
            let and = if index > 0 { " and " } else { "" };
            write!(f, "{and}{:?}", lower.path)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MountOverlay { lowers, upper, .. } => {
                write!(f, "mount an overlay of {} with writes in {upper:?}", Stack(lowers))
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
                    Source::Overlay { lowers, .. } => {
                        write!(f, "bind {} at {at:?} {how}", Stack(lowers))
                    }
                }
            }
            Self::KeepWritable { at } => write!(f, "keep {at:?} writable"),
            Self::Place { from, at } => write!(f, "place {from:?} at {at:?}"),
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
            Self::Twin { of, at } => write!(f, "bind the view's {of:?} at {at:?} read-only"),
            Self::LeaveOldRoot => write!(f, "leave the old root"),
            Self::Seal { at } if at == Path::new("/") => write!(f, "make the root read-only"),
            Self::Seal { at } => write!(f, "make {at:?} read-only"),
            Self::EnterRoot { at } => write!(f, "make {at:?} the root"),
            Self::SetHostname { name } => write!(f, "set host name {name:?}"),
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
