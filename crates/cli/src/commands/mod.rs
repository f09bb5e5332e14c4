//! One file per command.

mod apply;
mod diff;
mod discard;
mod doctor;
mod policy;
pub(crate) mod run;
mod serve;

use crate::error::CliError;
use crate::status::Status;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Args>),
    Diff(diff::Args),
    Apply(apply::Args),
    Discard(discard::Args),
    Policy(policy::Args),
    Doctor(doctor::Args),
    Serve(serve::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<Status, CliError> {
        match self {
            Self::Run(args) => run::run(*args, run::Begun::now()),
            Self::Diff(args) => diff::run(args),
            Self::Apply(args) => apply::run(args),
            Self::Discard(args) => discard::run(args),
            Self::Policy(args) => policy::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Serve(args) => serve::run(args),
        }
    }
}
