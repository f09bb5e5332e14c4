//! Flags that say what a sandbox is to be like, whatever it is made of.

use super::budget::together;
use super::network::Reach;
use super::volume;
use crate::error::CliError;
use crate::policy::load::exec_ask;
use atoll_api::budget::Budget;
use atoll_api::exec::ExecPattern;
use atoll_api::policy::{Bytes, Cpus, parse_duration};
use atoll_api::sandbox::{CreateSandbox, Env, Lifecycle, Limits};
use atoll_api::volume::VolumeMount;
use std::path::PathBuf;
use std::time::Duration;

/// What everything inside has, and what the sandbox may.
#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    /// A variable of everything inside, set or passed on; may be repeated
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Commands that are run in it only when a person approves, as in 'git push *', beside those
    /// of exec.ask in your own policy; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exec_ask: Vec<ExecPattern>,
    /// A policy file whose exec.ask counts too
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Leave the user's own policy file out
    #[arg(long)]
    no_user_policy: bool,
    #[command(flatten)]
    reach: Reach,
    /// Show a volume in it: NAME:/PATH to write alone, NAME:/PATH:ro to read, NAME:/PATH:shared to
    /// write beside others; may be repeated
    #[arg(long, value_name = "NAME:/PATH[:ACCESS]", value_parser = volume::mount)]
    volume: Vec<VolumeMount>,
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
    /// How much it may use in its whole life, as in cpu=2h, memory=4GiB*8h, sent=1GiB or
    /// received=1GiB: then it is stopped; may be repeated
    #[arg(long, value_name = "AMOUNT", value_parser = Budget::parse_amount)]
    budget: Vec<Budget>,
    /// Delete it after this time unless the lease is renewed, as in 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lease: Option<Duration>,
    /// Stop it when nothing worked inside for this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle_stop: Option<Duration>,
    /// Archive it when it was stopped for this time; the server needs a place for archives
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    archive_after: Option<Duration>,
    /// Delete it when it was stopped for this time, archived or not
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delete_after: Option<Duration>,
    /// Delete it after this time, whatever happens
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_lifetime: Option<Duration>,
}

/// `NAME=VALUE`, or `NAME` with the value that it has here.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    match std::env::var(text) {
        Ok(value) => Ok((text.to_owned(), value)),
        Err(error) => Err(format!("{text}: {error}")),
    }
}

pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Wanted {
    /// The request, which says nothing of what the sandbox is made of.
    pub(crate) fn request(self) -> Result<CreateSandbox, CliError> {
        let network = self.reach.policy()?;
        let mut asked = exec_ask(self.policy.as_deref(), self.no_user_policy)?;
        for pattern in self.exec_ask {
            if !asked.contains(&pattern) {
                asked.push(pattern);
            }
        }
        Ok(CreateSandbox {
            env: Env(self.env.into_iter().collect()),
            labels: self.label.into_iter().collect(),
            exec_ask: asked,
            network,
            volumes: self.volume,
            limits: Limits {
                memory_bytes: self.memory.map(|size| size.0),
                cpus_milli: self.cpus.map(|cpus| u64::from(cpus.milli)),
                pids: self.pids,
                disk_bytes: self.disk.map(|size| size.0),
            },
            lifecycle: Lifecycle {
                lease_ms: self.lease.map(ms),
                idle_stop_ms: self.idle_stop.map(ms),
                archive_after_ms: self.archive_after.map(ms),
                delete_after_ms: self.delete_after.map(ms),
                max_lifetime_ms: self.max_lifetime.map(ms),
            },
            budget: together(&self.budget)?,
            ..CreateSandbox::default()
        })
    }
}
