//! A machine in memory, a clock that stands still, and engines that come and go on them.

use atoll_api::id::SandboxId;
use atoll_api::sandbox::{
    CreateSandbox, Event, EventKind, Lifecycle, ListSandboxes, Sandbox, State,
};
use atoll_engine::archives::Archives;
use atoll_engine::backend::fake::{Fake, Host};
use atoll_engine::clock::ManualClock;
use atoll_engine::{Config, Engine, Outward};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::broadcast;
use tokio::time::timeout;

/// Longest that a test waits for anything; nothing comes near it.
const DEADLINE: Duration = Duration::from_secs(20);

/// What outlives an engine.
pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) config: Config,
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            host: Host::new(),
            clock: Arc::default(),
            config: Config::default(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.folder.path().join("records.sqlite")
    }

    pub(crate) async fn start(&self) -> Engine {
        self.start_with(Fake::on(&self.host)).await
    }

    pub(crate) async fn start_with_archives(&self, archives: Archives) -> Engine {
        let outward = Outward { archives: Some(archives), ..Outward::default() };
        let backend = Arc::new(Fake::on(&self.host));
        let (clock, records) = (self.clock.clone(), self.records());
        Engine::start_with(self.config.clone(), backend, clock, records, outward).await.unwrap()
    }

    /// A directory of the server's own.
    pub(crate) fn own(&self) -> PathBuf {
        self.folder.path().join("archives")
    }

    pub(crate) async fn start_with(&self, backend: Fake) -> Engine {
        let backend = Arc::new(backend);
        Engine::start(self.config.clone(), backend, self.clock.clone(), self.records())
            .await
            .unwrap()
    }

    /// Fails unless what is on the host is what the engine lists.
    #[track_caller]
    pub(crate) fn nothing_is_left_behind(&self, engine: &Engine) {
        let listed: Vec<_> = all(engine).iter().map(|sandbox| sandbox.id).collect();
        assert_eq!(self.host.leaks(&listed), [""; 0]);
        let there = self.host.ids();
        assert!(listed.iter().all(|id| there.contains(id)), "{listed:?} of {there:?}");
    }

    /// Waits until nothing is on the host that the engine does not list.
    pub(crate) async fn settled(&self, engine: &Engine) {
        self.host
            .until(|host| {
                let listed: Vec<_> = all(engine).iter().map(|sandbox| sandbox.id).collect();
                host.leaks(&listed).is_empty()
            })
            .await;
    }
}

/// Runs one life of an engine on one thread. What is left when `life` is over ends where
/// it stands, as the death of a server would end it.
pub(crate) fn live<T>(life: impl Future<Output = T>) -> T {
    run(Builder::new_current_thread(), DEADLINE, life)
}

/// The same, of which much is asked.
pub(crate) fn live_long<T>(life: impl Future<Output = T>) -> T {
    run(Builder::new_current_thread(), 6 * DEADLINE, life)
}

/// The same, where tasks run at once.
pub(crate) fn live_in_parallel<T>(life: impl Future<Output = T>) -> T {
    run(Builder::new_multi_thread(), DEADLINE, life)
}

fn run<T>(mut builder: Builder, within: Duration, life: impl Future<Output = T>) -> T {
    let runtime: Runtime = builder.enable_all().build().unwrap();
    let outcome = runtime.block_on(async { timeout(within, life).await });
    runtime.shutdown_background();
    outcome.unwrap_or_else(|_| panic!("still not over after {within:?}"))
}

pub(crate) fn named(name: &str) -> CreateSandbox {
    CreateSandbox { name: Some(name.parse().unwrap()), ..CreateSandbox::default() }
}

pub(crate) fn with_lifecycle(lifecycle: Lifecycle) -> CreateSandbox {
    CreateSandbox { lifecycle, ..CreateSandbox::default() }
}

pub(crate) fn all(engine: &Engine) -> Vec<Sandbox> {
    engine
        .list(&ListSandboxes { page_count: Some(1000), ..ListSandboxes::default() })
        .unwrap()
        .sandboxes
}

#[track_caller]
pub(crate) fn state(engine: &Engine, id: SandboxId) -> State {
    engine.get(id).unwrap().state
}

/// Waits for an event of a sandbox.
pub(crate) async fn told(
    events: &mut broadcast::Receiver<Event>,
    id: SandboxId,
    is_it: impl Fn(&EventKind) -> bool,
) -> EventKind {
    loop {
        let event = events.recv().await.unwrap();
        if event.sandbox_id == id && is_it(&event.what) {
            return event.what;
        }
    }
}
