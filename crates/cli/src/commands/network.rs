//! `atoll network`.

use crate::error::CliError;
use crate::remote::{self, Remote};
use crate::status::Status;
use atoll_api::network::NetworkPolicy;
use std::path::PathBuf;

/// What a sandbox may reach.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Reach {
    /// What it may reach: rules, as for `atoll run`; may be repeated
    #[arg(long, value_name = "RULE")]
    allow_host: Vec<String>,
    /// What a person is asked about before it is reached; may be repeated
    #[arg(long, value_name = "RULE")]
    ask_host: Vec<String>,
    /// What it may not reach; may be repeated
    #[arg(long, value_name = "RULE")]
    deny_host: Vec<String>,
    /// A list of hosts that are often allowed together; may be repeated
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// The whole of what it may reach, in JSON as the API has it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["allow_host", "ask_host", "deny_host", "preset"])]
    network: Option<PathBuf>,
}

impl Reach {
    /// The policy, if anything is said.
    pub(super) fn policy(&self) -> Result<Option<NetworkPolicy>, CliError> {
        if let Some(path) = &self.network {
            let told = || CliError::new(format!("cannot use the network of {}", path.display()));
            let text = std::fs::read(path).map_err(|error| told().because(error))?;
            return serde_json::from_slice(&text).map(Some).map_err(|error| told().because(error));
        }
        let (allow, ask) = (self.allow_host.clone(), self.ask_host.clone());
        let (deny, presets) = (self.deny_host.clone(), self.preset.clone());
        if [&allow, &ask, &deny, &presets].iter().all(|list| list.is_empty()) {
            return Ok(None);
        }
        Ok(Some(NetworkPolicy { allow, ask, deny, presets, ..NetworkPolicy::default() }))
    }
}

/// Show and change what a sandbox of a server may reach
///
/// A change holds at once, also for connections that are open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what a sandbox may reach, as JSON; null where it has no network
    Show {
        /// Its id or name
        sandbox: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Have a sandbox reach this and nothing else
    ///
    /// It takes the place of all that was said before: rules, presets, budgets and secrets. A
    /// sandbox that was made without a network gets none.
    ///
    /// Example: atoll network set web --preset python --allow-host api.example.org
    Set {
        /// Its id or name
        sandbox: String,
        #[command(flatten)]
        reach: Reach,
        #[command(flatten)]
        remote: Remote,
    },
    /// Add rules to those of a sandbox
    ///
    /// Of --network, rules, presets and secrets are added, a secret in the place of one of its
    /// name; whatever else is in that file changes nothing. A sandbox that was made without a
    /// network gets none.
    ///
    /// Example: atoll network add web --allow-host api.example.org
    Add {
        /// Its id or name
        sandbox: String,
        #[command(flatten)]
        reach: Reach,
        #[command(flatten)]
        remote: Remote,
    },
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Show { sandbox, remote } => {
            let policy = remote.ask(async |client| client.get_network(&sandbox).await)?;
            remote::answer(&remote, &policy, remote::pretty)
        }
        Command::Set { sandbox, reach, remote } => {
            let policy = reach.policy()?.ok_or_else(nothing_said)?;
            let set = remote.ask(async |client| client.set_network(&sandbox, &policy).await)?;
            remote::answer(&remote, &set, remote::pretty)
        }
        Command::Add { sandbox, reach, remote } => {
            let more = reach.policy()?.ok_or_else(nothing_said)?;
            let set = remote.ask(async |client| {
                let known = client.get_network(&sandbox).await?.unwrap_or_default();
                client.set_network(&sandbox, &with(known, more)).await
            })?;
            remote::answer(&remote, &set, remote::pretty)
        }
    }
}

fn nothing_said() -> CliError {
    CliError::new("nothing is said of what it may reach")
        .hint("give rules, as in --allow-host api.example.org, or --network FILE; {} in that file is nothing")
}

/// A policy with the rules and secrets of another beside its own.
fn with(mut policy: NetworkPolicy, more: NetworkPolicy) -> NetworkPolicy {
    let lists = [
        (&mut policy.presets, more.presets),
        (&mut policy.allow, more.allow),
        (&mut policy.ask, more.ask),
        (&mut policy.deny, more.deny),
    ];
    for (known, more) in lists {
        for one in more {
            if !known.contains(&one) {
                known.push(one);
            }
        }
    }
    for secret in more.secrets {
        policy.secrets.retain(|known| known.name != secret.name);
        policy.secrets.push(secret);
    }
    policy
}
