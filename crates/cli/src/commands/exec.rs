//! `atoll exec`.

use super::wanted::{ms, variable};
use crate::error::CliError;
use crate::exec::{self, Begin, Ending, Job, Screen};
use crate::remote::{self, Format, Remote, lines};
use crate::status::Status;
use atoll_api::exec::{StartExec, Stdin, TerminalSize, User};
use atoll_api::id::ExecId;
use atoll_api::octets::Octets;
use atoll_api::policy::parse_duration;
use atoll_api::sandbox::Env;
use atoll_client::Client;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

/// Run a command in a sandbox of a server
///
/// A sandbox that sleeps is woken. Output comes as it is printed, byte by byte, standard error
/// apart from standard output, and the exit status is the command's own: 124 after a timeout, 125
/// when atoll failed, 126 and 127 when the command cannot be run or found, 128+n after a signal.
///
/// Signals are passed on, Ctrl-C as well. Where the connection breaks it is made again, and
/// nothing is printed twice. With --json the exec is printed at the end, the last line on stderr.
///
/// Example: atoll exec web -- npm test
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// Forward standard input
    #[arg(long, short = 'i')]
    interactive: bool,
    /// Run it in a terminal, which is ours meanwhile
    #[arg(long, short = 't')]
    terminal: bool,
    /// As whom it runs
    #[arg(long, value_enum, default_value = "user")]
    user: As,
    /// Where it starts [default: the sandbox's working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    /// A variable for it, set or passed on; may be repeated
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Kill it after this time, with all that it started, as in 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Print its id and leave it running
    #[arg(long, short, conflicts_with = "interactive")]
    detach: bool,
    /// An id for it: what is asked for again under the same one is followed, and not run twice
    #[arg(long, value_name = "ID")]
    id: Option<ExecId>,
    /// The session that it is part of, whose directory, variables and functions it has
    ///
    /// The first one makes it. One word is a text of shell; several are a command.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// A name for people to know it by
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    remote: Remote,
    /// The command and its arguments
    // What begins with a dash before the command is a flag, known or not.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum As {
    /// The sandbox's ordinary user
    User,
    /// Its root, which is nobody outside
    Root,
}

impl From<As> for User {
    fn from(user: As) -> Self {
        match user {
            As::User => Self::User,
            As::Root => Self::Root,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let remote = args.remote.clone();
    let screen = if args.terminal && !args.detach { Some(Screen::open()?) } else { None };
    let client = remote.client()?;
    let (sandbox, is_detached, takes_input) = (args.sandbox.clone(), args.detach, args.interactive);
    let size = screen.as_ref().map(Screen::size);
    let wanted = request(args, size)?;
    if is_detached {
        let started = remote.wait(client.start_exec(&sandbox, &wanted))?;
        let started = started.map_err(|error| exec::refused(&remote, error))?;
        return remote::answer(&remote, &started, |exec| format!("{}\n", exec.id));
    }
    let job = Job {
        remote: &remote,
        sandbox: &sandbox,
        exec: wanted.id.expect("it was given one"),
        begin: Begin::Start(Box::new(wanted)),
        takes_input,
        screen,
        can_be_left: false,
    };
    let ending = exec::run(client, job)?;
    tell(&remote, &ending);
    Ok(ending.status())
}

/// Says as JSON how it ended.
pub(super) fn tell(remote: &Remote, ending: &Ending) {
    if let (Format::Json, Ending::Ended(exec)) = (remote.format(), ending) {
        // A closed stderr leaves nobody to tell.
        std::io::stderr().write_all(lines(&[exec]).as_bytes()).ok();
    }
}

fn request(args: Args, size: Option<TerminalSize>) -> Result<StartExec, CliError> {
    let id = match args.id {
        Some(id) => id,
        None => Client::new_exec_id().map_err(|error| exec::refused(&args.remote, error))?,
    };
    let mut env: std::collections::BTreeMap<String, String> = args.env.into_iter().collect();
    if args.terminal {
        terminal_env(&mut env);
    }
    let mut wanted = StartExec {
        id: Some(id),
        session: args.session,
        user: args.user.into(),
        directory: args.cwd.map(octets),
        env: Env(env),
        stdin: args.interactive.then_some(Stdin::Pipe),
        terminal: args.terminal.then(|| size.unwrap_or(TerminalSize { rows: 24, columns: 80 })),
        timeout_ms: args.timeout.map(|time| ms(time).max(1)),
        name: args.name,
        ..StartExec::default()
    };
    if wanted.terminal.is_some() {
        wanted.stdin = None;
    }
    if wanted.session.is_some() {
        wanted.shell = Some(shell_text(args.command)?);
    } else {
        wanted.command = Some(args.command.into_iter().map(octets).collect());
    }
    Ok(wanted)
}

/// What programs know our terminal by.
pub(super) fn terminal_env(env: &mut std::collections::BTreeMap<String, String>) {
    if let Some(term) = crate::env::TERM.get().and_then(|term| term.into_string().ok()) {
        env.entry("TERM".to_owned()).or_insert(term);
    }
}

fn octets(word: OsString) -> Octets {
    Octets::new(word.into_vec()).expect("no argument has a NUL")
}

/// One word is a text of shell; of several each stays one.
fn shell_text(words: Vec<OsString>) -> Result<String, CliError> {
    let words: Result<Vec<String>, OsString> =
        words.into_iter().map(OsString::into_string).collect();
    let words = words.map_err(|_| CliError::new("the text of a session is not UTF-8"))?;
    if let [text] = &words[..] {
        return Ok(text.clone());
    }
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    Ok(quoted.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_session_stay_words() {
        let text = |words: &[&str]| shell_text(words.iter().map(OsString::from).collect()).unwrap();
        assert_eq!(text(&["cd /tmp; export A=1"]), "cd /tmp; export A=1");
        assert_eq!(text(&["echo", "it's $HOME", ""]), r"'echo' 'it'\''s $HOME' ''");
    }
}
