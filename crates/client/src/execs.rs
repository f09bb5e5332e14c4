//! Execs: started, looked at, fed, ended.

use crate::body::{Download, Upload};
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::exec::{CancelExec, Exec, ExecResult, Execs, SignalExec, StartExec, Stream};
use atoll_api::id::{ExecId, ID_BYTES};
use hyper::{Method, header};

impl Client {
    fn exec(sandbox: &str, exec: &ExecId, rest: &[&str]) -> Path {
        Path::sandbox(sandbox, &[&["execs", exec.to_string().as_str()], rest].concat())
    }

    /// An id for an exec that is to be started, so that it can be asked for again.
    ///
    /// # Errors
    /// Where the system has no random bytes.
    pub fn new_exec_id() -> Result<ExecId, ClientError> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(ClientError::Random)?;
        Ok(ExecId::from_random(bytes))
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

    /// Feeds its standard input with what begins at an offset of it: what it was fed
    /// already is not fed twice. Then that is ended, unless it is to be kept open.
    ///
    /// # Errors
    /// See [`ClientError`]. May be asked again whatever it was.
    pub async fn feed_exec(
        &self,
        sandbox: &str,
        exec: &ExecId,
        offset: u64,
        keep_open: bool,
        content: Upload,
    ) -> Result<Exec, ClientError> {
        let path = Self::exec(sandbox, exec, &["stdin"]);
        let path = path.with("offset", offset).with("keep_open", keep_open);
        let request = self.request(Method::POST, &path);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        self.receive(request, content).await.map(|(_, exec)| exec)
    }

    /// Gives it and what it printed, at once or when it has ended, for which so many
    /// milliseconds are waited at most.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_exec_result(
        &self,
        sandbox: &str,
        exec: &ExecId,
        wait_ms: Option<u64>,
    ) -> Result<ExecResult, ClientError> {
        let path = Self::exec(sandbox, exec, &["result"]).with_some("wait_ms", wait_ms);
        self.ask(Method::GET, path).await
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
