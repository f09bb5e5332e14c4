//! Real sandboxes of the container tier, as root and as an ordinary user: each test
//! runs once more in a process of that user's.

mod archives;
mod capture;
mod depth;
mod diff;
mod images;
mod inside;
mod life;
mod packages;
mod restart;
mod services;
mod snapshots;
mod volume_limits;
mod volumes;
mod workspace;

use atoll_engine::backend::{Container, KILL_WITHIN};
use atoll_engine::clock::{Clock as _, SystemClock};
use atoll_engine::{Config, Engine, Outward};
use atoll_testkit::guest::Socket;
use std::path::{Path, PathBuf};
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

    /// The same on another file system than that of temporary files.
    pub(super) fn below(directory: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(directory).unwrap() }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.path().join("sandboxes")
    }

    pub(super) fn records(&self) -> PathBuf {
        self.dir.path().join("records.sqlite")
    }

    pub(super) fn backend(&self) -> Container {
        let mut spawner = Command::new(program("spawner"));
        spawner.env_clear().current_dir("/");
        Container::open(&self.state(), spawner, Duration::from_secs(20)).unwrap()
    }

    pub(super) async fn start(&self) -> Engine {
        self.start_with(Config::default()).await
    }

    pub(super) async fn start_with(&self, config: Config) -> Engine {
        self.start_outward(config, Outward::default()).await
    }

    pub(super) async fn start_outward(&self, config: Config, outward: Outward) -> Engine {
        let backend = Arc::new(self.backend());
        let clock = Arc::new(SystemClock);
        Engine::start_with(config, backend, clock, self.records(), outward).await.unwrap()
    }

    /// The guest of a sandbox.
    pub(super) fn guest(&self, id: atoll_api::id::SandboxId) -> Socket {
        Socket::new(self.state().join(id.to_string()).join("guest"))
    }

    /// Names in the directory of sandboxes.
    pub(super) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let of_all = ["etc", "images", "layers", "volumes", ".trash"];
        names.filter(|name| !of_all.contains(&name.as_str())).collect()
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
            atoll_engine::backend::Backend::kill(&backend, found.id, KILL_WITHIN).ok();
            atoll_engine::backend::Backend::remove(&backend, found.id).ok();
        }
    }
}

/// A program of the examples, where every user can run it.
pub(super) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let directory = tests.parent().unwrap();
    let built = directory.with_file_name("examples").join(name);
    if built.exists() {
        return atoll_testkit::run::reachable(&built);
    }
    // These tests are a copy themselves, and root has put the newest one beside them.
    let copies = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let prefix = format!("{name}-");
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let newest =
        copies.filter(is_it).max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.expect("the program is not built: build the examples")
}

fn also_as_ordinary(name: &str) {
    again_as_ordinary(&format!("container::{name}"));
}

/// Runs the test `name` once more as an ordinary user, if this is root.
pub(super) fn again_as_ordinary(name: &str) {
    if rustix::process::geteuid().is_root() {
        program("spawner");
        program("churn");
        atoll_testkit::run::again_as_ordinary(name);
    }
}
