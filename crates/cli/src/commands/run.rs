//! `atoll run`.

use crate::error::CliError;
use crate::policy::{PolicyFlags, load};
use crate::run::{Request, explained, run as run_request};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

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

pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    let started_us = atoll_guest::workload::now_us();
    let network = atoll_sys::netns::prepare().map_err(unstarted)?;
    let loaded = load(&args.policy)?;
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
    Ok(ExitCode::from(report.exit_status()))
}

/// Not even a first process could be started.
fn unstarted(error: std::io::Error) -> CliError {
    let errno = error.raw_os_error().unwrap_or(0);
    explained(CliError::new("the sandbox cannot be made").because(error), "clone", errno)
}
