//! Directories and control groups of sandboxes on the host.

use super::top::Top;
use crate::backend::{BackendError, Capabilities};
use atoll_api::id::{LayerId, SandboxId};
use atoll_api::sandbox;
use atoll_jail::cgroup::{self, CgroupError, Group, Layout};
use atoll_spawner::client::SpawnError;
use atoll_spawner::order::VOLUME_STEP;
use atoll_store::image::Images;
use rustix::event::{Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where what becomes `/etc` lies, beside the sandboxes.
const ETC: &str = "etc";

/// Where layers lie, beside the sandboxes.
const LAYERS: &str = "layers";

/// A sandbox's note of its network.
const NETWORK: &str = "network";

/// The directories of all sandboxes.
#[derive(Debug)]
pub(super) struct Places {
    state: PathBuf,
    /// Locked: one server at a time has these sandboxes.
    fd: OwnedFd,
    /// Held while an `/etc` is put together, for all sandboxes share them.
    etc: Mutex<Option<Looked>>,
}

/// The `/etc` made of this machine's, and when it was the same.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) at: Instant,
    pub(super) directory: PathBuf,
}

impl Places {
    pub(super) fn open(state: &Path, patience: Duration) -> Result<Self, BackendError> {
        let step = "open the directory of sandboxes";
        // For nobody else: what is shown inside is handed in where its user may not pass.
        DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(call(step))?;
        let state = state.canonicalize().map_err(call(step))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&state, flags, Mode::empty())
            .map_err(|error| call(step)(error.into()))?;
        let metadata = state.metadata().map_err(call(step))?;
        let is_others =
            metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0;
        if is_others {
            let text = format!("{} belongs to others, or is open to them", state.display());
            let source = io::Error::new(io::ErrorKind::PermissionDenied, text);
            return Err(BackendError::Call { step, source });
        }
        lock(&fd, &state, patience).map_err(call(step))?;
        let places = Self { state, fd, etc: Mutex::new(None) };
        places.clear_stages()?;
        places.clear_images()?;
        Ok(places)
    }

    /// The lock once more, for those who make sandboxes: it is free when the server is
    /// gone and they are too, so nothing appears after the next server has looked.
    pub(super) fn lock(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Removes what a server left that was killed while it put an `/etc` together.
    fn clear_stages(&self) -> Result<(), BackendError> {
        let step = "clear the directory of /etc";
        let entries = match std::fs::read_dir(self.state.join(ETC)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(call(step))?,
        };
        for entry in entries {
            let path = entry.map_err(call(step))?.path();
            let is_stage = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            if is_stage && path.is_dir() {
                std::fs::remove_dir_all(&path).map_err(call(step))?;
            } else if is_stage {
                std::fs::remove_file(&path).map_err(call(step))?;
            }
        }
        Ok(())
    }

    /// Refuses one more sandbox before the disk is full: those that are there could not
    /// write any more, and nor could the records.
    pub(super) fn check_room(&self) -> Result<(), BackendError> {
        let step = "ask for free space";
        let found =
            rustix::fs::fstatvfs(&self.fd).map_err(|error| call(step)(io::Error::from(error)))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        if has_room(bytes(found.f_bavail), bytes(found.f_blocks)) {
            return Ok(());
        }
        Err(BackendError::DiskFull { step: "beyond what those that are there may need" })
    }

    pub(super) fn of(&self, id: SandboxId) -> PathBuf {
        self.state.join(id.to_string())
    }

    /// What it keeps while it is stopped.
    pub(super) fn top(&self, id: SandboxId) -> Top {
        Top::at(self.of(id).join("top"))
    }

    /// What was a sandbox's once.
    pub(super) fn layer(&self, id: LayerId) -> Top {
        Top::at(self.layers().join(id.to_string()))
    }

    /// The directory of all layers.
    pub(super) fn layers(&self) -> PathBuf {
        self.state.join(LAYERS)
    }

    /// Finds layers that were begun, by what their names begin with.
    pub(super) fn begun(
        &self,
        prefix: &str,
        found: impl Fn(&Path) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let step = "clear the directory of layers";
        let entries = match std::fs::read_dir(self.layers()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(call(step))?,
        };
        for entry in entries {
            let entry = entry.map_err(call(step))?;
            if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
                found(&entry.path())?;
            }
        }
        Ok(())
    }

    /// All of it; images are unpacked below it too.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Notes which network a sandbox that runs has, by the cookie, or that it has none that is
    /// captured: who takes it up later believes nobody inside about that.
    pub(super) fn note_network(
        &self,
        id: SandboxId,
        cookie: Option<u64>,
    ) -> Result<(), BackendError> {
        let step = call("note the sandbox's network");
        let path = self.of(id).join(NETWORK);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(step(error)),
            Ok(()) | Err(_) => {}
        }
        let Some(cookie) = cookie else { return Ok(()) };
        std::os::unix::fs::symlink(cookie.to_string(), path).map_err(step)
    }

    /// The cookie of its network; none if that is not captured.
    pub(super) fn network(&self, id: SandboxId) -> Result<Option<u64>, BackendError> {
        let step = call("read the sandbox's network");
        let link = match std::fs::read_link(self.of(id).join(NETWORK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            link => link.map_err(&step)?,
        };
        let cookie = link.to_str().and_then(|text| text.parse().ok());
        cookie.map(Some).ok_or_else(|| step(io::ErrorKind::InvalidData.into()))
    }

    /// Removes what a server left that was killed while it unpacked an image.
    fn clear_images(&self) -> Result<(), BackendError> {
        if !self.state.join("images").exists() {
            return Ok(());
        }
        let cleared = Images::open(&self.state).and_then(|images| images.clear());
        cleared.map_err(|error| other("clear the directory of images", error))
    }

    /// Lets nobody else put an `/etc` together in the directory that it gives.
    pub(super) fn etc(&self) -> (PathBuf, MutexGuard<'_, Option<Looked>>) {
        // What a panic left half made is not used: names are given at the end.
        let guard = self.etc.lock().unwrap_or_else(PoisonError::into_inner);
        (self.state.join(ETC), guard)
    }

    pub(super) fn socket(&self, id: SandboxId) -> PathBuf {
        self.of(id).join("guest")
    }

    /// Makes the directory of a sandbox that has none.
    pub(super) fn make(&self, id: SandboxId) -> Result<(), BackendError> {
        let step = "make the sandbox's directory";
        DirBuilder::new().mode(0o700).create(self.of(id)).map_err(call(step))
    }

    pub(super) fn set_whole(&self, id: SandboxId) -> Result<(), BackendError> {
        std::fs::write(self.of(id).join("whole"), "").map_err(call("finish the sandbox"))
    }

    pub(super) fn is_whole(&self, id: SandboxId) -> bool {
        self.of(id).join("whole").exists()
    }

    /// Removes the socket of a guest that is gone.
    pub(super) fn clear_socket(&self, id: SandboxId) -> Result<(), BackendError> {
        match std::fs::remove_file(self.socket(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(call("clear the guest's socket")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Every sandbox that there is something of.
    pub(super) fn list(&self) -> Result<Vec<SandboxId>, BackendError> {
        let step = "list the sandboxes";
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.state).map_err(call(step))? {
            let name = entry.map_err(call(step))?.file_name();
            // What has another name is not ours to judge.
            found.extend(name.to_str().and_then(|name| name.parse::<SandboxId>().ok()));
        }
        Ok(found)
    }

    /// Removes the directory of a sandbox, whatever is in it. One whose removal was
    /// begun is not whole.
    pub(super) fn remove(&self, id: SandboxId) -> Result<(), BackendError> {
        let failed = |error: Errno| call("remove the sandbox's directory")(error.into());
        let whole = self.of(id).join("whole");
        match rustix::fs::unlink(&whole) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(failed(error)),
        }
        atoll_store::remove(self.fd.as_fd(), OsStr::new(&id.to_string())).map_err(failed)
    }
}

/// What is kept free of a disk for sandboxes that are there, in bytes; of a small one its
/// twentieth part.
const RESERVE_BYTES: u64 = 256 << 20;

/// Whether a disk of this size has room for one more sandbox.
fn has_room(free_bytes: u64, size_bytes: u64) -> bool {
    free_bytes >= RESERVE_BYTES.min(size_bytes / 20)
}

/// Locks the directory of sandboxes, and waits for what a killed server has begun.
fn lock(fd: &OwnedFd, state: &Path, patience: Duration) -> io::Result<()> {
    const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let until = Instant::now() + patience;
    loop {
        match flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                poll(&mut [], Some(&AGAIN))?;
            }
            Err(Errno::WOULDBLOCK) => {
                let text = format!("another server keeps its sandboxes in {}", state.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn group_name(id: SandboxId) -> String {
    format!("atoll-{id}")
}

/// A control group for a sandbox that starts, if this host lets us have one.
pub(super) fn make_group(
    layout: &Layout,
    id: SandboxId,
    limits: &sandbox::Limits,
) -> Result<Option<Group>, BackendError> {
    let name = group_name(id);
    let mut made = Group::create(layout, &name, &wanted(limits));
    if matches!(&made, Err(CgroupError::Create { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists)
    {
        // Of a start that was given up, or of processes that have ended.
        let stale =
            Group::find(layout, &name).map_err(|error| other("open the control group", error))?;
        drop(stale);
        made = Group::create(layout, &name, &wanted(limits));
    }
    let (group, unenforced) = made.map_err(|error| match error {
        CgroupError::Limits(error) => other("limit the sandbox", error),
        error => other("make the control group", error),
    })?;
    if let Some(missing) = unenforced.first() {
        let source = io::Error::new(io::ErrorKind::Unsupported, missing.to_string());
        return Err(BackendError::Call { step: "limit the sandbox", source });
    }
    Ok((!group.directories().is_empty()).then_some(group))
}

fn wanted(limits: &sandbox::Limits) -> cgroup::Limits {
    #[expect(clippy::cast_precision_loss, reason = "the cap of processors is far below 2^52")]
    let cpus = limits.cpus_milli.map(|milli| milli as f64 / 1000.0);
    cgroup::Limits { memory_bytes: limits.memory_bytes, pids: limits.pids, cpus }
}

/// What can be done here, by a plan for a group with every limit.
pub(super) fn capabilities(layout: &Layout, can_write_root: bool) -> Capabilities {
    let all = cgroup::Limits { memory_bytes: Some(1 << 30), pids: Some(1000), cpus: Some(1.0) };
    let missing = cgroup::plan(layout, "atoll-probe", &all).unenforced;
    let has = |limit| !missing.iter().any(|one| one.limit == limit);
    let has_group = cgroup::plan(layout, "atoll-probe", &cgroup::Limits::default()).has_unified();
    Capabilities {
        pause: has_group,
        // Every group of v2 counts it, with a controller or without.
        measure_cpu: has_group,
        limit_memory: has(cgroup::Limit::Memory),
        limit_cpus: has(cgroup::Limit::Cpu),
        limit_pids: has(cgroup::Limit::Pids),
        // Files lie on a file system of the host's without a quota.
        limit_disk: false,
        user_root: rustix::process::geteuid().is_root(),
        writable_root: can_write_root,
        snapshot: true,
        // Root shows what others wrote as a sandbox's own, which takes what an image takes.
        volumes: can_write_root || !rustix::process::geteuid().is_root(),
    }
}

/// Why a flag is missing.
pub(super) fn missing(
    can: Capabilities,
    writable_root: &Result<(), String>,
) -> Vec<(&'static str, String)> {
    let reasons = [
        (
            can.user_root,
            "user_root",
            "the server is an ordinary user, who may map no other id than its own into a sandbox; \
             run it as root",
        ),
        (
            can.limit_disk,
            "limit_disk",
            "files of a sandbox lie on a file system of the host's, which gives no quota for them",
        ),
    ];
    let missing = reasons.into_iter().filter(|(has, ..)| !has);
    let root = writable_root.as_ref().err().map(|reason| {
        let text = "the directory of sandboxes cannot hold the layers of an overlay";
        ("writable_root", format!("{text} ({reason})"))
    });
    let volumes = writable_root.as_ref().err().filter(|_| !can.volumes).map(|reason| {
        let text = "the directory of sandboxes cannot show files with other owners";
        ("volumes", format!("{text} ({reason})"))
    });
    missing.map(|(_, flag, reason)| (flag, reason.to_owned())).chain(root).chain(volumes).collect()
}

/// A failed call of the system's.
pub(super) fn call(step: &'static str) -> impl Fn(io::Error) -> BackendError {
    move |source| used_up(step, &source).unwrap_or(BackendError::Call { step, source })
}

/// A failure that is not the system's own word, but may be caused by one.
pub(super) fn other(
    step: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> BackendError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let system = error.downcast_ref::<io::Error>();
        if let Some(used_up) = system.and_then(|error| used_up(step, error)) {
            return used_up;
        }
        cause = error.source();
    }
    BackendError::Call { step, source: io::Error::other(error) }
}

/// What the spawner said.
pub(super) fn unspawned(error: SpawnError) -> BackendError {
    let step = "start the sandbox";
    match error {
        SpawnError::Ask(source) => call("ask the spawner")(source),
        SpawnError::Failed(failed) if failed.step == VOLUME_STEP => {
            used_up(step, &io::Error::from_raw_os_error(failed.errno))
                .unwrap_or(BackendError::VolumePlace { reason: failed.text })
        }
        SpawnError::Failed(failed) => used_up(step, &io::Error::from_raw_os_error(failed.errno))
            .unwrap_or_else(|| other(step, SpawnError::Failed(failed))),
        SpawnError::Lost => other(step, error),
    }
}

/// The error of something that there is no more of.
fn used_up(step: &'static str, error: &io::Error) -> Option<BackendError> {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Some(BackendError::DiskFull { step }),
        Some(Errno::MFILE | Errno::NFILE) => Some(BackendError::OpenFiles { step }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_spawner::order::Failed;

    fn system(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn a_disk_is_never_filled_by_new_sandboxes() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (free_bytes, size_bytes, has) in [
            (256 * mib, 100 * gib, true),
            (256 * mib - 1, 100 * gib, false),
            (mib, 20 * mib, true),
            (mib - 1, 20 * mib, false),
            (0, 0, true),
        ] {
            assert_eq!(has_room(free_bytes, size_bytes), has, "{free_bytes} of {size_bytes}");
        }
    }

    #[test]
    fn what_is_used_up_is_found_wherever_it_is_said() {
        let step = "make it";
        for (errno, is_used_up) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::ACCESS, false),
        ] {
            let failed = Failed {
                step: "clone3".to_owned(),
                text: "no".to_owned(),
                errno: errno.raw_os_error(),
            };
            let errors = [
                call(step)(system(errno)),
                other(step, SpawnError::Ask(system(errno))),
                unspawned(SpawnError::Ask(system(errno))),
                unspawned(SpawnError::Failed(failed)),
            ];
            for error in errors {
                let is_call = matches!(error, BackendError::Call { .. });
                assert_eq!(!is_call, is_used_up, "{errno:?}: {error:?}");
            }
        }
        let lost = unspawned(SpawnError::Lost);
        assert!(matches!(lost, BackendError::Call { .. }), "{lost:?}");
    }
}
