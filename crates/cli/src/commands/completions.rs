//! `atoll completions`.

use crate::error::CliError;
use crate::remote::{lines, say};
use crate::status::Status;
use clap::CommandFactory as _;

/// Print a script by which a shell completes commands and flags
///
/// For bash: source <(atoll completions bash). For zsh: put it as _atoll into a directory of
/// fpath. For fish: into ~/.config/fish/completions/atoll.fish.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    /// Bourne again shell
    Bash,
    /// Z shell
    Zsh,
    /// Friendly interactive shell
    Fish,
}

impl From<Shell> for clap_complete::Shell {
    fn from(shell: Shell) -> Self {
        match shell {
            Shell::Bash => Self::Bash,
            Shell::Zsh => Self::Zsh,
            Shell::Fish => Self::Fish,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let shell = clap_complete::Shell::from(args.shell);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::Cli::command(), "atoll", &mut script);
    let script = String::from_utf8_lossy(&script);
    let text = if args.json {
        lines(&[serde_json::json!({ "shell": shell.to_string(), "script": script })])
    } else {
        script.into_owned()
    };
    say(&text).map(|_| Status::SUCCESS)
}
