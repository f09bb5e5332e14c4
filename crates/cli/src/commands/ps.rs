//! `atoll ps`.

use crate::error::CliError;
use crate::remote::{self, Remote, table};
use crate::status::Status;
use atoll_api::error::ErrorCode;
use atoll_api::exec::{EndCause, Ended, Exec, ExecState, Execs};
use atoll_api::service::{ServiceState, ServiceStatus, Services};

/// Longest command that is shown, in characters.
const COMMAND_CHARS_MAX: usize = 60;

/// List the commands and the services of a sandbox
///
/// Nothing is woken for it. With --json one object has both lists.
///
/// Example: atoll ps web --all
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// Commands that have ended, too
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    remote: Remote,
}

/// What is printed.
#[derive(serde::Serialize)]
struct Listed {
    execs: Vec<Exec>,
    services: Vec<ServiceStatus>,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let listed = args.remote.ask(async |client| {
        let Services { services } = client.list_services(&args.sandbox).await?;
        let Execs { mut execs } = match client.list_execs(&args.sandbox).await {
            Ok(execs) => execs,
            // In one that does not run, nothing does.
            Err(error) if error.code() == Some(ErrorCode::WrongState) => {
                Execs { execs: Vec::new() }
            }
            Err(error) => return Err(error),
        };
        if !args.all {
            execs.retain(|exec| exec.state == ExecState::Running);
        }
        Ok(Listed { execs, services })
    })?;
    remote::answer(&args.remote, &listed, |Listed { execs, services }| {
        let mut text = table(
            ["EXEC", "NAME", "STATE", "STARTED", "COMMAND"],
            &execs.iter().map(row).collect::<Vec<_>>(),
        );
        if !services.is_empty() {
            text += "\n";
            text += &table(
                ["SERVICE", "STATE", "RESTARTS", "EXEC", "CAUSE"],
                &services.iter().map(service_row).collect::<Vec<_>>(),
            );
        }
        text
    })
}

fn row(exec: &Exec) -> [String; 5] {
    let words: Vec<String> =
        exec.command.iter().map(|word| String::from_utf8_lossy(word.as_bytes()).into()).collect();
    let mut command = words.join(" ");
    if let Some((end, _)) = command.char_indices().nth(COMMAND_CHARS_MAX) {
        command.truncate(end);
        command.push('…');
    }
    let name = exec.name.as_ref().or(exec.session.as_ref());
    [
        exec.id.to_string(),
        name.cloned().unwrap_or_else(|| "-".to_owned()),
        state(exec),
        format!("{} ago", ago(exec.started_ago_ms)),
        command,
    ]
}

fn state(exec: &Exec) -> String {
    match (exec.state, &exec.ended) {
        (ExecState::Running, _) => "running".to_owned(),
        (ExecState::Lost, _) => "lost".to_owned(),
        (ExecState::Ended, Some(Ended { cause: Some(EndCause::TimedOut), .. })) => {
            "timed out".to_owned()
        }
        (ExecState::Ended, Some(Ended { exit_code: Some(code), .. })) => format!("exit {code}"),
        (ExecState::Ended, Some(Ended { signal: Some(signal), .. })) => format!("signal {signal}"),
        (ExecState::Ended, _) => "ended".to_owned(),
    }
}

fn service_row(service: &ServiceStatus) -> [String; 5] {
    let state = match service.state {
        ServiceState::Starting => "starting",
        ServiceState::Ready => "ready",
        ServiceState::Late => "late",
        ServiceState::Waiting => "waiting",
        ServiceState::Failed => "failed",
        ServiceState::Stopped => "stopped",
    };
    [
        service.name.clone(),
        state.to_owned(),
        service.restarts.to_string(),
        service.exec_id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        service.cause.clone().unwrap_or_default(),
    ]
}

/// A time in its largest unit.
fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_unit() {
        for (ms, text) in
            [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h"), (90_000_000, "1d")]
        {
            assert_eq!(ago(ms), text);
        }
    }
}
