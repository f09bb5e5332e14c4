//! Templates: how they are built, and which there are.
//!
//! | to know | read |
//! |---|---|
//! | what the steps mean, and when an outcome is that of the same steps | [`chain`] |
//! | what may follow on what in a build | [`state`] |
//! | how a build begins and ends | `build` |
//! | how it is carried out | `builder`, and `step` for one step of it |
//! | what it says meanwhile | `log` |
//! | what was sent to be copied | `files` |
//! | what is kept no longer | `keeper` |
//!
//! A build makes an ordinary sandbox and does one step after the other in it, through the same calls
//! as everybody. After each step that changes files the sandbox is stopped and a snapshot is taken
//! of it, which belongs to the build and is seen by nobody else; a later build begins with the
//! deepest of them that is of the same steps. A version of a template is such a snapshot with what
//! is said beside it: it is written down, and the build as ready, in one step.

mod build;
mod builder;
pub mod chain;
mod error;
mod files;
mod keeper;
mod kept;
mod log;
pub mod state;
mod step;

pub use chain::Key;
pub use error::TemplateError;
pub(crate) use keeper::keep;
pub use kept::{Cached, KeptBuild, Version};

use crate::records::KnownTemplates;
use atoll_api::id::{BuildId, SandboxId, SnapshotId};
use atoll_api::template::{
    Build, BuildLogEntry, BuildState, FilesDigest, Template, TemplateName, TemplateRef,
    TemplateStep, Templates as All,
};
use files::Files;
use log::Log;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as Order, Notify, Semaphore, watch};

/// What building templates may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Builds that are under way at once; others wait.
    pub builds_at_once: usize,
    /// Builds that wait or are under way.
    pub builds_max: usize,
    /// Builds that are remembered after their end.
    pub builds_kept: usize,
    /// How long one may take.
    pub build_timeout: Duration,
    /// Outcomes of steps that are kept; the least lately used make room.
    pub steps_max: usize,
    /// How long one is kept that nothing begins with.
    pub steps_kept_for: Duration,
    /// Bytes of all files together that were sent to be copied.
    pub files_bytes_max: u64,
    /// Bytes of one build's log; the oldest lines make room.
    pub log_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            builds_at_once: 2,
            builds_max: 64,
            builds_kept: 200,
            build_timeout: Duration::from_secs(2 * 3600),
            steps_max: 500,
            steps_kept_for: Duration::from_secs(14 * 24 * 3600),
            files_bytes_max: 4 << 30,
            log_bytes_max: 1 << 20,
        }
    }
}

/// All templates, and what belongs to them.
#[derive(Debug)]
pub(crate) struct Templates {
    limits: Limits,
    book: Mutex<Book>,
    pub(crate) files: Files,
    logs: PathBuf,
    /// Places of builds that are under way.
    places: Semaphore,
    /// Had by who adds or removes versions, so that numbers are given once.
    order: Order<()>,
    garbage: Notify,
}

#[derive(Debug, Default)]
struct Book {
    names: BTreeMap<TemplateName, Named>,
    builds: BTreeMap<BuildId, KeptBuild>,
    steps: BTreeMap<Key, Cached>,
    live: BTreeMap<BuildId, Arc<Live>>,
}

#[derive(Debug, Default)]
struct Named {
    /// The last number that a version had.
    last: u32,
    versions: BTreeMap<u32, Version>,
}

/// A build that has not ended.
#[derive(Debug)]
pub(crate) struct Live {
    id: BuildId,
    log: Log,
    cancelled: watch::Sender<bool>,
    ended: watch::Sender<bool>,
    has: Mutex<Has>,
}

/// What a build has that must stay until its end.
#[derive(Debug, Default)]
struct Has {
    sandboxes: Vec<SandboxId>,
    snapshots: Vec<SnapshotId>,
}

impl Live {
    fn new(id: BuildId, log_bytes_max: usize) -> Self {
        let (cancelled, ended) = (watch::Sender::new(false), watch::Sender::new(false));
        Self { id, log: Log::new(log_bytes_max), cancelled, ended, has: Mutex::default() }
    }

    fn has(&self) -> MutexGuard<'_, Has> {
        self.has.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Templates {
    /// Those that are recorded. `state` is where files and logs are.
    pub(crate) fn open(limits: Limits, state: &Path, known: KnownTemplates) -> io::Result<Self> {
        let files = Files::open(state.join("templates").join("files"), limits.files_bytes_max)?;
        let logs = state.join("templates").join("logs");
        std::fs::create_dir_all(&logs)?;
        let mut book = Book::default();
        for (name, last) in known.names {
            book.names.insert(name, Named { last, versions: BTreeMap::new() });
        }
        for version in known.versions {
            let named = book.names.entry(version.name.clone()).or_default();
            named.last = named.last.max(version.number);
            named.versions.insert(version.number, version);
        }
        book.builds = known.builds.into_iter().map(|build| (build.shown.id, build)).collect();
        book.steps = known.steps.into_iter().map(|step| (step.key.clone(), step)).collect();
        let places = Semaphore::new(limits.builds_at_once.max(1));
        let (order, garbage) = (Order::new(()), Notify::new());
        Ok(Self { limits, book: Mutex::new(book), files, logs, places, order, garbage })
    }

    /// For a look or a change, and never across a wait.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version that is called so.
    pub(crate) fn version(&self, wanted: &TemplateRef) -> Option<Version> {
        let book = self.book();
        let versions = &book.names.get(&wanted.name)?.versions;
        match wanted.version {
            Some(number) => versions.get(&number).cloned(),
            None => versions.last_key_value().map(|(_, version)| version.clone()),
        }
    }

    /// All templates that have a version.
    pub(crate) fn list(&self) -> All {
        let book = self.book();
        let has_some = book.names.iter().filter(|(_, named)| !named.versions.is_empty());
        All { templates: has_some.map(|(name, named)| named.view(name, None)).collect() }
    }

    /// One template, with the version that is asked for or all.
    pub(crate) fn get(&self, wanted: &TemplateRef) -> Result<Template, TemplateError> {
        let book = self.book();
        let named = book.names.get(&wanted.name);
        let view = named.map(|named| named.view(&wanted.name, wanted.version));
        let not_found = || TemplateError::NotFound { template: wanted.clone() };
        view.filter(|view| !view.versions.is_empty()).ok_or_else(not_found)
    }

    /// A build as it is now.
    pub(crate) fn build(&self, id: BuildId) -> Result<Build, TemplateError> {
        let book = self.book();
        let build = book.builds.get(&id).ok_or(TemplateError::NoBuild { id })?;
        Ok(build.shown.clone())
    }

    /// The builds that are remembered, the latest first.
    pub(crate) fn builds(&self, name: Option<&TemplateName>) -> Vec<Build> {
        let book = self.book();
        let shown = book.builds.values().map(|build| &build.shown);
        let mut shown: Vec<Build> =
            shown.filter(|build| name.is_none_or(|name| build.name == *name)).cloned().collect();
        shown.sort_by_key(|build| std::cmp::Reverse((build.created_at, build.id)));
        shown
    }

    fn live(&self, id: BuildId) -> Option<Arc<Live>> {
        self.book().live.get(&id).cloned()
    }

    /// Lines of a build's log, read from the disk where the build has ended.
    pub(crate) fn lines(&self, id: BuildId, offset: u64) -> Vec<BuildLogEntry> {
        match self.live(id) {
            Some(live) => live.log.read(offset),
            // One that was never written has no lines.
            None => std::fs::read(self.log_path(id))
                .map(|text| log::read_text(&text, offset))
                .unwrap_or_default(),
        }
    }

    /// Turns when a build says more, and ends with it; nothing of one that has ended.
    pub(crate) fn changes(&self, id: BuildId) -> Option<watch::Receiver<u64>> {
        self.live(id).map(|live| live.log.changes())
    }

    fn log_path(&self, id: BuildId) -> PathBuf {
        self.logs.join(format!("{id}.jsonl"))
    }

    /// Changes what is shown of a build, without writing it down.
    fn show(&self, id: BuildId, change: impl FnOnce(&mut Build)) {
        if let Some(build) = self.book().builds.get_mut(&id) {
            change(&mut build.shown);
        }
    }

    /// Notes what became of builds that an earlier server carried out.
    pub(crate) fn broke_off(&self, failed: &[KeptBuild]) {
        let mut book = self.book();
        for build in failed {
            book.builds.insert(build.shown.id, build.clone());
        }
    }

    /// Snapshots that something begins with, or may.
    fn snapshots_needed(&self) -> (BTreeSet<SnapshotId>, BTreeSet<SandboxId>) {
        let book = self.book();
        let versions = book.names.values().flat_map(|named| named.versions.values());
        let mut snapshots: BTreeSet<_> = versions.map(|version| version.snapshot).collect();
        snapshots.extend(book.steps.values().map(|step| step.snapshot));
        let mut sandboxes = BTreeSet::new();
        for live in book.live.values() {
            let has = live.has();
            snapshots.extend(&has.snapshots);
            sandboxes.extend(&has.sandboxes);
        }
        (snapshots, sandboxes)
    }

    /// The names of files that builds need that have not ended.
    fn files_needed(&self) -> BTreeSet<String> {
        let book = self.book();
        let requests = book.builds.values().filter_map(|build| build.request.as_deref());
        requests.flat_map(|request| copied(&request.steps)).map(|(_, files)| files.hex()).collect()
    }

    /// Has somebody look for what is needed no longer.
    pub(crate) fn may_be_garbage(&self) {
        self.garbage.notify_one();
    }
}

impl Named {
    fn view(&self, name: &TemplateName, version: Option<u32>) -> Template {
        let wanted = self.versions.values().rev();
        let wanted = wanted.filter(|kept| version.is_none_or(|version| kept.number == version));
        Template { name: name.clone(), versions: wanted.map(Version::view).collect() }
    }
}

/// The files that steps copy, with the number of each step.
fn copied(steps: &[TemplateStep]) -> impl Iterator<Item = (u32, FilesDigest)> {
    (1..).zip(steps).filter_map(|(number, step)| match step {
        TemplateStep::Copy(copy) => Some((number, copy.files)),
        _ => None,
    })
}

/// What was under way when a server ended.
pub(crate) fn broken_off(builds: &[KeptBuild]) -> Vec<KeptBuild> {
    let under_way = builds.iter().filter(|build| !build.shown.state.is_last());
    let failed = |build: &KeptBuild| {
        let mut shown = build.shown.clone();
        shown.state = BuildState::Failed;
        shown.sandbox_id = None;
        shown.reason =
            Some(builder::reason("the server ended while it was under way; build it again"));
        KeptBuild { shown, request: None }
    };
    under_way.map(failed).collect()
}
