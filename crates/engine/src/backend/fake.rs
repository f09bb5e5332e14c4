//! A backend in memory, for tests of this crate and of others.
//!
//! [`Host`] stands for the machine and outlives every [`Fake`] on it, as a machine
//! outlives the servers that run on it. A test can let a call fail, or hold it at
//! a [`Moment`] until it is let go, and can ask what was left behind.

use super::{
    Alive, Backend, BackendError, Capabilities, Differences, Fill, Flat, Found, Layer, Processes,
    Progress, Show, Spec, Taken, VolumeCopied, VolumePlace,
};
use crate::usage::Measured;
use atoll_api::id::{LayerId, SandboxId, VolumeId};
use atoll_api::sandbox::{Stage, Tier};
use atoll_api::snapshot::SnapshotWay;
use atoll_api::volume::VolumeLimitBy;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

mod archives;
mod depth;
mod files;
mod gate;
mod volumes;

pub use gate::Gate;

/// The calls of [`Backend`] that change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`Backend::create`].
    Create,
    /// [`Backend::start`].
    Start,
    /// [`Backend::adopt`].
    Adopt,
    /// [`Backend::freeze`].
    Freeze,
    /// [`Backend::thaw`].
    Thaw,
    /// [`Backend::stop`].
    Stop,
    /// [`Backend::kill`].
    Kill,
    /// [`Backend::remove`].
    Remove,
    /// [`Backend::snapshot`].
    Snapshot,
    /// [`Backend::restore`].
    Restore,
    /// [`Backend::diff`].
    Diff,
    /// [`Backend::flatten`], where there is something to do.
    Flatten,
    /// [`Backend::create_volume`].
    CreateVolume,
    /// [`Backend::remove_volume`].
    RemoveVolume,
    /// [`Backend::copy_volume`].
    CopyVolume,
    /// [`Backend::export_volume`].
    ExportVolume,
    /// [`Backend::limit_volume`].
    LimitVolume,
    /// [`Backend::measure_volume`].
    MeasureVolume,
    /// [`Backend::show_chain`].
    Show,
    /// [`Backend::stage_chain`].
    Stage,
    /// [`Backend::place_chain`].
    Place,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Create,
        Self::Start,
        Self::Adopt,
        Self::Freeze,
        Self::Thaw,
        Self::Stop,
        Self::Kill,
        Self::Remove,
        Self::Snapshot,
        Self::Restore,
        Self::Diff,
        Self::Flatten,
        Self::CreateVolume,
        Self::RemoveVolume,
        Self::CopyVolume,
        Self::ExportVolume,
        Self::LimitVolume,
        Self::MeasureVolume,
        Self::Show,
        Self::Stage,
        Self::Place,
    ];
}

/// Where in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing has been done yet.
    Before,
    /// Half of it has been done, where a call has two halves.
    Midway,
    /// All has been done, and it was not told yet.
    After,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::Midway, Self::After];
}

/// What a call does instead of going on.
enum Fault {
    Fail(fn() -> BackendError),
    Hold(Arc<Gate>),
}

/// A machine in memory, with everything that sandboxes leave on it.
#[derive(Default)]
pub struct Host {
    state: Mutex<HostState>,
    /// Turns whenever a call comes to one of its moments.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct HostState {
    sandboxes: BTreeMap<SandboxId, Parts>,
    layers: BTreeMap<LayerId, Kept>,
    /// What is to be layers.
    staged: BTreeMap<LayerId, Kept>,
    /// What shows the same as a layer with all below it.
    flats: BTreeMap<LayerId, LayerId>,
    faults: Vec<(Call, Moment, Fault)>,
    calls: Vec<Call>,
    most_at_once: usize,
    given_up: usize,
    ignores_stop: bool,
    ends_slowly: bool,
    guests_at: Option<PathBuf>,
    volumes: volumes::Volumes,
}

/// What is on the host of one sandbox.
#[derive(Default)]
struct Parts {
    has_directory: bool,
    has_files: bool,
    group: Option<Group>,
    cpu: Duration,
    kept: Kept,
    /// The layers below what runs.
    mounted: Vec<LayerId>,
    memory_bytes: Option<u64>,
    /// The volumes that its processes have, or had last.
    volumes: Vec<VolumePlace>,
}

/// What a sandbox keeps, or kept when it was set aside.
#[derive(Clone, Default)]
struct Kept {
    /// The layers below, the lowest first.
    below: Vec<LayerId>,
    /// What was written above them.
    files: files::Files,
}

/// Processes: the write end of their pipe is open as long as the first one lives.
struct Group {
    is_frozen: bool,
    first: Option<(PipeWriter, io::PipeReader)>,
}

impl Host {
    /// A machine with nothing on it.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets every `call` fail at `moment` with an error of the system, until [`Host::heal`].
    pub fn fail(&self, call: Call, moment: Moment) {
        let error = || BackendError::Call {
            step: "do what a test lets fail",
            source: io::Error::from(io::ErrorKind::Other),
        };
        self.state().faults.push((call, moment, Fault::Fail(error)));
    }

    /// Lets every `call` fail at `moment` for want of disk space, until [`Host::heal`].
    pub fn fill_disk(&self, call: Call, moment: Moment) {
        let error = || BackendError::DiskFull { step: "while a test filled the disk" };
        self.state().faults.push((call, moment, Fault::Fail(error)));
    }

    /// Holds every `call` at `moment`, until [`Host::heal`] or the gate is opened.
    pub fn hold(&self, call: Call, moment: Moment) -> Arc<Gate> {
        let gate = Arc::new(Gate::new());
        self.state().faults.push((call, moment, Fault::Hold(gate.clone())));
        gate
    }

    /// Takes all faults back. Calls that are held stay so until their gate is opened.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Has every guest listen at this path; otherwise none does.
    pub fn guests_at(&self, path: PathBuf) {
        self.state().guests_at = Some(path);
    }

    /// Lets the processes of every sandbox ignore that they are asked to end.
    pub fn ignore_stop(&self) {
        self.state().ignores_stop = true;
    }

    /// Lets killed processes be gone no sooner than [`KILL_WITHIN`](super::KILL_WITHIN).
    pub fn end_slowly(&self) {
        self.state().ends_slowly = true;
    }

    /// Lets the first process of a sandbox end by itself.
    pub fn end(&self, id: SandboxId) {
        if let Some(parts) = self.state().sandboxes.get_mut(&id) {
            parts.group = None;
        }
    }

    /// Freezes or thaws a sandbox behind the engine's back.
    pub fn set_frozen(&self, id: SandboxId, is_frozen: bool) {
        if let Some(group) = self.state().group(id) {
            group.is_frozen = is_frozen;
        }
    }

    /// Takes everything of a sandbox away behind the engine's back.
    pub fn lose(&self, id: SandboxId) {
        self.state().sandboxes.remove(&id);
    }

    /// Lets a sandbox have used so much more processor time.
    pub fn use_cpu(&self, id: SandboxId, more: Duration) {
        if let Some(parts) = self.state().sandboxes.get_mut(&id) {
            parts.cpu += more;
        }
    }

    /// Lets a sandbox have so much memory.
    pub fn use_memory(&self, id: SandboxId, bytes: u64) {
        if let Some(parts) = self.state().sandboxes.get_mut(&id) {
            parts.memory_bytes = Some(bytes);
        }
    }

    /// Lets a sandbox have written a file of so many bytes, or removed it.
    pub fn write(&self, id: SandboxId, path: &str, bytes: Option<u64>) {
        if let Some(parts) = self.state().sandboxes.get_mut(&id) {
            parts.kept.files.insert(path.to_owned(), bytes);
        }
    }

    /// Most layers that are below a sandbox.
    pub fn deepest(&self) -> usize {
        let state = self.state();
        state.sandboxes.values().map(|parts| parts.kept.below.len()).max().unwrap_or_default()
    }

    /// The files that a sandbox has, with their lengths.
    pub fn files(&self, id: SandboxId) -> BTreeMap<String, Option<u64>> {
        let state = self.state();
        let Some(parts) = state.sandboxes.get(&id) else { return BTreeMap::new() };
        // One that runs sees what is mounted, or less if that is not there any more.
        let below = if parts.group.is_some() { &parts.mounted } else { &parts.kept.below };
        let layers = below.iter().filter_map(|layer| state.layers.get(layer));
        files::shown(layers.map(|layer| &layer.files).chain([&parts.kept.files]))
    }

    /// Waits until `condition` holds, which is looked at whenever a call goes on.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        while !condition(self) {
            changes.changed().await.expect("the sender is borrowed");
        }
    }

    /// Whose something is on the host.
    pub fn ids(&self) -> Vec<SandboxId> {
        self.state().sandboxes.keys().copied().collect()
    }

    /// What is on the host of sandboxes other than `known`: what was left behind.
    pub fn leaks(&self, known: &[SandboxId]) -> Vec<String> {
        let state = self.state();
        let unknown = state.sandboxes.iter().filter(|(id, _)| !known.contains(id));
        unknown
            .flat_map(|(id, parts)| parts.names().map(move |name| format!("{name} of {id}")))
            .collect()
    }

    /// What the processes of a sandbox do.
    pub fn processes(&self, id: SandboxId) -> Processes {
        self.state().sandboxes.get(&id).map_or(Processes::None, Parts::processes)
    }

    /// The layers on it.
    pub fn layers(&self) -> Vec<LayerId> {
        self.state().layers.keys().copied().collect()
    }

    /// How often a call was made.
    pub fn count(&self, call: Call) -> usize {
        self.state().calls.iter().filter(|made| **made == call).count()
    }

    /// How often a comparison was given up.
    pub fn given_up(&self) -> usize {
        self.state().given_up
    }

    /// Most sandboxes of which something was here at the same time.
    pub fn most_at_once(&self) -> usize {
        self.state().most_at_once
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        lock(&self.state)
    }

    /// Comes to a moment of a call. The host is not locked while it is held there.
    fn at(&self, call: Call, moment: Moment) -> Result<(), BackendError> {
        self.changes.send_modify(|count| *count += 1);
        let gate = {
            let state = self.state();
            let fault = state.faults.iter().find(|(c, m, _)| (*c, *m) == (call, moment));
            match fault {
                None => return Ok(()),
                Some((.., Fault::Fail(error))) => return Err(error()),
                Some((.., Fault::Hold(gate))) => gate.clone(),
            }
        };
        gate.pass()
    }

    /// A call with one effect.
    fn simple(
        &self,
        call: Call,
        effect: impl FnOnce(&mut HostState) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        self.state().calls.push(call);
        self.at(call, Moment::Before)?;
        effect(&mut self.state())?;
        self.at(call, Moment::After)
    }
}

impl HostState {
    fn group(&mut self, id: SandboxId) -> Option<&mut Group> {
        self.sandboxes.get_mut(&id)?.group.as_mut()
    }

    /// A layer with all that are below it.
    fn onto(&self, layer: LayerId) -> Result<Vec<LayerId>, BackendError> {
        let gone = || BackendError::Call {
            step: "find the files of the snapshot",
            source: io::ErrorKind::NotFound.into(),
        };
        let flat = self.flats.get(&layer).filter(|flat| self.layers.contains_key(flat));
        if let Some(flat) = flat {
            return Ok(vec![*flat]);
        }
        let kept = self.layers.get(&layer).ok_or_else(gone)?;
        Ok(kept.below.iter().copied().chain([layer]).collect())
    }

    /// The files that a layer shows with those below it.
    fn shown(&self, layer: LayerId) -> Result<files::Files, BackendError> {
        let chain = self.onto(layer)?;
        let layers = chain.iter().filter_map(|layer| self.layers.get(layer));
        Ok(files::shown(layers.map(|layer| &layer.files)))
    }

    fn parts(&mut self, id: SandboxId) -> Result<&mut Parts, BackendError> {
        self.sandboxes.get_mut(&id).ok_or(BackendError::NotFound { id })
    }
}

impl Parts {
    fn processes(&self) -> Processes {
        match &self.group {
            Some(Group { is_frozen: true, .. }) => Processes::Frozen,
            Some(Group { is_frozen: false, first: Some(_) }) => Processes::Running,
            Some(Group { is_frozen: false, first: None }) | None => Processes::None,
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let names = [
            (self.has_directory, "directory"),
            (self.has_files, "files"),
            (self.group.is_some(), "group"),
        ];
        names.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name)
    }
}

/// The backend: a server's hands on a [`Host`].
#[derive(Clone)]
pub struct Fake {
    host: Arc<Host>,
    capabilities: Capabilities,
}

impl Fake {
    /// A backend that can do everything.
    pub fn on(host: &Arc<Host>) -> Self {
        let capabilities = Capabilities {
            pause: true,
            limit_memory: true,
            limit_cpus: true,
            limit_pids: true,
            measure_cpu: true,
            limit_disk: true,
            user_root: true,
            writable_root: true,
            snapshot: true,
            volumes: true,
        };
        Self { host: host.clone(), capabilities }
    }

    /// The same with other capabilities.
    #[must_use]
    pub fn with(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }
}

impl Backend for Fake {
    fn tier(&self) -> Tier {
        Tier::Container
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn create(&self, id: SandboxId, spec: &Spec, progress: &Progress) -> Result<(), BackendError> {
        self.host.state().calls.push(Call::Create);
        self.host.at(Call::Create, Moment::Before)?;
        {
            let mut state = self.host.state();
            state.sandboxes.entry(id).or_default().has_directory = true;
            state.most_at_once = state.most_at_once.max(state.sandboxes.len());
        }
        progress.reached(Stage::Allocated)?;
        self.host.at(Call::Create, Moment::Midway)?;
        {
            let mut state = self.host.state();
            let below = spec.layer.map(|layer| state.onto(layer)).transpose()?;
            let parts = state.parts(id)?;
            parts.kept.below = below.unwrap_or_default();
            parts.has_files = true;
        }
        progress.reached(Stage::FilesystemReady)?;
        self.host.at(Call::Create, Moment::After)
    }

    fn start(
        &self,
        id: SandboxId,
        spec: &Spec,
        progress: &Progress,
    ) -> Result<Alive, BackendError> {
        self.host.state().calls.push(Call::Start);
        self.host.at(Call::Start, Moment::Before)?;
        {
            let mut state = self.host.state();
            state.volumes.have_all(&spec.volumes)?;
            let parts = state.parts(id)?;
            parts.volumes.clone_from(&spec.volumes);
            parts.group = Some(Group { is_frozen: false, first: None });
            parts.mounted.clone_from(&parts.kept.below);
            (parts.cpu, parts.memory_bytes) = (Duration::ZERO, None);
        }
        self.host.at(Call::Start, Moment::Midway)?;
        if let Some(group) = self.host.state().group(id) {
            let pipe =
                io::pipe().map_err(|source| BackendError::Call { step: "make a pipe", source })?;
            group.first = Some((pipe.1, pipe.0));
        }
        progress.reached(Stage::RuntimeReady)?;
        self.host.at(Call::Start, Moment::After)?;
        self.alive(id)
    }

    fn adopt(&self, id: SandboxId) -> Result<Alive, BackendError> {
        self.host.simple(Call::Adopt, |_| Ok(()))?;
        self.alive(id)
    }

    fn freeze(&self, id: SandboxId) -> Result<(), BackendError> {
        self.host.simple(Call::Freeze, |state| {
            state.group(id).ok_or(BackendError::NotFound { id })?.is_frozen = true;
            Ok(())
        })
    }

    fn thaw(&self, id: SandboxId) -> Result<(), BackendError> {
        self.host.simple(Call::Thaw, |state| {
            state.group(id).ok_or(BackendError::NotFound { id })?.is_frozen = false;
            Ok(())
        })
    }

    fn stop(&self, id: SandboxId) -> Result<(), BackendError> {
        self.host.simple(Call::Stop, |state| {
            // Frozen processes do not hear it.
            let hears =
                !state.ignores_stop && state.group(id).is_some_and(|group| !group.is_frozen);
            if hears {
                state.parts(id)?.group = None;
            }
            Ok(())
        })
    }

    fn kill(&self, id: SandboxId, within: Duration) -> Result<(), BackendError> {
        self.host.simple(Call::Kill, |state| {
            if state.ends_slowly && within < super::KILL_WITHIN {
                let source = io::Error::from(io::ErrorKind::TimedOut);
                return Err(BackendError::Call { step: "wait for its end", source });
            }
            if let Some(parts) = state.sandboxes.get_mut(&id) {
                parts.group = None;
            }
            Ok(())
        })
    }

    fn remove(&self, id: SandboxId) -> Result<(), BackendError> {
        self.host.state().calls.push(Call::Remove);
        self.host.at(Call::Remove, Moment::Before)?;
        if let Some(parts) = self.host.state().sandboxes.get_mut(&id) {
            parts.group = None;
            parts.has_files = false;
        }
        self.host.at(Call::Remove, Moment::Midway)?;
        self.host.state().sandboxes.remove(&id);
        self.host.at(Call::Remove, Moment::After)
    }

    fn snapshot(
        &self,
        id: SandboxId,
        layer: LayerId,
        processes: Processes,
        _progress: &Progress,
    ) -> Result<Taken, BackendError> {
        let (mut way, mut below) = (SnapshotWay::Rename, 0);
        self.host.simple(Call::Snapshot, |state| {
            let parts = state.parts(id)?;
            let kept = parts.kept.clone();
            below = kept.below.len();
            match processes {
                Processes::None => {
                    parts.kept.below.push(layer);
                    parts.kept.files.clear();
                }
                Processes::Running | Processes::Frozen => way = SnapshotWay::Copy,
            }
            state.layers.insert(layer, kept);
            Ok(())
        })?;
        Ok(Taken { way, files: None, copied_bytes: 0, below })
    }

    fn sync_layer(&self, _layer: LayerId) -> Result<(), BackendError> {
        Ok(())
    }

    fn restore(&self, id: SandboxId, layer: LayerId) -> Result<(), BackendError> {
        self.host.simple(Call::Restore, |state| {
            let below = state.onto(layer)?;
            state.parts(id)?.kept = Kept { below, files: files::Files::new() };
            Ok(())
        })
    }

    fn layers(&self) -> Result<Vec<Layer>, BackendError> {
        let state = self.host.state();
        Ok(state.layers.keys().map(|&id| Layer { id, is_whole: true }).collect())
    }

    fn collect(&self, keep: &BTreeSet<LayerId>) -> Result<Vec<LayerId>, BackendError> {
        let mut state = self.host.state();
        let mut needed = keep.clone();
        needed.extend(
            keep.iter().filter_map(|layer| state.layers.get(layer)).flat_map(|it| &it.below),
        );
        needed.extend(keep.iter().filter_map(|layer| state.flats.get(layer)));
        for parts in state.sandboxes.values() {
            needed.extend(&parts.kept.below);
            if parts.group.is_some() {
                needed.extend(&parts.mounted);
            }
        }
        let gone = state.layers.keys().filter(|layer| !needed.contains(layer)).copied();
        let gone: Vec<LayerId> = gone.collect();
        state.layers.retain(|layer, _| needed.contains(layer));
        drop(state);
        self.host.changes.send_modify(|count| *count += 1);
        Ok(gone)
    }

    fn flatten(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
        _progress: &Progress,
    ) -> Result<Option<Flat>, BackendError> {
        let deep = self.host.state().deep(keep, most);
        let Some((last, chain)) = deep else { return Ok(None) };
        self.host.state().calls.push(Call::Flatten);
        self.host.at(Call::Flatten, Moment::Before)?;
        let flat = self.host.state().make_flat(last, &chain)?;
        self.host.at(Call::Flatten, Moment::Midway)?;
        self.host.state().list_flat(&chain, flat);
        self.host.at(Call::Flatten, Moment::After)?;
        Ok(Some(Flat { layers: chain.len(), directories: 1, ..Flat::default() }))
    }

    fn diff(
        &self,
        before: Option<LayerId>,
        after: LayerId,
        _image: &str,
        most: usize,
        progress: &Progress,
    ) -> Result<Differences, BackendError> {
        self.host.state().calls.push(Call::Diff);
        self.host.at(Call::Diff, Moment::Before)?;
        if progress.is_cancelled() {
            self.host.state().given_up += 1;
            self.host.changes.send_modify(|count| *count += 1);
            return Err(BackendError::Cancelled);
        }
        let shown = |layer| self.host.state().shown(layer);
        let before = before.map(shown).transpose()?.unwrap_or_default();
        let found = files::differences(&before, &shown(after)?, most);
        self.host.at(Call::Diff, Moment::After)?;
        Ok(found)
    }

    fn show_chain(&self, layer: LayerId, show: Show<'_>) -> Result<Option<String>, BackendError> {
        self.show(layer, show).map(|()| None)
    }

    fn stage_chain(
        &self,
        layers: &[LayerId],
        _image: (&str, Option<&str>),
        fill: Fill<'_>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.stage(layers, fill, progress)
    }

    fn place_chain(&self, layers: &[LayerId]) -> Result<(), BackendError> {
        self.place(layers)
    }

    fn measure(&self, id: SandboxId) -> Result<Measured, BackendError> {
        self.host.state().parts(id).map(|parts| Measured {
            cpu_us: u64::try_from(parts.cpu.as_micros()).ok(),
            memory_bytes: parts.memory_bytes,
        })
    }

    fn disk(&self, id: SandboxId) -> Result<Option<(u64, bool)>, BackendError> {
        self.host
            .state()
            .parts(id)
            .map(|parts| Some((if parts.has_files { 4096 } else { 0 }, true)))
    }

    fn create_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.make_volume(id)
    }

    fn copy_volume(&self, from: VolumeId, to: VolumeId) -> Result<VolumeCopied, BackendError> {
        self.volume_copy(from, to)
    }

    fn export_volume(&self, id: VolumeId, out: &mut dyn Write) -> Result<(), BackendError> {
        self.write_volume(id, out)
    }

    fn check_folder(&self, path: &Path, _is_writable: bool) -> Result<(), BackendError> {
        volumes::look_at_folder(path)
    }

    fn limit_volume(
        &self,
        id: VolumeId,
        bytes: Option<u64>,
    ) -> Result<VolumeLimitBy, BackendError> {
        self.have_limited(id, bytes)
    }

    fn measure_volume(&self, id: VolumeId) -> Result<u64, BackendError> {
        self.volume_bytes(id)
    }

    fn sync_volume(&self, _id: VolumeId) -> Result<(), BackendError> {
        Ok(())
    }

    fn remove_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.discard_volume(id)
    }

    fn volumes(&self) -> Result<Vec<VolumeId>, BackendError> {
        Ok(self.host.volumes())
    }

    fn inventory(&self) -> Result<Vec<Found>, BackendError> {
        let state = self.host.state();
        let found = state.sandboxes.iter().map(|(&id, parts)| Found {
            id,
            processes: parts.processes(),
            is_whole: parts.has_directory && parts.has_files,
        });
        Ok(found.collect())
    }
}

impl Fake {
    fn alive(&self, id: SandboxId) -> Result<Alive, BackendError> {
        let mut state = self.host.state();
        let first = state.group(id).and_then(|group| group.first.as_ref());
        let (_, exit) = first.ok_or(BackendError::NotFound { id })?;
        let exit = exit.try_clone();
        let exit = exit.map_err(|source| BackendError::Call { step: "copy a pipe", source })?;
        let guest = state.guests_at.clone();
        let guest = guest.unwrap_or_else(|| PathBuf::from(format!("/fake/{id}.sock")));
        Ok(Alive { exit: exit.into(), guest })
    }
}

/// A test that panicked while it held the lock has failed already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
