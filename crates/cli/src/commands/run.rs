//! `atoll run`.

use crate::error::CliError;
use crate::policy::{PolicyFlags, load};
use crate::run::{Request, explained, pass, run as run_request};
use crate::status::Status;
use atoll_sys::netns::Preparing;
use clap::{Args as _, Command, FromArgMatches as _};
use std::ffi::OsString;
use std::io::Write as _;

/// Run a command in a sandbox
///
/// The project around the current directory is there, writable but for names that run
/// code on the host later; HOME is private, with toolchains; there is no network but
/// loopback. The exit status is the command's own: 124 after a timeout, 125 when atoll
/// failed, 126 and 127 when the command cannot be run or found, 128+n after a signal.
///
/// Of the environment only harmless variables come along, of PATH only what is shown
/// inside. On a terminal the first run in a project says how much stays outside;
/// --verbose lists it, and --json has it under "environment" and "hidden".
///
/// Example: atoll run -- npm test
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print how it went as one JSON object, the last line on stderr
    #[arg(long)]
    json: bool,
    /// List what stays outside: variables, directories of PATH, hidden paths
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    policy: PolicyFlags,
    /// The command and its arguments
    // What begins with a dash before the command is a flag, known or not: a
    // mistyped one must not become the command.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The arguments of `atoll run`, whose first is `run`.
///
/// The same as by way of the whole program's, without making those of all other
/// commands first.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Args, clap::error::Error> {
    let mut command = alone();
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn alone() -> Command {
    let command = Command::new("run").bin_name("atoll run").max_term_width(crate::TERM_WIDTH_MAX);
    Args::augment_args(command)
}

/// What takes a run longest and needs no argument.
pub(crate) struct Begun {
    started_us: u64,
    network: std::io::Result<Preparing>,
}

impl Begun {
    pub(crate) fn now() -> Self {
        let started_us = atoll_guest::workload::now_us();
        Self { started_us, network: atoll_sys::netns::prepare_undecided() }
    }
}

pub(crate) fn run(args: Args, begun: Begun) -> Result<Status, CliError> {
    let Begun { started_us, network } = begun;
    let network = network.map_err(unstarted)?;
    let loaded = load(&args.policy)?;
    pass(&loaded, &args.command)?;
    let request = Request {
        command: &args.command,
        loaded: &loaded,
        started_us,
        network,
        is_verbose: args.verbose,
        is_json: args.json,
    };
    let report = run_request(request)?;
    let mut text = String::new();
    if args.json {
        text += &report.json();
        text.push('\n');
    } else {
        if let Some(error) = report.error() {
            text += &error.text();
        }
        for line in report.lines() {
            text += &line;
            text.push('\n');
        }
    }
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
    // A shell's loop ends with Ctrl-C only if its command dies of it.
    report.outcome.pass_interrupt_on();
    Ok(Status::from(report.exit_status()))
}

/// Not even a first process could be started.
fn unstarted(error: std::io::Error) -> CliError {
    let errno = error.raw_os_error().unwrap_or(0);
    explained(CliError::new("the sandbox cannot be made").because(error), "clone", errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Help, usage and errors as by way of the whole program.
    #[test]
    fn the_command_alone_is_the_one_of_the_whole_program() {
        let mut whole = crate::Cli::command();
        whole.build();
        let of_whole = whole.find_subcommand_mut("run").unwrap();
        let mut alone = alone();
        alone.build();
        assert_eq!(alone.render_help().to_string(), of_whole.render_help().to_string());
        assert_eq!(alone.render_long_help().to_string(), of_whole.render_long_help().to_string());
        for wrong in [&["run"][..], &["run", "--hid"], &["run", "--memory", "x", "--", "true"]] {
            let arguments = ["atoll"].iter().chain(wrong);
            let of_whole = crate::Cli::command().try_get_matches_from(arguments).unwrap_err();
            let alone = parse(wrong.iter().map(OsString::from)).unwrap_err();
            assert_eq!(alone.to_string(), of_whole.to_string());
        }
    }
}
