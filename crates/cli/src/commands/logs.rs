//! `atoll logs`.

use crate::error::CliError;
use crate::exec::logs::{self, Asked};
use crate::remote::Remote;
use crate::status::Status;
use atoll_api::exec::Stream;

/// Print what a command of a sandbox has printed, as it was
///
/// Standard output goes to standard output and standard error to standard error, byte by byte. Of
/// very much only head and tail are kept, and what is missing is told. Nothing is woken for it.
///
/// Example: atoll logs web build --follow
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// The id or the name of an exec, or the name of a service [default: the exec that was
    /// started last]
    exec: Option<String>,
    /// Go on with what it prints from now on, until it ends
    #[arg(long, short)]
    follow: bool,
    /// Only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only standard error
    #[arg(long)]
    stderr: bool,
    /// Begin at this byte of the stream
    #[arg(long, value_name = "BYTES")]
    since_offset: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let only = match (args.stdout, args.stderr) {
        (true, _) => Some(Stream::Stdout),
        (_, true) => Some(Stream::Stderr),
        _ => None,
    };
    if args.since_offset.is_some() && only.is_none() {
        return Err(
            CliError::new("--since-offset is of one stream: add --stdout or --stderr").exit_with(2)
        );
    }
    let remote = &args.remote;
    let client = remote.client()?;
    let asked = Asked {
        sandbox: &args.sandbox,
        name: args.exec.as_deref(),
        only,
        from: args.since_offset.unwrap_or(0),
        follows: args.follow,
    };
    remote.wait(logs::print(client, remote, asked))?.map(|()| Status::SUCCESS)
}
