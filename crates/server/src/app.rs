//! What all requests have in common.

use crate::config::Config;
use crate::error::Failure;
use crate::health::Watched;
use crate::idempotency::Remembered;
use crate::keys::KeyStore;
use crate::metrics::Metrics;
use crate::preview;
use crate::rate::Rates;
use atoll_api::error::ErrorCode;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, Sandbox};
use atoll_engine::clock::Clock;
use atoll_engine::error::CreateError;
use atoll_engine::images::Images;
use atoll_engine::records::RecordsError;
use atoll_engine::{Beside, Engine, Got, Inside, Wake};
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) engine: Arc<Engine>,
    /// Images, where sandboxes are made of some.
    pub(crate) images: Option<Images>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Arc<KeyStore>,
    /// The user whose unix socket it is.
    pub(crate) owner_uid: u32,
    pub(crate) rates: Rates,
    pub(crate) remembered: Remembered,
    pub(crate) metrics: Metrics,
    pub(crate) watched: Watched,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) previews: preview::Router,
    /// Names of the server, beside its addresses.
    pub(crate) names: Vec<String>,
    /// Turns true when the server shuts down.
    pub(crate) closing: watch::Sender<bool>,
    /// Tasks that outlive the request that began them.
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

impl App {
    /// Runs a task that ends with the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are let go of, so that their number does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// What is inside of a sandbox, which is woken if it sleeps.
    pub(crate) async fn inside(&self, id: SandboxId) -> Result<Inside, Failure> {
        Ok(self.engine.inside(id, Wake::IfAsleep).await?)
    }

    /// Makes a sandbox, and notes how that went.
    pub(crate) async fn create(
        &self,
        request: CreateSandbox,
        beside: Beside,
    ) -> Result<Sandbox, CreateError> {
        let began = Instant::now();
        let made = self.engine.create_with(request, beside).await;
        self.noted(made.as_ref().map(|_| "made"), began);
        made
    }

    /// Gives the sandbox of a name, made if there is none, and notes how that went.
    pub(crate) async fn get_or_create(
        &self,
        request: CreateSandbox,
        beside: Beside,
    ) -> Result<Got, CreateError> {
        let began = Instant::now();
        let got = self.engine.get_or_create_with(request, beside).await;
        let word = |got: &Got| if got.is_new { "made" } else { "given" };
        self.noted(got.as_ref().map(word), began);
        got
    }

    /// Counts a creation, and notes whether the records had room for it.
    fn noted(&self, outcome: Result<&'static str, &CreateError>, began: Instant) {
        let word = outcome.unwrap_or_else(|error| error.to_api().code.as_str());
        self.metrics.created(word, began.elapsed());
        let is_full = matches!(
            outcome,
            Err(CreateError::Records { source, .. }) if matches!(**source, RecordsError::Full { .. })
        );
        // What fails for another reason says nothing of the records.
        if is_full || outcome.is_ok() {
            self.watched.records_are_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Runs what may block, such as a write to the disk.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        tokio::task::spawn_blocking(work).await.map_err(|error| {
            let next_step = "ask again; if it stays so, see the server's log";
            Failure::new(ErrorCode::Internal, "the server broke off", next_step).caused_by(&error)
        })
    }
}
