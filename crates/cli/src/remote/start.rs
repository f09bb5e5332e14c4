//! Starting a private server, where that is asked for.

use crate::error::CliError;
use crate::serve::places::Places;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until it listens: also as long as another one is being started.
const WITHIN: Duration = Duration::from_secs(20);

/// How often to look.
const AGAIN: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Lines of its log that are shown if it does not start.
const LINES: usize = 3;

/// Makes sure that a server listens on `socket`.
pub(super) fn make_sure(socket: &Path, is_default: bool) -> Result<(), CliError> {
    if is_there(socket)? {
        return Ok(());
    }
    let named = (!is_default).then(|| socket.to_owned());
    let places = Places::choose(None, named)?;
    places.make()?;
    let log = places.log();
    let mut child = start(&places, &log)
        .map_err(|error| CliError::new("cannot start a server").because(error))?;
    let until = Instant::now() + WITHIN;
    let mut ended = None;
    while Instant::now() < until {
        if is_there(socket)? {
            return Ok(());
        }
        if ended.is_none() {
            ended = child.try_wait().unwrap_or_default();
        }
        // Another one may have been faster, and is not ready yet. But a server that failed
        // while nobody else has the state directory is not waited for.
        if ended.is_some() && places.lock().is_ok() {
            break;
        }
        rustix::event::poll(&mut [], Some(&AGAIN))
            .map_err(|error| CliError::new("cannot wait for the server").because(error))?;
    }
    let told = CliError::new("the server that was started does not listen");
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("; ");
    Err(told.because(last).hint(format!("its log is {}", log.display())))
}

/// Whether a server is there. One that is being started answers when it has, or not at all.
fn is_there(socket: &Path) -> Result<bool, CliError> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(answers(stream).unwrap_or(false)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(false)
        }
        Err(error) => {
            let message = format!("cannot reach the server on {}", socket.display());
            Err(CliError::new(message).because(error))
        }
    }
}

/// Whether who listens there answers at all.
fn answers(mut stream: UnixStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(WITHIN))?;
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    Ok(stream.read(&mut [0; 64])? > 0)
}

/// Starts one that has nothing to do with this process, or with its terminal.
fn start(places: &Places, log: &PathBuf) -> io::Result<Child> {
    let log = File::options().create(true).append(true).mode(0o600).open(log)?;
    Command::new("/proc/self/exe")
        .arg("serve")
        .arg("--detached")
        .arg("--state")
        .arg(&places.state)
        .arg("--socket")
        .arg(&places.socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}
