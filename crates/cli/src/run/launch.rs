//! The half of a run that stays outside: plan, clone, hand in, wait.

use super::caller::Caller;
use super::inside::{self, Inside};
use super::view::{self, Project};
use super::{cache, command, environment};
use crate::error::CliError;
use atoll_api::policy::EffectivePolicy;
use atoll_guest::message::{FailureKind, MESSAGE_BYTES_MAX, Message};
use atoll_guest::workload::Workload;
use atoll_jail::enter::{self, Side};
use atoll_sys::process::{End, SignalSet};
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// What to run, and under which policy.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Vec<OsString>,
    pub(crate) policy: EffectivePolicy,
}

const HOSTNAME: &str = "atoll";

/// Runs the request's command in a sandbox.
pub(crate) fn run(request: &Request) -> Result<ExitCode, CliError> {
    let caller = Caller::find();
    let root = std::env::current_dir()
        .map_err(|error| CliError::new("the current directory cannot be read").because(error))?;
    let metadata = std::fs::metadata(&root)
        .map_err(|error| CliError::new("the project cannot be read").because(error))?;
    let project = Project {
        root: root.clone(),
        identity: (metadata.dev(), metadata.ino()),
        owner: (metadata.uid(), metadata.gid()),
    };
    let identity = caller.identity(project.owner);
    let user = identity.user;
    let cache_home = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| caller.home.join(".cache"));
    let owner = (user.outside_uid, user.outside_gid);
    let directories = atoll_jail::host::CACHE_DIRECTORIES;
    let cache = cache::open(&cache_home, &project.root, owner, &directories)
        .map_err(|error| CliError::new("the project's cache cannot be opened").because(error))?;
    let user_name = user_name(&caller, user.inside_uid);
    let view = view::build(&view::Given {
        policy: &request.policy,
        project: &project,
        identity,
        home: &caller.home,
        shell: &caller.shell,
        user_name: &user_name,
        hostname: HOSTNAME,
        cache: Some(&cache),
        hands_in: caller.uid == 0,
    });
    let directory = command::directory(Some(&root), Some(&project.root), &caller.home);
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let given = environment::Given {
        caller: &variables,
        policy: &request.policy.env,
        home: &caller.home,
        user: &user_name,
        directory: &directory,
    };
    let environment = environment::build(&given, &|path| view::shows(&view.spec, path));
    let strings = environment.strings();
    let path = environment.get("PATH").unwrap_or_default();
    let command = command::lay_out(&request.command, path, &strings)
        .map_err(|_| CliError::new("an argument of the command has a NUL byte in it"))?;
    let steps = atoll_jail::plan::plan(&view.spec)
        .map_err(|error| CliError::new("the sandbox cannot be planned").because(error))?;
    let inside = Inside {
        user,
        steps,
        confinement: view.confinement,
        workload: Workload {
            programs: command.programs,
            arguments: command.arguments,
            shell_arguments: command.shell_arguments,
            directory,
            signal_mask: SignalSet(0),
            sigpipe_ignored: atoll_sys::startup::sigpipe_was_ignored(),
            closed: [0, 1, 2].map(atoll_sys::startup::was_closed),
            limits: limits(&request.policy),
            umask: rustix::process::umask(rustix::fs::Mode::empty()).as_raw_mode(),
        },
        terminal: None,
    };
    let launched = match enter::enter(None) {
        Ok(Side::Inside(newborn)) => inside::become_init(newborn, &inside),
        Ok(Side::Outside(launched)) => launched,
        Err(error) => return Err(CliError::new("the sandbox cannot be made").because(error)),
    };
    let made =
        |error: enter::EnterError| CliError::new("the sandbox cannot be made").because(error);
    let userns = launched.map(user).map_err(made)?;
    for tree in &view.handed {
        let owners = tree.maps_owners.then(|| userns.as_fd());
        let opened = atoll_jail::tree::clone(&tree.path, tree.expect, owners)
            .map_err(|error| CliError::new("the sandbox cannot be made").because(error))?;
        launched.hand(opened.as_fd()).map_err(made)?;
    }
    launched.go().map_err(made)?;
    loop {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let (length, _fd) = atoll_sys::scm::receive(launched.control.as_fd(), &mut buffer)
            .map_err(|error| CliError::new("the sandbox is lost").because(error))?;
        if length == 0 {
            return Err(CliError::new("the sandbox is lost: its first process ended early"));
        }
        match Message::decode(&buffer[..length]) {
            Ok(Message::Failed(failure)) => {
                let exit = match failure.kind {
                    FailureKind::Jail | FailureKind::Directory => 125,
                    FailureKind::NotFound => 127,
                    FailureKind::NotExecutable => 126,
                };
                return Err(CliError::new(failure.text).exit_with(exit));
            }
            Ok(Message::Ended { end, .. }) => {
                let code = match end {
                    End::Exited(status) => status,
                    End::Signalled(signal) | End::Stopped(signal) => {
                        u8::try_from(128 + signal).unwrap_or(u8::MAX)
                    }
                };
                atoll_sys::process::wait_for(launched.pid).ok();
                return Ok(ExitCode::from(code));
            }
            Ok(_) => {}
            Err(_) => return Err(CliError::new("the sandbox is lost: it sent garbage")),
        }
    }
}

fn user_name(caller: &Caller, inside_uid: u32) -> String {
    let named = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    match named {
        _ if inside_uid == 0 => "root".to_owned(),
        Some(name) if caller.uid == inside_uid && is_plain(&name) => name,
        _ => "user".to_owned(),
    }
}

/// A name that can stand in an account file.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= 32 && name.bytes().all(plain)
}

/// Resource limits that need no control group.
fn limits(policy: &EffectivePolicy) -> Vec<(Resource, Rlimit)> {
    let mut limits = Vec::new();
    if let Some(pids) = policy.limits.pids.value {
        let most = Some(u64::from(pids));
        limits.push((Resource::Nproc, Rlimit { current: most, maximum: most }));
    }
    if let Some(files) = policy.limits.open_files.value {
        let now = rustix::process::getrlimit(Resource::Nofile);
        let cut = |value: Option<u64>| Some(value.unwrap_or(u64::MAX).min(u64::from(files)));
        let limit = Rlimit { current: cut(now.current), maximum: cut(now.maximum) };
        limits.push((Resource::Nofile, limit));
    }
    limits
}
