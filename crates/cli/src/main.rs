//! The `atoll` program.

mod commands;
mod error;

use clap::Parser;
use std::process::ExitCode;

/// Give an AI agent a computer of its own on this machine
#[derive(Debug, clap::Parser)]
#[command(name = "atoll", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
