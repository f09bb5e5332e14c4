//! The developer's one command: `cargo xtask TASK`. One file per task.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a build tool talks to the person who started it"
)]

mod bench;
mod ci;
mod descendants;
mod escapes;
mod layers;
mod process;
mod program;
mod sdk;
mod served;
mod setup;
mod skips;
mod soak;
mod tidy;
mod workspace;

use clap::Parser;
use std::process::ExitCode;

/// Build, check and measure Atoll
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask")]
enum Task {
    Bench(bench::Args),
    Ci(ci::Args),
    Escapes(escapes::Args),
    Setup(setup::Args),
    Soak(soak::Args),
    Layers(layers::Args),
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Bench(args) => bench::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Escapes(args) => escapes::run(&args),
        Task::Setup(args) => setup::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Layers(args) => layers::run(&args),
        Task::Tidy(args) => tidy::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
