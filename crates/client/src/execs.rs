//! Execs: started, looked at, fed, ended.

use crate::body::{Download, Upload};
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::exec::{CancelExec, Exec, Execs, SignalExec, StartExec, Stream};
use atoll_api::id::ExecId;
use hyper::Method;

impl Client {
    fn exec(sandbox: &str, exec: &ExecId, rest: &[&str]) -> Path {
        Path::sandbox(sandbox, &[&["execs", exec.to_string().as_str()], rest].concat())
    }

    /// Starts a command and gives it at once. Under an id of its own it is not started a
    /// second time, however often this is asked.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn start_exec(&self, sandbox: &str, wanted: &StartExec) -> Result<Exec, ClientError> {
        let path = Path::sandbox(sandbox, &["execs"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, exec)| exec)
    }

    /// Lists what a sandbox remembers, in the order of their start.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_execs(&self, sandbox: &str) -> Result<Execs, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["execs"])).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_exec(&self, sandbox: &str, exec: &ExecId) -> Result<Exec, ClientError> {
        self.ask(Method::GET, Self::exec(sandbox, exec, &[])).await
    }

    /// Reads one of its streams, from an offset on, and to its end if it is to be followed.
    /// Where something is not kept any more the body breaks off.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn read_output(
        &self,
        sandbox: &str,
        exec: &ExecId,
        stream: Stream,
        offset: u64,
        follow: bool,
    ) -> Result<Download, ClientError> {
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let path = Self::exec(sandbox, exec, &[name]).with("offset", offset).with("follow", follow);
        let request = self.request(Method::GET, &path);
        self.send(request, Upload::empty()).await.map(|(_, download)| download)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn signal_exec(
        &self,
        sandbox: &str,
        exec: &ExecId,
        wanted: &SignalExec,
    ) -> Result<Exec, ClientError> {
        let path = Self::exec(sandbox, exec, &["signal"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, exec)| exec)
    }

    /// Ends it, and gives it as it ended.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cancel_exec(
        &self,
        sandbox: &str,
        exec: &ExecId,
        wanted: &CancelExec,
    ) -> Result<Exec, ClientError> {
        let path = Self::exec(sandbox, exec, &["cancel"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, exec)| exec)
    }
}
