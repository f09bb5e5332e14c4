//! The `atoll` program as a library, so that tests and small programs beside it
//! can use its parts. Nobody else is meant to depend on it.

mod commands;
mod doctor;
mod env;
mod error;
mod explain;
mod policy;
#[cfg(test)]
mod reference;
mod review;
mod run;
mod session;
pub mod supervise;

use clap::Parser;
use std::process::ExitCode;

/// Give an AI agent a computer of its own on this machine
#[derive(Debug, clap::Parser)]
#[command(name = "atoll", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// Runs the program: reads the arguments, does the command, tells a failure.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
