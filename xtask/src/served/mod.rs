//! A server of ours that runs, for tasks that ask it things.

mod http;

pub(crate) use http::{Address, Answer, Client};

use crate::descendants::descendants;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::Timespec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer for the first time.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long what is left of deleted sandboxes may be there.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// `atoll serve`, with a state directory of its own; it ends with this, and its sandboxes
/// are deleted before.
pub(crate) struct Served {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    user: Option<u32>,
    tcp: SocketAddr,
}

impl Served {
    /// Starts one below `folder`, which is empty and belongs to whom it is to run as.
    pub(crate) fn start(program: &Path, folder: &Path, user: Option<u32>) -> Result<Self> {
        // Nobody else takes a port that was just given back.
        let tcp = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let child = begin(&program, &folder, user, tcp)?;
        let mut served = Self { child, program, folder, user, tcp };
        served.wait()?;
        Ok(served)
    }

    /// Kills it in the midst of whatever it does, and starts it again on what is there then.
    pub(crate) fn cut(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = begin(&self.program, &self.folder, self.user, self.tcp)?;
        self.wait()
    }

    /// Kills the processes that make sandboxes for it.
    pub(crate) fn cut_makers(&self) -> Result<()> {
        for process in descendants(self.child.id())? {
            if process.name == "exe" || process.name == "atoll-maker" {
                let pid = Pid::from_raw(process.pid.cast_signed()).context("it has a number")?;
                // It may have ended meanwhile.
                kill_process(pid, Signal::KILL).ok();
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        while self.client().and_then(|mut client| client.ask("GET", "/healthz", None)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended: {status}: {}", self.log());
            }
            if Instant::now() > until {
                bail!("the server does not answer: {}", self.log());
            }
            pause()?;
        }
        Ok(())
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(crate) fn unix(&self) -> Address {
        Address::Unix(self.folder.join("socket"))
    }

    /// Over TCP, with the key that it made at its start.
    pub(crate) fn tcp(&self) -> Result<Address> {
        let key = fs::read_to_string(self.folder.join("state/first-key"))
            .context("the server made no key")?;
        Ok(Address::Tcp { address: self.tcp, key: key.trim().to_owned() })
    }

    /// A connection over its unix socket.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(&self.unix())
    }

    /// Waits until there are so many sandboxes at most: what is left of deleted ones goes
    /// behind the answer.
    pub(crate) fn wait_for_so_few(&self, count: usize) -> Result<()> {
        let mut client = self.client()?;
        let until = Instant::now() + GONE_WITHIN;
        loop {
            let listed = client.ask("GET", "/v1/sandboxes?page_count=1000", None)?;
            if listed["sandboxes"].as_array().is_some_and(|all| all.len() <= count) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "sandboxes stay: {listed}");
            pause()?;
        }
    }

    fn clear(&self) -> Result<()> {
        let mut client = self.client()?;
        let listed = client.ask("GET", "/v1/sandboxes?page_count=1000", None)?;
        for sandbox in listed["sandboxes"].as_array().context("no list")? {
            client.ask("DELETE", &path(sandbox, ""), None)?;
        }
        self.wait_for_so_few(0)
    }
}

/// A sandbox of the default image, as it was told of.
pub(crate) fn create(client: &mut Client) -> Result<Value> {
    client.ask("POST", "/v1/sandboxes", Some(&json!({})))
}

pub(crate) fn delete(client: &mut Client, sandbox: &Value) -> Result<()> {
    client.ask("DELETE", &path(sandbox, ""), None).map(drop)
}

/// Runs a command to its end, which is a good one.
pub(crate) fn run(client: &mut Client, sandbox: &Value, request: &Value) -> Result<Ran> {
    let answer = client.timed("POST", &path(sandbox, "/execs?wait_ms=60000"), Some(request))?;
    let result = answer.read()?;
    ensure!(result["exec"]["ended"]["exit_code"] == 0, "it did not succeed: {result}");
    Ok(Ran { took: answer.took, result })
}

/// A command that has ended, and how long it took to be told so.
pub(crate) struct Ran {
    pub(crate) took: Duration,
    result: Value,
}

impl Ran {
    /// What it printed, if that is short and text.
    pub(crate) fn stdout(&self) -> &str {
        self.result["stdout"]["head"]["text"].as_str().unwrap_or_default()
    }
}

/// Takes a snapshot, and gives what is told of it.
pub(crate) fn snapshot(client: &mut Client, sandbox: &Value) -> Result<Value> {
    client.ask("POST", &path(sandbox, "/snapshots"), Some(&json!({})))
}

pub(crate) fn delete_snapshot(client: &mut Client, snapshot: &Value) -> Result<()> {
    let id = snapshot["id"].as_str().context("it has an id")?;
    client.ask("DELETE", &format!("/v1/snapshots/{id}"), None).map(drop)
}

fn begin(program: &Path, folder: &Path, user: Option<u32>, tcp: SocketAddr) -> Result<Child> {
    let mut command = Command::new(program);
    command.arg("serve").arg("--state").arg(folder.join("state"));
    command.arg("--socket").arg(folder.join("socket"));
    command.arg("--listen").arg(tcp.to_string()).args(["--log-level", "warn"]);
    command.env_clear().env("HOME", folder).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::options().create(true).append(true).open(folder.join("log"))?);
    if let Some(uid) = user {
        command.uid(uid).gid(uid);
    }
    command.spawn().context("cannot start a server")
}

/// The path of a sandbox in the API, as it was told of it, with this behind it.
pub(crate) fn path(sandbox: &Value, rest: &str) -> String {
    format!("/v1/sandboxes/{}{rest}", sandbox["id"].as_str().unwrap_or_default())
}

impl Drop for Served {
    fn drop(&mut self) {
        self.clear().ok();
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::TERM).ok();
        }
        self.child.wait().ok();
    }
}

/// A moment, for what gives no event to wait on.
pub(crate) fn pause() -> Result<()> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    rustix::event::poll(&mut [], Some(&moment))?;
    Ok(())
}
