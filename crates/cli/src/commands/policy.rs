//! `atoll policy`: shows the policy in force, and explains what it means for a path or a
//! destination.

use crate::error::CliError;
use crate::explain::explain;
use crate::explain::network::{self, Destination};
use crate::policy::{PolicyFlags, load, presets, show};
use crate::status::Status;
use std::ffi::OsString;
use std::io::Write as _;

/// Show and explain the policy
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    Show(Box<ShowArgs>),
    Explain(Box<ExplainArgs>),
    Presets(PresetsArgs),
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
    command: Vec<OsString>,
}

/// Say what a path or a destination may be used for inside, and by which rule
///
/// A path is one of the host and need not exist. Links are resolved: the answer is
/// about the place that the path leads to. A destination is a URL or HOST:PORT; nothing is
/// looked up for it.
///
/// Example: atoll policy explain --workspace review .git/hooks/pre-commit
///
/// Example: atoll policy explain --preset python https://pypi.org/simple/
#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The path, from the current directory; or https://HOST/PATH, tcp://HOST:PORT or HOST:PORT
    #[arg(value_name = "PATH|URL")]
    what: OsString,
    /// The method of a request to the URL [default: GET]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyFlags,
}

/// List the presets of the network, or print one with its reasons
///
/// A preset is a list of hosts that are often allowed together: --preset NAME, or
/// network.presets in a policy.
///
/// Example: atoll policy presets python
#[derive(Debug, clap::Args)]
struct PresetsArgs {
    /// The one to print
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        PolicyCommand::Show(args) => {
            let loaded = load(&args.policy)?;
            let (_, hidden) = loaded.scan_hidden()?;
            if args.json {
                return print(&show::json(&loaded, &hidden));
            }
            warn(&show::warnings(&loaded, &hidden));
            print(&show::text(&loaded, &hidden))
        }
        PolicyCommand::Explain(args) => {
            let loaded = load(&args.policy)?;
            let is_file = std::fs::symlink_metadata(loaded.cwd.join(&args.what)).is_ok();
            let destination = Destination::parse(&args.what, args.method.as_deref(), is_file)?;
            if let Some(destination) = destination {
                let said = &loaded.merged.policy.network;
                let explanation = network::explain(&loaded.network, said, &destination);
                if args.json {
                    return print(&explanation.json());
                }
                warn(&show::warnings(&loaded, &[]));
                return print(&explanation.text());
            }
            let explanation = explain(&loaded, args.what.as_ref())?;
            if args.json {
                return print(&explanation.json());
            }
            warn(&show::warnings(&loaded, &[]));
            print(&explanation.text())
        }
        PolicyCommand::Presets(args) => print(&presets::print(args.name.as_deref(), args.json)?),
    }
}

fn warn(warnings: &[String]) {
    let text: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

fn print(text: &str) -> Result<Status, CliError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough, as `head` does, is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::new("cannot write to standard output").because(error))
        }
        Ok(()) | Err(_) => Ok(Status::SUCCESS),
    }
}
