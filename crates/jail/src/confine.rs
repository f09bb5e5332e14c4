//! The walls that close around the workload itself, after the view is made:
//! Landlock, capabilities, no_new_privs, seccomp.

use crate::root;
use crate::seccomp::{Options, Program, Trap, build};
use atoll_sys::seccomp::Listener;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What the workload may do beyond reading and running what it sees.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Directories (or files) below which everything may be written.
    pub writable: Vec<PathBuf>,
    /// Directories below which existing files may be opened for writing, and
    /// devices controlled, but nothing made: `/dev`, `/proc`.
    pub openable: Vec<PathBuf>,
    /// ptrace(2) of the sandbox's own processes is allowed.
    pub ptrace: bool,
    /// New user namespaces are allowed.
    pub nested_userns: bool,
    /// A helper runs beside PID 1, with id 2.
    pub has_helper: bool,
    /// Commands may also run as the root inside: see [`crate::root`].
    pub has_root: bool,
}

/// Why a wall could not be raised.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("this kernel does not enforce Landlock")]
    NoLandlock,
    #[error("cannot name {path:?} in a Landlock rule")]
    Rule { path: PathBuf, source: landlock::PathFdError },
    #[error("cannot make the Landlock rules")]
    Ruleset(#[source] landlock::RulesetError),
    #[error("{call} failed")]
    Call { call: &'static str, source: io::Error },
}

impl ConfineError {
    /// The failed step, for whoever explains it, with the errno.
    #[must_use]
    pub fn step(&self) -> (&'static str, i32) {
        match self {
            Self::NoLandlock | Self::Ruleset(_) | Self::Rule { .. } => ("landlock", 0),
            Self::Call { call, source } => (call, source.raw_os_error().unwrap_or(0)),
        }
    }
}

impl From<landlock::RulesetError> for ConfineError {
    fn from(error: landlock::RulesetError) -> Self {
        Self::Ruleset(error)
    }
}

/// The newest Landlock version whose rights the rules name.
const LANDLOCK: ABI = ABI::V6;

/// The walls, ready to be raised.
#[derive(Debug)]
pub struct Walls {
    /// `None` where the process is in the domain already.
    rules: Option<RulesetCreated>,
    filters: Filters,
}

/// The seccomp filter, assembled while there is time: before the sandbox exists.
#[derive(Debug, Clone)]
pub struct Filters {
    filter: Program,
    listener: Listener,
    /// What to assemble on a kernel that has no listener of the kind we want,
    /// where the run can do without.
    without_listener: Option<Options<'static>>,
}

impl Filters {
    /// Assembles the filter for commands of the root inside. What it makes belongs to ids
    /// that are nobody's on the host, so programs may run as their owners.
    #[must_use]
    pub fn for_root(confinement: &Confinement) -> Self {
        let Confinement { ptrace, nested_userns, has_helper, .. } = *confinement;
        let options =
            Options { ptrace, nested_userns, has_helper, set_id: true, ..Options::default() };
        Self { filter: build(&options), listener: Listener::None, without_listener: None }
    }

    /// Assembles the filter for a run in this confinement with these calls handed
    /// over.
    #[must_use]
    pub fn build(confinement: &Confinement, traps: &[Trap], listening: Listening) -> Self {
        let Confinement { ptrace, nested_userns, has_helper, .. } = *confinement;
        let alone = Options { ptrace, nested_userns, has_helper, ..Options::default() };
        if listening == Listening::Nobody {
            let (filter, listener) = (build(&alone), Listener::None);
            return Self { filter, listener, without_listener: None };
        }
        let performs = listening != Listening::Tells;
        Self {
            filter: build(&Options { listener: true, performs, traps, ..alone }),
            listener: Listener::Killable,
            without_listener: (listening != Listening::Judges).then_some(alone),
        }
    }
}

/// What becomes of the calls that the filter hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// Nothing: no call is handed over, and what is refused fails.
    Nobody,
    /// What is refused is told: an older kernel runs without.
    Tells,
    /// Some are performed that would fail else: an older kernel runs without.
    Performs,
    /// They are judged and performed: without it nothing may run.
    Judges,
}

impl Walls {
    /// Prepares the walls in the finished view, and empties the bounding set of
    /// the calling process on the way, which its children inherit: of all but the
    /// rights of the root inside, if there is one.
    ///
    /// # Errors
    ///
    /// A kernel without Landlock, or a path that cannot be opened.
    pub fn prepare(confinement: &Confinement, filters: Filters) -> Result<Self, ConfineError> {
        let kept = if confinement.has_root { root::RIGHTS } else { 0 };
        atoll_sys::caps::keep_in_bounding_set(kept)
            .map_err(|source| ConfineError::Call { call: "prctl(PR_CAPBSET_DROP)", source })?;
        Ok(Self { rules: Some(rules(confinement)?), filters })
    }

    /// The same walls once more, for another process behind them.
    ///
    /// # Errors
    ///
    /// Out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let rules = self.rules.as_ref().map(RulesetCreated::try_clone).transpose()?;
        Ok(Self { rules, filters: self.filters.clone() })
    }

    /// The same walls with another filter.
    ///
    /// # Errors
    ///
    /// Out of descriptors.
    pub fn with_filters(&self, filters: Filters) -> io::Result<Self> {
        Ok(Self { filters, ..self.try_clone()? })
    }

    /// Has the calling process enter the Landlock domain, for good: all that it starts is
    /// in the same one, and only so may one command signal another or look at it.
    ///
    /// # Errors
    ///
    /// A kernel without Landlock.
    pub fn enter_domain(&mut self) -> Result<(), ConfineError> {
        self.rules.take().map_or(Ok(()), restrict)
    }

    /// Takes the Landlock rules out, for a supervisor that enters their domain
    /// itself and starts the workload in a domain of its own below it. What is
    /// left in their place gives no less right, but a process behind these walls
    /// cannot trace or signal its supervisor.
    ///
    /// # Errors
    ///
    /// A kernel without Landlock.
    pub fn split_domain(&mut self) -> Result<Option<RulesetCreated>, ConfineError> {
        Ok(self.rules.replace(inner_rules()?))
    }

    /// Raises all walls but the filter around the calling thread, for good: for a
    /// process that runs our own code, which uses calls that workloads do without.
    ///
    /// # Errors
    ///
    /// The call that failed; the caller must then end.
    pub fn raise_without_filter(self) -> Result<(), ConfineError> {
        drop_capabilities(0)?;
        self.rules.map_or(Ok(()), restrict)
    }

    /// Raises all walls around the calling thread, for good. Gives the
    /// supervisor's listener if one was asked for.
    ///
    /// # Errors
    ///
    /// The call that failed; the caller must then end.
    pub fn raise(self) -> Result<Option<OwnedFd>, ConfineError> {
        drop_capabilities(0)?;
        self.raise_with_capabilities()
    }

    /// Has the calling thread become the root inside, and raises all walls around it, for
    /// good.
    ///
    /// # Errors
    ///
    /// As [`Walls::raise`].
    pub fn raise_as_root(self) -> Result<(), ConfineError> {
        root::become_root()?;
        self.raise_with_capabilities().map(drop)
    }

    fn raise_with_capabilities(self) -> Result<Option<OwnedFd>, ConfineError> {
        if let Some(rules) = self.rules {
            restrict(rules)?;
        }
        let failed = |source| ConfineError::Call { call: "notify", source };
        let Filters { filter, listener, without_listener } = self.filters;
        match atoll_sys::seccomp::install(&filter.instructions, listener) {
            // Linux before 5.19.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let Some(alone) = without_listener else { return Err(failed(error)) };
                atoll_sys::seccomp::install(&build(&alone).instructions, Listener::None)
                    .map_err(|source| ConfineError::Call { call: "seccomp", source })
            }
            installed => installed.map_err(failed),
        }
    }
}

/// Enters the Landlock domain of `rules`.
///
/// # Errors
///
/// A kernel that does not enforce them.
pub fn restrict(rules: RulesetCreated) -> Result<(), ConfineError> {
    // Sets no_new_privs too.
    let status = rules.restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::NoLandlock);
    }
    Ok(())
}

/// Keeps just these capabilities (bit n is capability n).
///
/// # Errors
///
/// The call that failed.
pub fn drop_capabilities(keep: u64) -> Result<(), ConfineError> {
    atoll_sys::caps::keep_only(keep).map_err(|source| ConfineError::Call { call: "capset", source })
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, ConfineError> {
    let all = AccessFs::from_all(LANDLOCK);
    let read = AccessFs::from_read(LANDLOCK) | AccessFs::Refer;
    let open = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rule(beneath(Path::new("/"), read)?)?;
    for path in &confinement.writable {
        ruleset = ruleset.add_rule(beneath(path, all)?)?;
    }
    for path in &confinement.openable {
        ruleset = ruleset.add_rule(beneath(path, open | AccessFs::ReadDir)?)?;
    }
    Ok(ruleset)
}

/// A domain for the workload below its supervisor's. Scopes alone would do where
/// the kernel has them (Landlock 6); the right to all files is named for those
/// that do not, and so that renames across directories stay possible.
fn inner_rules() -> Result<RulesetCreated, ConfineError> {
    let all = AccessFs::from_all(LANDLOCK);
    Ok(Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rule(beneath(Path::new("/"), all)?)?)
}

fn beneath(path: &Path, access: BitFlags<AccessFs>) -> Result<PathBeneath<PathFd>, ConfineError> {
    let place =
        PathFd::new(path).map_err(|source| ConfineError::Rule { path: path.to_owned(), source })?;
    Ok(PathBeneath::new(place, access))
}
