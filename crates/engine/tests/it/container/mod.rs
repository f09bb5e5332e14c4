//! Real sandboxes of the container tier, as root and as an ordinary user: each test
//! runs once more in a process of that user's.

mod life;
mod restart;

use atoll_engine::backend::Container;
use atoll_engine::clock::{Clock as _, SystemClock};
use atoll_engine::{Config, Engine};
use atoll_testkit::guest::Socket;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What outlives an engine.
pub(super) struct Machine {
    dir: TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.path().join("sandboxes")
    }

    pub(super) fn backend(&self) -> Container {
        let mut spawner = Command::new(program());
        spawner.env_clear().current_dir("/");
        Container::open(&self.state(), spawner).unwrap()
    }

    pub(super) async fn start(&self) -> Engine {
        let backend = Arc::new(self.backend());
        let records = self.dir.path().join("records.sqlite");
        let clock = Arc::new(SystemClock);
        Engine::start(Config::default(), backend, clock, records).await.unwrap()
    }

    /// The guest of a sandbox.
    pub(super) fn guest(&self, id: atoll_api::id::SandboxId) -> Socket {
        Socket::new(self.state().join(id.to_string()).join("guest"))
    }

    /// Names in the directory of sandboxes.
    pub(super) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Waits until `holds` does, while the engine goes on.
pub(super) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        SystemClock.wait_until(SystemClock.now().after(Duration::from_millis(10))).await;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A test that failed leaves sandboxes that nobody else ends.
        let backend = self.backend();
        for found in atoll_engine::backend::Backend::inventory(&backend).unwrap_or_default() {
            atoll_engine::backend::Backend::kill(&backend, found.id).ok();
            atoll_engine::backend::Backend::remove(&backend, found.id).ok();
        }
    }
}

/// The resident process's program, where every user can run it.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let directory = tests.parent().unwrap();
    let built = directory.with_file_name("examples").join("spawner");
    if built.exists() {
        return atoll_testkit::run::reachable(&built);
    }
    // These tests are a copy themselves, and root has put the newest one beside them.
    let copies = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_spawner = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"spawner-"))
    };
    let newest =
        copies.filter(is_spawner).max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.expect("the program is not built: build the examples")
}

/// Runs the test `name` once more as an ordinary user, if this is root.
fn also_as_ordinary(name: &str) {
    if rustix::process::geteuid().is_root() {
        program();
        atoll_testkit::run::again_as_ordinary(&format!("container::{name}"));
    }
}
