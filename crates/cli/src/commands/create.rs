//! `atoll create`.

use crate::error::CliError;
use crate::remote::{self, Remote};
use crate::status::Status;
use atoll_api::name::SandboxName;
use atoll_api::policy::{Bytes, Cpus, parse_duration};
use atoll_api::sandbox::{CreateSandbox, Env, Lifecycle, Limits};
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
    /// A variable of everything inside, set or passed on; may be repeated
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
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

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let mut wanted = CreateSandbox {
        name: args.name.clone(),
        image: args.image,
        env: Env(args.env.into_iter().collect()),
        labels: args.label.into_iter().collect(),
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
    let made = match args.name.filter(|_| args.get) {
        Some(name) => args.remote.ask(async |client| {
            client.get_or_create_sandbox(&name, &wanted).await.map(|(sandbox, _)| sandbox)
        }),
        None => args.remote.ask(async |client| client.create_sandbox(&wanted, None).await),
    };
    remote::answer(&args.remote, &made?, |sandbox| format!("{}\n", sandbox.id))
}
