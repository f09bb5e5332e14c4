//! `atoll wait`.

use super::wanted::ms;
use crate::error::CliError;
use crate::exec::Ending;
use crate::remote::{self, Remote, neutral};
use crate::status::Status;
use atoll_api::error::ErrorCode;
use atoll_api::exec::{ExecState, WAIT_MS_MAX};
use atoll_api::id::ExecId;
use atoll_api::policy::parse_duration;
use atoll_api::wait::{HttpAnswer, LogLine, WAIT_TIMEOUT_MS_MAX, Wait, WaitFor};
use atoll_client::{Client, ClientError};
use std::time::{Duration, Instant};

/// Exit status where the time is over.
const EXIT_TIMED_OUT: u8 = 124;

/// Wait for something in a sandbox: a port, a line, an answer or an end
///
/// Ends with 0 when it is there and with 124 when the time is over. Of --log the line is printed,
/// of --http the status, and of --exec with what the command ended: its exit status, 124 after
/// its timeout, 128+n after a signal.
///
/// Example: atoll wait web --http 3000/healthz --timeout 1m
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// Something listens on this port
    #[arg(long, value_name = "PORT", group = "what",
          value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// An exec prints a line that a regular expression matches, or has printed it
    #[arg(long, num_args = 2, value_names = ["EXEC", "PATTERN"], group = "what")]
    log: Option<Vec<String>>,
    /// A port answers over HTTP, with a status below 500
    #[arg(long, value_name = "PORT[/PATH]", group = "what", value_parser = http)]
    http: Option<HttpAnswer>,
    /// An exec ends
    #[arg(long, value_name = "ID", group = "what")]
    exec: Option<ExecId>,
    /// How long, as in 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
    #[command(flatten)]
    remote: Remote,
}

/// `PORT` or `PORT/PATH`.
fn http(text: &str) -> Result<HttpAnswer, String> {
    let (port, path) = match text.find('/') {
        Some(at) => (&text[..at], Some(text[at..].to_owned())),
        None => (text, None),
    };
    let port = port.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or("write a port, as in 3000 or 3000/healthz")?;
    Ok(HttpAnswer { port, path, status: None })
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let remote = &args.remote;
    let client = remote.client()?;
    let time = Time { since: Instant::now(), all: args.timeout };
    if let Some(id) = args.exec {
        return remote.wait(end(&client, remote, &args.sandbox, &id, time))?;
    }
    let until = match (args.port, args.log, args.http) {
        (Some(port), ..) => WaitFor::Port(port),
        (_, Some(words), _) => {
            let [exec, pattern] = <[String; 2]>::try_from(words).expect("two were asked for");
            let exec = exec.parse().map_err(|error| CliError::new("--log").because(error))?;
            WaitFor::Log(LogLine { exec, stream: None, pattern })
        }
        (.., Some(answer)) => WaitFor::Http(answer),
        (None, None, None) => unreachable!("one of them is required"),
    };
    let waited = remote.wait(async {
        loop {
            let timeout_ms = time.left_ms().min(WAIT_TIMEOUT_MS_MAX);
            let wanted = Wait { until: until.clone(), timeout_ms };
            match client.wait_for(&args.sandbox, &wanted).await {
                Err(error) if is_over(&error) && time.left_ms() > 0 => {}
                waited => return waited,
            }
        }
    })?;
    let waited = waited.map_err(|error| over(remote, error))?;
    // The line is one of a stranger's.
    let text = |line: &String| format!("{}\n", neutral(line));
    remote::answer(remote, &waited, |waited| waited.matched.as_ref().map(text).unwrap_or_default())
}

async fn end(
    client: &Client,
    remote: &Remote,
    sandbox: &str,
    id: &ExecId,
    time: Time,
) -> Result<Status, CliError> {
    loop {
        let wait_ms = time.left_ms().min(WAIT_MS_MAX);
        let result = client.get_exec_result(sandbox, id, Some(wait_ms)).await;
        let exec = result.map_err(|error| over(remote, error))?.exec;
        match exec.state {
            ExecState::Running if time.left_ms() > 0 => {}
            ExecState::Running => {
                let message = format!("{id} did not end in {} s", time.all.as_secs_f32());
                return Err(CliError::new(message).exit_with(EXIT_TIMED_OUT));
            }
            ExecState::Lost => {
                let lost = exec.lost.map(|error| ClientError::Api(Box::new(error)));
                return Err(lost.map_or_else(
                    || CliError::new(format!("what became of {id} is not known")),
                    |error| remote.failed(error),
                ));
            }
            ExecState::Ended => {
                return remote::answer(remote, &exec, |exec| {
                    format!("{}\n", Ending::code(exec.ended.as_ref()))
                });
            }
        }
    }
}

fn over(remote: &Remote, error: ClientError) -> CliError {
    let is_over = is_over(&error);
    let told = remote.failed(error);
    if is_over { told.exit_with(EXIT_TIMED_OUT) } else { told }
}

fn is_over(error: &ClientError) -> bool {
    matches!(error.code(), Some(ErrorCode::TimedOut | ErrorCode::NotReady))
}

/// How long is waited.
#[derive(Clone, Copy)]
struct Time {
    since: Instant,
    all: Duration,
}

impl Time {
    fn left_ms(self) -> u64 {
        ms(self.all.saturating_sub(self.since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_a_path() {
        let answer = |text: &str| http(text).map(|answer| (answer.port, answer.path));
        assert_eq!(answer("80"), Ok((80, None)));
        assert_eq!(answer("80/a?b"), Ok((80, Some("/a?b".to_owned()))));
        assert!(answer("0").is_err() && answer("/x").is_err() && answer("80:x").is_err());
    }
}
