//! `atoll shell`.

use super::exec::{As, tell, terminal_env};
use crate::error::CliError;
use crate::exec::{self, Begin, DETACH_KEYS, Ending, Job, Screen};
use crate::remote::{Format, Remote};
use crate::status::Status;
use atoll_api::exec::StartExec;
use atoll_api::id::ExecId;
use atoll_api::octets::Octets;
use atoll_api::sandbox::Env;
use atoll_client::Client;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;

/// How much of what a terminal showed is shown again, in bytes.
const SHOWN_AGAIN_BYTES: u64 = 16 * 1024;

/// Runs the user's own shell, where there is one that lets him in.
const SCRIPT: &str = r#"
shell=${SHELL:-}
if [ -z "$shell" ] && uid=$(id -u 2>/dev/null) && [ -r /etc/passwd ]; then
  while IFS=: read -r _ _ id _ _ _ own; do
    if [ "$id" = "$uid" ]; then shell=$own; break; fi
  done < /etc/passwd
fi
case $shell in */nologin | */false) shell= ;; esac
if [ -x "$shell" ]; then SHELL=$shell; else SHELL=/bin/sh; fi
export SHELL
exec "$SHELL"
"#;

/// Open a shell in a sandbox of a server, or go back to one
///
/// The shell is the user's of the sandbox, else /bin/sh. Ctrl-] and then d leave it running, and
/// --exec with its id comes back to it, as to any command that has a terminal.
///
/// Example: atoll shell web
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// Go back to this one, which is there and has a terminal
    #[arg(long, value_name = "ID", conflicts_with_all = ["user", "cwd"])]
    exec: Option<ExecId>,
    /// As whom it runs
    #[arg(long, value_enum, default_value = "user")]
    user: As,
    /// Where it starts [default: the sandbox's working directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let remote = args.remote.clone();
    let screen = Screen::open()?;
    let client = remote.client()?;
    let failed = |error| exec::refused(&remote, error);
    let (id, begin) = match args.exec {
        Some(id) => {
            let found = remote.wait(client.get_exec(&args.sandbox, &id))?.map_err(failed)?;
            if found.terminal.is_none() {
                let hint = format!("follow it with `atoll logs {} {id} --follow`", args.sandbox);
                return Err(CliError::new(format!("{id} has no terminal")).hint(hint));
            }
            let stdout = found.stdout.bytes.saturating_sub(SHOWN_AGAIN_BYTES);
            (id, Begin::Attach { stdout, stderr: 0 })
        }
        None => {
            let id = Client::new_exec_id().map_err(failed)?;
            let mut env = BTreeMap::new();
            terminal_env(&mut env);
            let words = ["/bin/sh", "-c", SCRIPT];
            let words = words.map(|word| Octets::new(word).expect("it has no NUL"));
            let wanted = StartExec {
                id: Some(id),
                command: Some(words.into()),
                name: Some("shell".to_owned()),
                user: args.user.into(),
                directory: args
                    .cwd
                    .map(|path| Octets::new(path.into_vec()).expect("no argument has a NUL")),
                env: Env(env),
                terminal: Some(screen.size()),
                ..StartExec::default()
            };
            (id, Begin::Start(Box::new(wanted)))
        }
    };
    let is_json = remote.format() == Format::Json;
    if !is_json {
        say(&format!("{DETACH_KEYS} leaves it running"));
    }
    let sandbox = args.sandbox.as_str();
    let (takes_input, screen) = (false, Some(screen));
    let remote = &remote;
    let job = Job { remote, sandbox, exec: id, begin, takes_input, screen, can_be_left: true };
    let ending = exec::run(client, job)?;
    if matches!(ending, Ending::Left) {
        if is_json {
            let left = serde_json::json!({ "left": { "id": id } });
            writeln!(std::io::stderr(), "{left}").ok();
        } else {
            say(&format!("left it running; `atoll shell {sandbox} --exec {id}` comes back"));
        }
    }
    tell(remote, &ending);
    Ok(ending.status())
}

/// Says something beside what the shell shows.
fn say(text: &str) {
    // A closed stderr leaves nobody to tell.
    writeln!(std::io::stderr(), "\ratoll: {text}").ok();
}
