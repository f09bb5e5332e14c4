//! Everything that is decided and opened before the sandbox exists.

use super::cache::Cache;
use super::caller::{self, Caller, Identity};
use super::environment::Environment;
use super::foreign::Owned;
use super::inside::{Inside, Reaches, Supervision};
use super::masker::Mask;
use super::network::Network;
use super::notes::{self, Notes};
use super::repository::Repository;
use super::view::{self, HandedTree, System, View};
use super::{author, cache, environment, image, own, protect, repository, review, secrets};
use crate::env;
use crate::error::CliError;
use crate::policy::ignore::{Hidden, IgnoreSet};
use crate::policy::load::Loaded;
use crate::policy::show;
use crate::supervise::{Restore, Stdio, Stream};
use atoll_api::policy::{EffectivePolicy, WorkspaceMode};
use atoll_guest::init::TerminalSpec;
use atoll_guest::workload::{Leads, Standard, Workload};
use atoll_jail::host::{Account, Names};
use atoll_jail::spec::{Entry, What};
use atoll_store::secret::Value;
use atoll_store::session::Session;
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Name of the machine inside.
pub(super) const HOSTNAME: &str = "atoll";

/// A run that only has to be made.
pub(super) struct Prepared {
    pub(super) inside: Inside,
    pub(super) trees: Trees,
    /// The review session, where the project is under review.
    pub(super) session: Option<Session>,
    pub(super) notes: Notes,
    /// What is odd about the policy and what it hides.
    pub(super) warnings: Vec<String>,
    /// The file that remembers that the notes were told.
    pub(super) told: PathBuf,
    pub(super) owned: Option<Owned>,
}

/// Trees of the host that the launcher opens.
pub(super) struct Trees {
    pub(super) handed: Vec<HandedTree>,
    /// Those that need the sandbox's user namespace.
    pub(super) late: Vec<HandedTree>,
}

/// Plans the run of `words` under the policy.
pub(super) fn prepare(
    words: &[OsString],
    loaded: &Loaded,
    network: Option<&Network>,
    stdio: &mut Stdio,
    restore: Restore,
) -> Result<Prepared, CliError> {
    let ground = Ground::find(loaded)?;
    let kept = Kept::open(&ground)?;
    let (ignore, hidden) = loaded
        .scan_hidden()
        .map_err(|error| CliError::new("the hidden files are not known").because(error))?;
    let session = ground.session(&hidden)?;
    let certificate = network.map(Network::certificate);
    let secrets = secrets::files(&ground.policy.network)?;
    let view = ground.view(&kept, &hidden, session.as_ref(), certificate, &secrets)?;
    let directory = environment::directory(Some(&loaded.cwd), ground.shown(), &ground.caller.home);
    let mut environment = ground.environment(&kept, &view, &directory);
    for (name, value) in network.iter().flat_map(|network| network.variables()) {
        environment.set(&name, &value);
    }
    let workload = workload(words, &environment, directory, ground.policy, stdio, restore)?;
    if ground.caller.uid == 0 {
        give_pipes(&workload.standard, ground.owner());
    }
    let supervision = ground.supervision(ignore)?;
    let reaches = if network.is_some() { Reaches::Gateway } else { Reaches::Nothing };
    let steps = atoll_jail::plan::plan(&view.spec)
        .map_err(|error| CliError::new("the sandbox cannot be planned").because(error))?;
    Ok(Prepared {
        inside: Inside {
            user: ground.identity.user,
            steps,
            filters: supervision.filters(&view.confinement, reaches),
            masks: masks(&view),
            confinement: view.confinement,
            workload,
            terminal: terminal(stdio),
            supervision,
        },
        trees: Trees { handed: view.handed, late: view.late },
        session,
        notes: Notes {
            variables: environment.dropped,
            path: environment.hidden_path,
            hidden: notes::hidden_paths(&hidden),
        },
        warnings: show::warnings(loaded, &hidden),
        told: kept.cache.path.with_extension("told"),
        owned: ground.owned(),
    })
}

/// What a run stands on: who asks for it, for what project, and whom the command becomes.
struct Ground<'a> {
    loaded: &'a Loaded,
    policy: &'a EffectivePolicy,
    caller: Caller,
    project: view::Project,
    identity: Identity,
}

/// What lies in the caller's cache between runs.
struct Kept {
    image: Option<PathBuf>,
    account: Account,
    /// The directory that becomes `/etc`.
    etc: PathBuf,
    /// The project's own.
    cache: Cache,
}

impl Kept {
    fn open(ground: &Ground<'_>) -> Result<Self, CliError> {
        let Ground { policy, caller, identity, .. } = ground;
        let home = cache_home(caller);
        let written = policy.files.write.iter().map(|grant| grant.value.path.as_path());
        let mut own = vec![home.clone()];
        own.extend(crate::session::home());
        own::keep_out(ground.shown().into_iter().chain(written), &own)?;
        cache::base(&home).map_err(|error| in_cache("the cache cannot be used", &home, error))?;
        let image = image::root(&policy.image.value, &home)?;
        let account = Account {
            name: caller.name_inside(identity.user.inside_uid),
            uid: identity.user.inside_uid,
            gid: identity.user.inside_gid,
            home: caller.home.clone(),
            shell: shell(caller, image.as_deref()),
        };
        let etc = atoll_jail::host::etc(
            &home.join("host"),
            &account,
            Names::Fixed(HOSTNAME),
            image.as_deref(),
        )
        .map_err(|error| in_cache("the sandbox's /etc cannot be made", &home, error))?;
        let cache = cache::open(&home.join("projects"), &ground.project.root, ground.owner())
            .map_err(|error| in_cache("the project's cache cannot be opened", &home, error))?;
        Ok(Self { image, account, etc, cache })
    }
}

impl<'a> Ground<'a> {
    fn find(loaded: &'a Loaded) -> Result<Self, CliError> {
        let caller = Caller::find(loaded.home.clone());
        let project = project(loaded)?;
        let identity = caller.identity(project.owner);
        let uid = identity.user.outside_uid;
        if uid != caller.uid && !caller::exists(uid) {
            let error = format!("root cannot become user {uid}, who is not in this namespace");
            return Err(CliError::new(error).hint(
                "start atoll as an ordinary user, or give this container a full range of ids",
            ));
        }
        if caller.uid == 0 && !caller::has_roots_rights() {
            let error = "root without its capabilities cannot become the project's owner";
            return Err(CliError::new(error).hint(
                "start atoll as an ordinary user, or keep CAP_CHOWN, CAP_SETUID and CAP_SETGID",
            ));
        }
        Ok(Self { loaded, policy: &loaded.merged.policy, caller, project, identity })
    }

    /// Uid and gid, on the host, of whom the command becomes.
    fn owner(&self) -> (u32, u32) {
        (self.identity.user.outside_uid, self.identity.user.outside_gid)
    }

    /// Whose files are the command's own, where that differs from outside.
    fn owned(&self) -> Option<Owned> {
        let is_less =
            self.caller.uid == 0 || self.policy.workspace.mode.value == WorkspaceMode::Review;
        let uid = if self.identity.maps_project { 0 } else { self.identity.user.outside_uid };
        self.shown().filter(|_| is_less).map(|root| Owned { root: root.to_owned(), uid })
    }

    /// The project's directory, if the command sees it.
    fn shown(&self) -> Option<&Path> {
        let mode = self.policy.workspace.mode.value;
        (mode != WorkspaceMode::None).then_some(&*self.project.root)
    }

    /// A session of its own, if the project is under review.
    fn session(&self, hidden: &[Hidden]) -> Result<Option<Session>, CliError> {
        match self.policy.workspace.mode.value {
            WorkspaceMode::Review => {
                let masked = hidden.iter().map(|hidden| hidden.path.clone()).collect();
                let apply = &self.policy.workspace.apply;
                review::start(&self.project.root, masked, apply, self.identity.user).map(Some)
            }
            WorkspaceMode::Live | WorkspaceMode::None => Ok(None),
        }
    }

    /// What the command sees.
    fn view(
        &self,
        kept: &Kept,
        hidden: &[Hidden],
        session: Option<&Session>,
        certificate: Option<&str>,
        secrets: &[(PathBuf, Value)],
    ) -> Result<View, CliError> {
        let home = &self.caller.home;
        let repository = repository(self.loaded, &self.project, &self.caller);
        let git_files = author::files(home, env::XDG_CONFIG_HOME.path());
        view::build(&view::Given {
            git_settings: author::settings(&git_files),
            policy: self.policy,
            repository: repository.as_ref(),
            project: &self.project,
            identity: self.identity,
            home,
            system: kept.image.as_deref().map_or(System::Host, System::Image),
            etc: &kept.etc,
            hostname: HOSTNAME,
            cache: Some(&kept.cache),
            hidden,
            session,
            hands_in: self.caller.uid == 0,
            certificate,
            secrets,
        })
        .map_err(|error| CliError::new("the root file system cannot be shown").because(error))
    }

    /// The command's variables.
    fn environment(&self, kept: &Kept, view: &View, directory: &Path) -> Environment {
        let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let image = kept.image.as_deref();
        environment::build(
            &environment::Given {
                caller: &variables,
                policy: &self.policy.env,
                home: &self.caller.home,
                user: &kept.account.name,
                shell: image.map(|_| &*kept.account.shell),
                directory,
            },
            &|path| view::shows(&view.spec, image, path),
        )
    }

    /// What PID 1 does about the command's calls.
    fn supervision(&self, ignore: IgnoreSet) -> Result<Supervision, CliError> {
        let Self { policy, project, .. } = self;
        let mode = policy.workspace.mode.value;
        // Root's overlay renames directories by itself.
        let is_moved = mode == WorkspaceMode::Review && self.caller.uid != 0;
        let moved = is_moved.then(|| project.root.clone());
        // What is granted is written at once, whatever becomes of the project.
        let is_judged = mode == WorkspaceMode::Live || !policy.files.write.is_empty();
        Ok(match moved {
            moved if is_judged => {
                Supervision::Judge(protect::rules(policy, project, ignore)?, moved)
            }
            Some(root) => Supervision::Move(root),
            None => Supervision::Tell,
        })
    }
}

fn masks(view: &View) -> Vec<Mask> {
    let mask = |entry: &Entry| match entry.what {
        What::Mask { kind } => Some((entry.at.clone(), kind)),
        _ => None,
    };
    view.spec.view.iter().filter_map(mask).collect()
}

fn terminal(stdio: &Stdio) -> Option<TerminalSpec> {
    stdio.setup().map(|setup| TerminalSpec {
        settings: setup.termios,
        size: setup.size,
        front: setup.place == crate::supervise::Place::Front,
    })
}

/// The caller's shell; an image may lack it.
fn shell(caller: &Caller, image: Option<&Path>) -> PathBuf {
    let below = caller.shell.strip_prefix("/").unwrap_or(&caller.shell);
    match image {
        Some(root) if root.join(below).symlink_metadata().is_err() => "/bin/sh".into(),
        _ => caller.shell.clone(),
    }
}

fn in_cache(what: &str, cache: &Path, error: std::io::Error) -> CliError {
    let mut hint = format!("{} must be a writable directory of your own", cache.display());
    if env::HOME.path().is_none() && env::XDG_CACHE_HOME.path().is_none() {
        hint += "; HOME, which says where it lies, is not set";
    }
    CliError::new(what).because(error).hint(hint)
}

/// Where what is kept between runs lies.
pub(super) fn cache_home(caller: &Caller) -> PathBuf {
    env::XDG_CACHE_HOME.path().unwrap_or_else(|| caller.home.join(".cache")).join("atoll")
}

/// The project's repository, where it lies outside and the project is shown.
pub(super) fn repository(
    loaded: &Loaded,
    project: &view::Project,
    caller: &Caller,
) -> Option<Repository> {
    match loaded.merged.policy.workspace.mode.value {
        WorkspaceMode::None => None,
        WorkspaceMode::Live | WorkspaceMode::Review => {
            repository::outside(&project.root, project.owner.0, Some(&caller.home))
        }
    }
}

pub(super) fn project(loaded: &Loaded) -> Result<view::Project, CliError> {
    let stat = rustix::fs::statat(loaded.project.fd.as_fd(), "", rustix::fs::AtFlags::EMPTY_PATH)
        .map_err(|error| CliError::new("the project cannot be read").because(error))?;
    Ok(view::Project {
        root: loaded.project.root.clone(),
        identity: (loaded.project.dev, loaded.project.ino),
        owner: (stat.st_uid, stat.st_gid),
    })
}

fn workload(
    words: &[OsString],
    environment: &Environment,
    directory: PathBuf,
    policy: &EffectivePolicy,
    stdio: &mut Stdio,
    restore: Restore,
) -> Result<Workload, CliError> {
    let strings = environment.strings();
    let path = environment.get("PATH").unwrap_or_default();
    let command = atoll_guest::command::lay_out(words, path, &strings)
        .map_err(|_| CliError::new("an argument of the command has a NUL byte in it"))?;
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    Ok(Workload {
        programs: command.programs,
        arguments: command.arguments,
        shell_arguments: command.shell_arguments,
        directory,
        restore_signals: Box::new(move || restore.apply()),
        standard: standard(stdio)?,
        limits: limits(policy),
        umask: umask.as_raw_mode(),
        leads: Leads::Group,
    })
}

/// What the command's descriptors are; one that was closed for us is closed for
/// it.
fn standard(stdio: &Stdio) -> Result<[Standard; 3], CliError> {
    let mut standard = [Standard::Inherit, Standard::Inherit, Standard::Inherit];
    for (number, slot) in (0_u8..).zip(&mut standard) {
        if atoll_sys::startup::was_closed(number) {
            *slot = Standard::Closed;
            continue;
        }
        *slot = match &stdio.streams[usize::from(number)] {
            Stream::Inherit => {
                own::standard_is_a_stream(number, standard_of_ours(number))?;
                Standard::Inherit
            }
            Stream::Terminal => Standard::Terminal,
            Stream::Pipe(end) => Standard::Descriptor(
                end.try_clone()
                    .map_err(|error| CliError::new("out of descriptors").because(error))?,
            ),
        };
    }
    Ok(standard)
}

/// `PIPEFS_MAGIC`, linux/magic.h: a pipe without a name.
const PIPE_MAGIC: u64 = 0x5049_5045;

/// Gives root's pipes to the workload's user, who else could use them but not
/// open them by a name such as `/dev/stdout`. Root loses nothing by it.
fn give_pipes(standard: &[Standard; 3], (uid, gid): (u32, u32)) {
    for (number, standard) in (0_u8..).zip(standard) {
        let fd = match standard {
            Standard::Inherit => standard_of_ours(number),
            Standard::Descriptor(fd) => fd.as_fd(),
            Standard::Terminal | Standard::Closed => continue,
        };
        let is_pipe = rustix::fs::fstatfs(fd)
            .is_ok_and(|found| u64::try_from(found.f_type) == Ok(PIPE_MAGIC));
        if is_pipe {
            let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
            // Where it fails the command still has its descriptors.
            rustix::fs::fchown(fd, Some(uid), Some(gid)).ok();
        }
    }
}

fn standard_of_ours(number: u8) -> BorrowedFd<'static> {
    match number {
        0 => rustix::stdio::stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}

/// Resource limits that need no control group.
fn limits(policy: &EffectivePolicy) -> Vec<(Resource, Rlimit)> {
    let mut limits = Vec::new();
    if let Some(pids) = policy.limits.pids.value {
        limits.push((Resource::Nproc, lowered(Resource::Nproc, pids.into())));
    }
    if let Some(files) = policy.limits.open_files.value {
        limits.push((Resource::Nofile, lowered(Resource::Nofile, files.into())));
    }
    limits
}

/// A limit of `most`, or of what the caller has where that is less: the workload may
/// not raise it, getrlimit(2).
pub(super) fn lowered(resource: Resource, most: u64) -> Rlimit {
    let now = rustix::process::getrlimit(resource);
    let cut = |value: Option<u64>| Some(value.unwrap_or(u64::MAX).min(most));
    Rlimit { current: cut(now.current), maximum: cut(now.maximum) }
}
