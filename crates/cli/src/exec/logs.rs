//! What a command has printed, and goes on to print.

use super::follow::{Begin, Follower, Way};
use crate::error::CliError;
use crate::remote::{Format, Reader, Remote, lines, say};
use atoll_api::error::ErrorCode;
use atoll_api::exec::{AttachEvent, Dropped, Exec, Output, OutputEvent, Stream};
use atoll_api::id::ExecId;
use atoll_client::attach::Heard;
use atoll_client::{Client, ClientError};
use std::io::{self, Write as _};

/// What is wanted.
pub(crate) struct Asked<'a> {
    pub(crate) sandbox: &'a str,
    /// An id, or the name of an exec or of a service.
    pub(crate) name: Option<&'a str>,
    /// Only this stream, else both.
    pub(crate) only: Option<Stream>,
    pub(crate) from: u64,
    pub(crate) follows: bool,
}

/// Prints it.
pub(crate) async fn print(
    client: Client,
    remote: &Remote,
    asked: Asked<'_>,
) -> Result<(), CliError> {
    let failed = |error| remote.failed(error);
    let exec = find(&client, remote, asked.sandbox, asked.name).await?;
    let (stdout, stderr) = match asked.only {
        None => (0, 0),
        Some(Stream::Stdout) => (asked.from, 0),
        Some(Stream::Stderr) => (0, asked.from),
    };
    let is_wanted = |stream| asked.only.is_none_or(|only| only == stream);
    if asked.follows {
        let begin = Begin::Attach { stdout, stderr };
        let mut follower = Follower::new(client, asked.sandbox, exec, begin, Way::Events);
        loop {
            let Some(heard) = follower.next().await.map_err(failed)? else { continue };
            if tell(remote, heard, is_wanted)? == Next::Over {
                return Ok(());
            }
        }
    }
    let followed = client.follow_exec(asked.sandbox, &exec, stdout, stderr, false).await;
    let mut followed = followed.map_err(failed)?;
    loop {
        let heard = followed.next().await.map_err(failed)?;
        let broke = || CliError::new("what was printed did not come to its end");
        if tell(remote, heard.ok_or_else(broke)?, is_wanted)? == Next::Over {
            return Ok(());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    More,
    Over,
}

fn tell(
    remote: &Remote,
    heard: Heard,
    is_wanted: impl Fn(Stream) -> bool,
) -> Result<Next, CliError> {
    let is_json = remote.format() == Format::Json;
    let event = match heard {
        Heard::Output { stream, .. } if !is_wanted(stream) => return Ok(Next::More),
        Heard::Output { stream, offset, bytes } if is_json => {
            let output = Output::new(bytes.into());
            return json(&OutputEvent { stream, offset, output });
        }
        Heard::Output { stream, bytes, .. } => return raw(stream, &bytes),
        Heard::Event(event) => *event,
    };
    match event {
        AttachEvent::Dropped { dropped } if is_wanted(dropped.stream) => {
            if is_json {
                return json(&AttachEvent::Dropped { dropped });
            }
            let Dropped { from, to, .. } = dropped;
            writeln!(io::stderr(), "atoll: bytes {from} to {to} are not kept any more").ok();
            Ok(Next::More)
        }
        AttachEvent::Lost { error } => Err(remote.failed(ClientError::Api(Box::new(error)))),
        AttachEvent::Ended { .. } | AttachEvent::End { .. } => {
            if is_json {
                json(&event)?;
            }
            Ok(Next::Over)
        }
        AttachEvent::Started { .. }
        | AttachEvent::Dropped { .. }
        | AttachEvent::Refused { .. }
        | AttachEvent::Heartbeat {} => Ok(Next::More),
    }
}

fn json(event: &impl serde::Serialize) -> Result<Next, CliError> {
    Ok(match say(&lines(&[event]))? {
        Reader::Reads => Next::More,
        Reader::Gone => Next::Over,
    })
}

fn raw(stream: Stream, bytes: &[u8]) -> Result<Next, CliError> {
    let written = match stream {
        Stream::Stdout => {
            let mut stdout = io::stdout();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
        Stream::Stderr => io::stderr().write_all(bytes),
    };
    match written {
        Ok(()) => Ok(Next::More),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Next::Over),
        Err(error) => Err(CliError::new("cannot write what was printed").because(error)),
    }
}

/// Finds an exec by its id, its name or its service; else the one that was started last.
async fn find(
    client: &Client,
    remote: &Remote,
    sandbox: &str,
    name: Option<&str>,
) -> Result<ExecId, CliError> {
    let failed = |error| remote.failed(error);
    if let Some(id) = name.and_then(|name| name.parse().ok()) {
        return Ok(id);
    }
    if let Some(name) = name {
        let services = client.list_services(sandbox).await.map_err(failed)?.services;
        if let Some(service) = services.iter().find(|service| service.name == name) {
            return service.exec_id.ok_or_else(|| {
                CliError::new(format!("the service {name} has not run yet")).exit_with(1)
            });
        }
    }
    let execs = client.list_execs(sandbox).await.map_err(failed)?.execs;
    let is_it = |exec: &&Exec| name.is_none_or(|name| exec.name.as_deref() == Some(name));
    let found = execs.iter().rev().find(is_it).map(|exec| exec.id);
    found.ok_or_else(|| {
        let what = name.map_or_else(
            || "no exec".to_owned(),
            |name| format!("neither an exec nor a service {}", crate::remote::neutral(name)),
        );
        let code = ErrorCode::NotFound.as_str();
        CliError::new(format!("there is {what} in {sandbox} ({code})"))
            .hint(format!("`atoll ps {sandbox} --all` lists what there is"))
            .exit_with(1)
    })
}
