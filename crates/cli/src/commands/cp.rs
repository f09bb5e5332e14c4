//! `atoll cp`.

use crate::copy::{self, Copied, Local, Place};
use crate::error::CliError;
use crate::remote::{self, Format, Remote};
use crate::status::Status;
use atoll_guest::files::Links;
use std::ffi::OsString;
use std::io::Write as _;

/// Names of what was left out that are told.
const NAMED_MAX: usize = 10;

/// Copy files and directories into a sandbox of a server, or out of it
///
/// One side is SANDBOX:PATH, where relative paths begin at /home/user; write ./a:b for a file here
/// with a colon. Directories are copied with all that is in them: into a directory that is there
/// under their name, or its content alone with /. at the end. Modes are kept, owners are not.
///
/// Out of a sandbox, links that could lead out of the copy are left out, and told.
///
/// Example: atoll cp web:/home/user/app/dist .
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is copied; - for standard input
    source: OsString,
    /// Where to; - for standard output, where a directory is a tar archive
    destination: OsString,
    /// Standard input is a tar archive, which is unpacked into a directory
    #[arg(long)]
    archive: bool,
    /// Out of a sandbox, make all links as they are, wherever they lead
    #[arg(long)]
    all_links: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let remote = &args.remote;
    let sides = (Place::read(&args.source), Place::read(&args.destination));
    let is_to_stream = sides.1 == Place::Local(Local::Stream);
    if args.archive && sides.0 != Place::Local(Local::Stream) {
        return Err(wrong("--archive says what standard input is, and SRC is not -"));
    }
    let copied = match &sides {
        (Place::Local(from), Place::Remote(to)) => {
            let client = remote.client()?;
            remote.wait(copy::upload(&client, remote, from, to, args.archive))??
        }
        (Place::Remote(from), Place::Local(to)) => {
            let client = remote.client()?;
            let links = if args.all_links { Links::All } else { Links::Inside };
            remote.wait(copy::download(&client, remote, from, to, links))??
        }
        (Place::Local(_), Place::Local(_)) => {
            return Err(wrong("neither side is in a sandbox: write SANDBOX:PATH"));
        }
        (Place::Remote(_), Place::Remote(_)) => {
            return Err(wrong("both sides are in sandboxes: copy to here in between"));
        }
    };
    tell_left(&copied);
    // What is copied to the stream is not to be mixed with what is said about it.
    if is_to_stream && remote.format() == Format::Json {
        writeln!(std::io::stderr(), "{}", serde_json::json!(copied)).ok();
        return Ok(Status::SUCCESS);
    }
    remote::answer(remote, &copied, |_| String::new())
}

fn wrong(text: &str) -> CliError {
    const EXIT_USAGE: u8 = 2;
    CliError::new(text).exit_with(EXIT_USAGE)
}

fn tell_left(copied: &Copied) {
    if copied.left_out_count == 0 {
        return;
    }
    let named = copied.left_out.iter().take(NAMED_MAX);
    let mut text =
        format!("atoll: {} names were left out, which could not be copied", copied.left_out_count);
    if !copied.left_out.is_empty() {
        text += ", among them:";
        text += &named.map(|name| format!("\n  {name}")).collect::<String>();
    }
    writeln!(std::io::stderr(), "{text}").ok();
}
