//! Everything that is decided and opened before the sandbox exists.

use super::caller::{self, Caller};
use super::inside::{Inside, Supervision};
use super::notes::{self, Notes};
use super::repository::Repository;
use super::view::{self, HandedTree, System};
use super::{author, cache, command, environment, image, own, protect, repository, review};
use crate::env;
use crate::error::CliError;
use crate::policy::load::Loaded;
use crate::policy::show;
use crate::supervise::{Restore, Stdio, Stream};
use atoll_api::policy::{EffectivePolicy, WorkspaceMode};
use atoll_guest::init::TerminalSpec;
use atoll_guest::workload::{Standard, Workload};
use atoll_jail::host::Account;
use atoll_jail::spec::What;
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
    stdio: &mut Stdio,
    restore: Restore,
) -> Result<Prepared, CliError> {
    let policy = &loaded.merged.policy;
    let caller = Caller::find(loaded.home.clone());
    let project = project(loaded)?;
    let identity = caller.identity(project.owner);
    let outside_uid = identity.user.outside_uid;
    if outside_uid != caller.uid && !caller::exists(outside_uid) {
        let error = format!("root cannot become user {outside_uid}, who is not in this namespace");
        return Err(CliError::new(error)
            .hint("start atoll as an ordinary user, or give this container a full range of ids"));
    }
    let user_name = caller.name_inside(identity.user.inside_uid);
    let cache_home = cache_home(&caller);
    let written = policy.files.write.iter().map(|grant| grant.value.path.as_path());
    let shown = (policy.workspace.mode.value != WorkspaceMode::None).then_some(&*project.root);
    let mut own = vec![cache_home.clone()];
    own.extend(crate::session::home());
    own::keep_out(shown.into_iter().chain(written), &own)?;
    cache::base(&cache_home)
        .map_err(|error| in_cache("the cache cannot be used", &cache_home, error))?;
    let image = image::root(&policy.image.value, &cache_home)?;
    let account = Account {
        name: user_name.clone(),
        uid: identity.user.inside_uid,
        gid: identity.user.inside_gid,
        home: caller.home.clone(),
        shell: shell(&caller, image.as_deref()),
    };
    let base = cache_home.join("host");
    let etc = atoll_jail::host::etc(&base, &account, HOSTNAME, image.as_deref())
        .map_err(|error| in_cache("the sandbox's /etc cannot be made", &cache_home, error))?;
    let owner = (identity.user.outside_uid, identity.user.outside_gid);
    let cache = cache::open(&cache_home.join("projects"), &project.root, owner)
        .map_err(|error| in_cache("the project's cache cannot be opened", &cache_home, error))?;
    let (ignore, hidden) = loaded
        .scan_hidden()
        .map_err(|error| CliError::new("the hidden files are not known").because(error))?;
    let session = match policy.workspace.mode.value {
        WorkspaceMode::Review => {
            let masked = hidden.iter().map(|hidden| hidden.path.clone()).collect();
            Some(review::start(&project.root, masked, identity.user)?)
        }
        WorkspaceMode::Live | WorkspaceMode::None => None,
    };
    let repository = repository(loaded, &project, &caller);
    let git_files = author::files(&caller.home, env::XDG_CONFIG_HOME.path());
    let view = view::build(&view::Given {
        git_settings: author::settings(&git_files),
        policy,
        repository: repository.as_ref(),
        project: &project,
        identity,
        home: &caller.home,
        system: image.as_deref().map_or(System::Host, System::Image),
        etc: &etc,
        hostname: HOSTNAME,
        cache: Some(&cache),
        hidden: &hidden,
        session: session.as_ref(),
        hands_in: caller.uid == 0,
    })
    .map_err(|error| CliError::new("the root file system cannot be shown").because(error))?;
    let directory = command::directory(Some(&loaded.cwd), shown, &caller.home);
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let environment = environment::build(
        &environment::Given {
            caller: &variables,
            policy: &policy.env,
            home: &caller.home,
            user: &user_name,
            shell: image.as_ref().map(|_| &*account.shell),
            directory: &directory,
        },
        &|path| view::shows(&view.spec, image.as_deref(), path),
    );
    let workload = workload(words, &environment, directory, policy, stdio, restore)?;
    if caller.uid == 0 {
        give_pipes(&workload.standard, owner);
    }
    let masks = view.spec.view.iter().filter_map(|entry| match entry.what {
        What::Mask { kind } => Some((entry.at.clone(), kind)),
        _ => None,
    });
    let masks = masks.collect();
    let mode = policy.workspace.mode.value;
    // Root's overlay renames directories by itself.
    let moved = (mode == WorkspaceMode::Review && caller.uid != 0).then(|| project.root.clone());
    // What is granted is written at once, whatever becomes of the project.
    let is_judged = mode == WorkspaceMode::Live || !policy.files.write.is_empty();
    let supervision = match moved {
        moved if is_judged => Supervision::Judge(protect::rules(policy, &project, ignore)?, moved),
        Some(root) => Supervision::Move(root),
        None => Supervision::Tell,
    };
    let steps = atoll_jail::plan::plan(&view.spec)
        .map_err(|error| CliError::new("the sandbox cannot be planned").because(error))?;
    let terminal = stdio.setup().map(|setup| TerminalSpec {
        settings: setup.termios,
        size: setup.size,
        front: setup.place == crate::supervise::Place::Front,
    });
    Ok(Prepared {
        inside: Inside {
            user: identity.user,
            steps,
            filters: supervision.filters(&view.confinement),
            confinement: view.confinement,
            workload,
            terminal,
            masks,
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
        told: cache.path.with_extension("told"),
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
    CliError::new(what)
        .because(error)
        .hint(format!("{} must be a writable directory of your own", cache.display()))
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
    environment: &environment::Environment,
    directory: PathBuf,
    policy: &EffectivePolicy,
    stdio: &mut Stdio,
    restore: Restore,
) -> Result<Workload, CliError> {
    let strings = environment.strings();
    let path = environment.get("PATH").unwrap_or_default();
    let command = command::lay_out(words, path, &strings)
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
    let caller = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (standard, inherited) in standard.iter().zip(caller) {
        let fd = match standard {
            Standard::Inherit => inherited,
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
