//! `atoll policy`: shows the policy in force, and explains what it means for a path.

use crate::error::CliError;
use crate::policy::{PolicyFlags, load, show};
use std::io::Write as _;
use std::process::ExitCode;

/// Show and explain the policy
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    Show(Box<ShowArgs>),
}

/// Show the policy in force and where each value came from
///
/// Takes the flags of `atoll run`, so that putting `policy show` in the place of `run`
/// shows what that command would get.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyFlags,
    /// Ignored, so that the rest of an `atoll run` line may stay
    #[arg(last = true, hide = true)]
    command: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    match args.command {
        PolicyCommand::Show(args) => {
            let loaded = load(&args.policy)?;
            if args.json {
                print(&show::json(&loaded))
            } else {
                print_with_warnings(&show::text(&loaded), &loaded)
            }
        }
    }
}

fn print_with_warnings(text: &str, loaded: &crate::policy::Loaded) -> Result<ExitCode, CliError> {
    let warnings: String =
        loaded.merged.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(warnings.as_bytes()).ok();
    print(text)
}

fn print(text: &str) -> Result<ExitCode, CliError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough, as `head` does, is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::new("cannot write to standard output").because(error))
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}
