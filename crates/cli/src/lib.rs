//! The `atoll` program as a library, so that tests and small programs beside it
//! can use its parts. Nobody else is meant to depend on it.

mod commands;
mod copy;
mod cut;
mod denial;
mod doctor;
mod env;
mod error;
mod exec;
mod explain;
mod gateway;
mod policy;
mod prompt;
#[cfg(test)]
mod reference;
mod remote;
mod review;
mod run;
mod serve;
mod session;
mod signals;
mod status;
pub mod supervise;

use clap::Parser as _;
use commands::run::Begun;
pub use status::Status;
use std::io::Write as _;

/// Help is never set wider than this, in columns.
const TERM_WIDTH_MAX: usize = 100;

/// Give an AI agent a computer of its own on this machine
#[derive(Debug, clap::Parser)]
#[command(name = "atoll", version, max_term_width = TERM_WIDTH_MAX)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// Runs the program: reads the arguments, does the command, tells a failure.
#[must_use]
pub fn main() -> Status {
    let role = std::env::args_os().nth(1);
    if role.as_ref().is_some_and(|role| role == serve::spawner::ROLE) {
        return serve::spawner::run();
    }
    if role.as_ref().is_some_and(|role| role == gateway::role::ROLE) {
        return gateway::role::run();
    }
    let done = if role.is_some_and(|name| name == "run") {
        // The command that is started most and may take least: what it needs is
        // begun before the arguments are read, and only its own are known.
        let begun = Begun::now();
        match commands::run::parse(std::env::args_os().skip(1)) {
            Ok(args) => commands::run::run(args, begun),
            Err(error) => {
                drop(begun);
                error.exit()
            }
        }
    } else {
        Cli::parse().command.run()
    };
    let status = done.unwrap_or_else(|error| error.report());
    // Without Rust's start-up code nobody else does. A closed stdout was told of
    // where it mattered.
    std::io::stdout().flush().ok();
    status
}
