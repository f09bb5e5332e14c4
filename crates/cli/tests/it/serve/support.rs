//! A server of a test's own, and what there is to ask it.

use atoll_testkit::internet::Internet;
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// A server that runs, with a state directory and a socket of its own. At the end nothing
/// is left of it, also if it was killed.
pub(crate) struct Served<'a> {
    project: &'a Project,
    pub(crate) child: Child,
    flags: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Served<'a> {
    pub(crate) fn start(project: &'a Project, flags: &[&str]) -> Self {
        Self::start_by(project, flags, |command| command)
    }

    /// Starts one by a command that was changed.
    pub(crate) fn start_by(
        project: &'a Project,
        flags: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = command(project, flags);
        let child = change(&mut command).spawn().unwrap();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut served = Self { project, child, flags, environment: Vec::new() };
        served.wait_for_it();
        served
    }

    /// Starts one whose sandboxes can reach an internet of the test's own.
    pub(crate) fn start_in(project: &'a Project, internet: &Internet) -> Self {
        Self::start_in_with(project, internet, &[], &[])
    }

    /// The same with flags and variables.
    pub(crate) fn start_in_with(
        project: &'a Project,
        internet: &Internet,
        flags: &[&str],
        variables: &[(&'static str, String)],
    ) -> Self {
        let roots = project.outside().join("authority.pem");
        std::fs::write(&roots, internet.certificate()).unwrap();
        let mut environment = vec![
            ("ATOLL_DNS", internet.dns()),
            ("SSL_CERT_FILE", roots.to_str().unwrap().to_owned()),
        ];
        environment.extend(variables.iter().cloned());
        let envs = environment.clone();
        let mut served = Self::start_by(project, flags, |command| command.envs(envs));
        served.environment = environment;
        served
    }

    pub(crate) fn wait_for_it(&mut self) {
        wait_until("the server", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", log(self.project));
            let answer = try_ask(&socket(self.project), "GET", "/healthz", None);
            answer.is_ok_and(|answer| answer.status == 200)
        });
    }

    /// Starts another one in its place, which has ended.
    pub(crate) fn again(&mut self) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let environment = self.environment.clone();
        self.child = command(self.project, &flags).envs(environment).spawn().unwrap();
        self.wait_for_it();
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        try_ask(&socket(self.project), method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {}", log(self.project)))
    }

    #[track_caller]
    pub(crate) fn create(&self, name: &str) -> Answer {
        self.ask("POST", "/v1/sandboxes", Some(&serde_json::json!({ "name": name })))
    }

    /// How the server sees a sandbox.
    #[track_caller]
    pub(crate) fn state(&self, name: &str) -> String {
        let answer = self.ask("GET", &format!("/v1/sandboxes/{name}"), None);
        answer.body["state"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn project(&self) -> &'a Project {
        self.project
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn clear(&mut self) -> Result<(), io::Error> {
        if self.child.try_wait()?.is_some() {
            self.child = command(self.project, &["--sandboxes-max", "1"]).spawn()?;
            self.wait_for_it();
        }
        let socket = socket(self.project);
        let listed = try_ask(&socket, "GET", "/v1/sandboxes?page_count=1000", None)?;
        for sandbox in listed.body["sandboxes"].as_array().unwrap_or(&Vec::new()) {
            let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap_or_default());
            try_ask(&socket, "DELETE", &path, None)?;
        }
        Ok(())
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The cause is in here.
            io::stderr().write_all(log(self.project).as_bytes()).ok();
        }
        let cleared = self.clear();
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        self.child.wait().ok();
        assert!(cleared.is_ok() || std::thread::panicking(), "{cleared:?}");
    }
}

pub(crate) fn state(project: &Project) -> PathBuf {
    project.outside().join("state")
}

pub(crate) fn socket(project: &Project) -> PathBuf {
    project.outside().join("atoll.sock")
}

pub(crate) fn log(project: &Project) -> String {
    std::fs::read_to_string(project.outside().join("log")).unwrap_or_default()
}

/// Where the guest of a sandbox listens, as its creation was answered.
pub(crate) fn guest_of(project: &Project, made: &Value) -> PathBuf {
    state(project).join("sandboxes").join(made["id"].as_str().unwrap()).join("guest")
}

/// The most memory that a server has held so far (proc_pid_status(5)).
pub(crate) fn peak_kib(served: &Served<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `atoll serve` with its own places; its log goes to a file.
pub(crate) fn command(project: &Project, flags: &[&str]) -> Command {
    let mut command = project.atoll(&["serve"]);
    command.arg("--state").arg(state(project)).arg("--socket").arg(socket(project)).args(flags);
    let log = project.outside().join("log");
    let log = File::options().create(true).append(true).open(log).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    command
}

/// Asks a server, over a connection that is for this alone.
pub(crate) fn try_ask(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    exchange(&mut stream, method, path, "", body)
}

/// One request and its answer; `headers` each end their line.
pub(crate) fn exchange(
    stream: &mut (impl Read + io::Write),
    method: &str,
    path: &str,
    headers: &str,
    body: Option<&Value>,
) -> io::Result<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, answer.clone());
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(invalid)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(invalid)?;
    Ok(Answer { status, body: serde_json::from_str(body).unwrap_or_default() })
}
