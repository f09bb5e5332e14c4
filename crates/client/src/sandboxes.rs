//! Sandboxes: made, looked at, changed and deleted.

use crate::body::Upload;
use crate::client::{Client, Path, json};
use crate::error::ClientError;
use atoll_api::budget::{Budget, Budgets};
use atoll_api::denial::DenialPage;
use atoll_api::name::SandboxName;
use atoll_api::network::NetworkPolicy;
use atoll_api::sandbox::{
    CREATE_WITH_ARCHIVE, CreateSandbox, Lifecycle, ListSandboxes, Sandbox, SandboxPage, Timeline,
};
use atoll_api::usage::{ListUsage, Usage, UsagePage};
use hyper::{Method, StatusCode, header};

/// What can be done to a sandbox as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Freezes its processes.
    Pause,
    /// Lets it run again.
    Resume,
    /// Asks its processes to end.
    Stop,
    /// Kills its processes.
    Kill,
}

impl Action {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Stop => "stop",
            Self::Kill => "kill",
        }
    }
}

/// `sandbox` is an id or a name throughout.
impl Client {
    /// Makes a sandbox. Under an idempotency key the same request makes no second one.
    ///
    /// # Errors
    /// See [`ClientError`]; if it is not known whether there is one, ask again under the
    /// same key.
    pub async fn create_sandbox(
        &self,
        wanted: &CreateSandbox,
        idempotency_key: Option<&str>,
    ) -> Result<Sandbox, ClientError> {
        let mut request = self.request(Method::POST, &Path::of(&["sandboxes"]));
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let (request, body) = json(request, wanted)?;
        self.receive(request, body).await.map(|(_, sandbox)| sandbox)
    }

    /// Gives the sandbox of a name, made if there is none, and whether it was made.
    ///
    /// # Errors
    /// See [`ClientError`]. May be asked again whatever it was.
    pub async fn get_or_create_sandbox(
        &self,
        name: &SandboxName,
        wanted: &CreateSandbox,
    ) -> Result<(Sandbox, bool), ClientError> {
        let path = Path::sandbox(&name.to_string(), &[]);
        let (status, sandbox) = self.tell(Method::PUT, path, wanted).await?;
        Ok((sandbox, status == StatusCode::CREATED))
    }

    /// Makes a sandbox, with a tar archive of what is to be in its workspace; with a name in
    /// `get`, only if there is none of that name.
    ///
    /// # Errors
    /// See [`ClientError`]. There is no sandbox if the archive breaks off.
    pub async fn create_sandbox_with(
        &self,
        wanted: &CreateSandbox,
        get: Option<&SandboxName>,
        archive: Upload,
    ) -> Result<Sandbox, ClientError> {
        let request = match get {
            Some(name) => self.request(Method::PUT, &Path::sandbox(&name.to_string(), &[])),
            None => self.request(Method::POST, &Path::of(&["sandboxes"])),
        };
        let line = serde_json::to_vec(wanted)
            .map_err(|error| ClientError::Request { reason: error.to_string() })?;
        let line = [line, b"\n".to_vec()].concat();
        let request = request.header(header::CONTENT_TYPE, CREATE_WITH_ARCHIVE);
        self.receive(request, archive.behind(line.into())).await.map(|(_, sandbox)| sandbox)
    }

    /// Gives a page of the sandboxes that there are, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_sandboxes(&self, wanted: &ListSandboxes) -> Result<SandboxPage, ClientError> {
        let mut path = Path::of(&["sandboxes"])
            .with_some("page_count", wanted.page_count)
            .with_some("cursor", wanted.cursor);
        for state in &wanted.states {
            path = path.with("state", state);
        }
        for (key, value) in &wanted.labels {
            path = path.with("label", format_args!("{key}={value}"));
        }
        self.ask(Method::GET, path).await
    }

    /// Gives one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_sandbox(&self, sandbox: &str) -> Result<Sandbox, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &[])).await
    }

    /// Tells how long the stages of its creation took.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_timeline(&self, sandbox: &str) -> Result<Timeline, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["timeline"])).await
    }

    /// Gives a page of what it was refused on its way out, the oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_denials(
        &self,
        sandbox: &str,
        cursor: Option<u64>,
    ) -> Result<DenialPage, ClientError> {
        let path = Path::sandbox(sandbox, &["denials"]).with_some("cursor", cursor);
        self.ask(Method::GET, path).await
    }

    /// Tells what it has used; by its id also if it is deleted.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_usage(&self, sandbox: &str) -> Result<Usage, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["usage"])).await
    }

    /// Gives a page of what sandboxes have used, deleted ones included, the oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_usage(&self, wanted: &ListUsage) -> Result<UsagePage, ClientError> {
        let mut path = Path::of(&["usage"])
            .with_some("page_count", wanted.page_count)
            .with_some("cursor", wanted.cursor);
        for (key, value) in &wanted.labels {
            path = path.with("label", format_args!("{key}={value}"));
        }
        self.ask(Method::GET, path).await
    }

    /// Gives the last of what it was refused in so many milliseconds until now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_denials_within(
        &self,
        sandbox: &str,
        within_ms: u64,
    ) -> Result<DenialPage, ClientError> {
        let path = Path::sandbox(sandbox, &["denials"]);
        self.ask(Method::GET, path.with_some("within_ms", Some(within_ms))).await
    }

    /// Gives what it may reach; nothing where it has no network.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_network(&self, sandbox: &str) -> Result<Option<NetworkPolicy>, ClientError> {
        self.ask(Method::GET, Path::sandbox(sandbox, &["network"])).await
    }

    /// Has it reach something else.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_network(
        &self,
        sandbox: &str,
        policy: &NetworkPolicy,
    ) -> Result<NetworkPolicy, ClientError> {
        let path = Path::sandbox(sandbox, &["network"]);
        self.tell(Method::PUT, path, policy).await.map(|(_, policy)| policy)
    }

    /// Sets the times of its lifecycle, and begins its lease anew.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_lifecycle(
        &self,
        sandbox: &str,
        lifecycle: &Lifecycle,
    ) -> Result<Sandbox, ClientError> {
        let path = Path::sandbox(sandbox, &["lifecycle"]);
        self.tell(Method::PUT, path, lifecycle).await.map(|(_, sandbox)| sandbox)
    }

    /// Gives it another budget of its own.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_budget(&self, sandbox: &str, budget: &Budget) -> Result<Sandbox, ClientError> {
        let path = Path::sandbox(sandbox, &["budget"]);
        self.tell(Method::PUT, path, budget).await.map(|(_, sandbox)| sandbox)
    }

    /// The budgets that sandboxes have together.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_budgets(&self) -> Result<Budgets, ClientError> {
        self.ask(Method::GET, Path::of(&["budgets"])).await
    }

    /// Does something to it, and gives it as it is then.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn act(&self, sandbox: &str, action: Action) -> Result<Sandbox, ClientError> {
        self.ask(Method::POST, Path::sandbox(sandbox, &[action.as_str()])).await
    }

    /// Deletes it. On return its name is free; its files are removed afterwards.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_sandbox(&self, sandbox: &str) -> Result<Sandbox, ClientError> {
        let request = self.request(Method::DELETE, &Path::sandbox(sandbox, &[]));
        self.receive(request, Upload::empty()).await.map(|(_, sandbox)| sandbox)
    }

    /// The same, but for the archive of one that is archived, which stays.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_but_archive(&self, sandbox: &str) -> Result<Sandbox, ClientError> {
        let path = Path::sandbox(sandbox, &[]).with_some("keep_archive", Some(true));
        let request = self.request(Method::DELETE, &path);
        self.receive(request, Upload::empty()).await.map(|(_, sandbox)| sandbox)
    }
}
