//! `atoll create`.

use super::network::Reach;
use crate::error::CliError;
use crate::remote::workspace::{Packing, Source};
use crate::remote::{self, Remote};
use crate::status::Status;
use atoll_api::exec::ExecPattern;
use atoll_api::name::SandboxName;
use atoll_api::policy::{Bytes, Cpus, parse_duration};
use atoll_api::sandbox::{CreateSandbox, Env, Lifecycle, Limits};
use atoll_store::pack::{LeftOut, PackError};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Make a sandbox that outlives a command
///
/// Prints its id when it runs. A command that is interrupted before leaves none.
///
/// Example: atoll create web --memory 2GiB --idle-stop 30m
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A name, to call it by
    name: Option<SandboxName>,
    /// Give the sandbox of that name if there is one, as it is
    #[arg(long, requires = "name")]
    get: bool,
    /// The root file system: host, or a directory of the server's machine
    #[arg(long, value_name = "IMAGE", default_value = "host")]
    image: String,
    /// The files that it begins with: a directory, which is sent without what its ignore files
    /// hide, or the URL of a repository; they come to /home/user/workspace
    #[arg(long, value_name = "PATH|URL")]
    workspace: Option<String>,
    /// The branch of a repository that is cloned
    #[arg(long, value_name = "NAME", requires = "workspace")]
    branch: Option<String>,
    /// A variable of everything inside, set or passed on; may be repeated
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Commands that are run in it only when a person approves, as in 'git push *'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exec_ask: Vec<ExecPattern>,
    #[command(flatten)]
    reach: Reach,
    /// Memory of all processes together, as in 2GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Share of processors, as in 1.5
    #[arg(long, value_name = "N")]
    cpus: Option<Cpus>,
    /// Processes and threads at once
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Space on disk beyond the image, as in 4GiB
    #[arg(long, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// Delete it after this time unless the lease is renewed, as in 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lease: Option<Duration>,
    /// Stop it when nothing worked inside for this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle_stop: Option<Duration>,
    /// Delete it when it was stopped for this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delete_after: Option<Duration>,
    /// Delete it after this time, whatever happens
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_lifetime: Option<Duration>,
    #[command(flatten)]
    remote: Remote,
}

/// `NAME=VALUE`, or `NAME` with the value that it has here.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    match std::env::var(text) {
        Ok(value) => Ok((text.to_owned(), value)),
        Err(error) => Err(format!("{text}: {error}")),
    }
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn cannot_send(directory: &Path, error: &PackError) -> CliError {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    CliError::new(format!("cannot send the workspace {}", directory.display()))
        .because(format!("{error}: {source}"))
        .hint("no sandbox was made; try again when nothing changes in the directory")
}

/// Says what is missing in the workspace.
fn tell(left_out: &LeftOut) {
    let mut text: String = left_out
        .names
        .iter()
        .map(|(name, reason)| format!("atoll: left out {}: {reason}\n", name.display()))
        .collect();
    let more = left_out.count.saturating_sub(left_out.names.len() as u64);
    if more > 0 {
        text += &format!("atoll: left out {more} more\n");
    }
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let network = args.reach.policy()?;
    let mut wanted = CreateSandbox {
        name: args.name.clone(),
        image: args.image,
        env: Env(args.env.into_iter().collect()),
        labels: args.label.into_iter().collect(),
        exec_ask: args.exec_ask,
        network,
        ..CreateSandbox::default()
    };
    wanted.limits = Limits {
        memory_bytes: args.memory.map(|size| size.0),
        cpus_milli: args.cpus.map(|cpus| u64::from(cpus.milli)),
        pids: args.pids,
        disk_bytes: args.disk.map(|size| size.0),
    };
    wanted.lifecycle = Lifecycle {
        lease_ms: args.lease.map(ms),
        idle_stop_ms: args.idle_stop.map(ms),
        delete_after_ms: args.delete_after.map(ms),
        max_lifetime_ms: args.max_lifetime.map(ms),
    };
    let source = match &args.workspace {
        Some(text) => Some(Source::parse(text, args.branch.as_deref())?),
        None => None,
    };
    wanted.workspace = source.as_ref().map(Source::wanted);
    let get = args.name.filter(|_| args.get);
    if let Some(Source::Directory(directory)) = source {
        let (upload, packed) = Packing::begin(&directory)?.split();
        let made = args
            .remote
            .ask(async |client| client.create_sandbox_with(&wanted, get.as_ref(), upload).await);
        let left_out = match packed() {
            Ok(left_out) => left_out,
            // Nobody took it any more, which the answer explains.
            Err(PackError::Write(_)) => LeftOut::default(),
            Err(error) => return Err(cannot_send(&directory, &error)),
        };
        tell(&left_out);
        return remote::answer(&args.remote, &made?, |sandbox| format!("{}\n", sandbox.id));
    }
    let made = match get {
        Some(name) => args.remote.ask(async |client| {
            client.get_or_create_sandbox(&name, &wanted).await.map(|(sandbox, _)| sandbox)
        }),
        None => args.remote.ask(async |client| client.create_sandbox(&wanted, None).await),
    };
    remote::answer(&args.remote, &made?, |sandbox| format!("{}\n", sandbox.id))
}
