//! `atoll man`.

use crate::error::CliError;
use crate::remote::{lines, say};
use crate::status::Status;
use clap::{Command, CommandFactory as _};
use std::io;
use std::path::{Path, PathBuf};

/// Write manual pages, one for each command, to a directory
///
/// Example: atoll man ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to; it is made if it is not there
    directory: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let shown = atoll_store::escape::escape(&args.directory);
    let failed =
        |error| CliError::new(format!("cannot write manual pages to {shown}")).because(error);
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let mut whole = crate::Cli::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    write(&whole, &args.directory, &mut pages).map_err(failed)?;
    let text =
        if args.json { lines(&[serde_json::json!({ "pages": pages })]) } else { String::new() };
    say(&text).map(|_| Status::SUCCESS)
}

/// The page of a command, and those of the commands below it.
fn write(command: &Command, directory: &Path, pages: &mut Vec<String>) -> io::Result<()> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    let name = man.get_filename();
    man.render(&mut page)?;
    std::fs::write(directory.join(&name), page)?;
    pages.push(name);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, directory, pages)?;
    }
    Ok(())
}
