//! Sandboxes of the container tier: a jail around a guest, and a directory for what
//! is kept.
//!
//! ```text
//!     STATE/etc/           what becomes /etc, of all whose root is the same and read-only
//!     STATE/images/        root file systems from archives
//!     STATE/catalog/       images of layers, and STATE/image-layers/ these: see atoll_store
//!     STATE/layers/        what sandboxes kept at some moment: see snapshot.rs
//!     STATE/volumes/       what volumes hold: see volume.rs
//!     STATE/ID/            made by create, removed by remove
//!        ├── top/          what it keeps while it is stopped: see top.rs
//!        ├── mounted       the layers below it while it runs; its top may list others by then
//!        ├── copied        a link to the layer that is the last copy of that, if there is one
//!        ├── network       a link to the cookie of its network, if that is captured, while it runs
//!        ├── guest         the guest's socket, while it runs
//!        └── whole         written last: create has done all of it
//! ```
//!
//! Beside it a control group of its name, where this host lets us have one: it freezes,
//! kills, counts and limits. Whatever else there is of a sandbox ends with its PID 1.
//! All of it is found by the id alone, so a later server needs no record to clean up.

mod archive;
mod diff;
mod disk;
mod flat;
mod folder;
mod host;
mod identity;
mod image;
mod layers;
mod order;
mod reading;
mod snapshot;
mod top;
mod trash;
mod volume;

use super::{
    Alive, Backend, BackendError, Capabilities, Differences, Fill, Flat, Found, KILL_WITHIN, Layer,
    Processes, Progress, Show, Spec, Taken, VolumeCopied,
};
use crate::images::Images;
use crate::usage::Measured;
use atoll_api::id::{LayerId, SandboxId, VolumeId};
use atoll_api::sandbox::{Stage, Tier};
use atoll_api::volume::VolumeLimitBy;
use atoll_jail::cgroup::{Group, Layout};
use atoll_protocol::request::Request;
use atoll_spawner::client::{self, Spawner};
use atoll_sys::capture::Listeners;
use host::Places;
use identity::Identities;
use image::Base;
use reading::Reading;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use trash::Trash;

/// How long processes may take to stand still.
const FREEZE_WITHIN: Duration = Duration::from_secs(5);

/// How long a guest may take to hand its sockets over.
const LISTENERS_WITHIN: Duration = Duration::from_secs(5);

/// How long a guest may take to stop its clock.
const CLOCK_WITHIN: Duration = Duration::from_secs(2);

/// Makes sandboxes of the container tier on this host.
#[derive(Debug)]
pub struct Container {
    places: Places,
    spawner: Spawner,
    layout: Layout,
    identities: Identities,
    /// A file with the certificates of authorities that are trusted in place of an image's.
    roots: Option<PathBuf>,
    /// Images of layers, where there are any.
    images: Option<Images>,
    trash: Trash,
    reading: Reading,
    /// What is known of copies that are about to be layers, or to be brought to the disk.
    copies: Mutex<BTreeMap<LayerId, snapshot::Copied>>,
    /// What was copied ahead of a copy of a volume, by that.
    volume_copies: Mutex<BTreeMap<VolumeId, volume::Ahead>>,
    /// What a sandbox keeps is a subvolume of btrfs.
    has_subvolumes: bool,
    /// Why the root file system of an image can only be read, if so.
    writable_root: Result<(), String>,
}

impl Container {
    /// Keeps sandboxes below `state`, a directory of the caller's own that is made if
    /// need be, and has them made by `spawner`, a program that calls
    /// [`atoll_spawner::resident::from_standard_input`].
    ///
    /// One server at a time keeps sandboxes in a directory. One that was killed has
    /// begun what may take a moment to end, so that is waited for, for `patience`.
    ///
    /// # Errors
    /// The directory cannot be used, the program not be run, or this host's control
    /// groups not be read.
    pub fn open(state: &Path, spawner: Command, patience: Duration) -> Result<Self, BackendError> {
        let places = Places::open(state, patience)?;
        let identities = Identities::find(&places)?;
        let layout = Layout::detect(Path::new("/"))
            .map_err(|error| host::other("read the control groups", error))?;
        let lock = places.lock().map_err(host::call("start the spawner"))?;
        let spawner =
            Spawner::start(spawner, Some(lock)).map_err(host::call("start the spawner"))?;
        let writable_root = atoll_jail::features::writable_root(places.state());
        let trash = Trash::open(places.state()).map_err(host::call("open the trash"))?;
        let has_subvolumes = snapshot::has_subvolumes(places.state());
        let container = Self {
            places,
            spawner,
            layout,
            identities,
            roots: None,
            images: None,
            trash,
            reading: Reading::default(),
            copies: Mutex::default(),
            volume_copies: Mutex::default(),
            has_subvolumes,
            writable_root,
        };
        container.clear_layers()?;
        container.clear_volumes()?;
        container.clear_stages()?;
        flat::clear(&container.places, &container.trash)?;
        container.note_what_is_mounted()?;
        Ok(container)
    }

    /// Makes sandboxes of these images too, which are kept in the same directory.
    #[must_use]
    pub fn with_images(mut self, images: Images) -> Self {
        let state = self.places.state().to_owned();
        images.spare(Box::new(move || image::used(&state)));
        self.images = Some(images);
        self
    }

    /// Has sandboxes with a network trust the authorities whose certificates are in a file, in PEM,
    /// in place of those that their image trusts.
    #[must_use]
    pub fn trusting(self, roots: Option<PathBuf>) -> Self {
        Self { roots, ..self }
    }

    /// The control group of a sandbox, if there is one.
    fn group(&self, id: SandboxId) -> Result<Option<Group>, BackendError> {
        Group::find(&self.layout, &host::group_name(id))
            .map_err(|error| host::other("open the control group", error))
    }

    /// Its guest, if it listens.
    fn guest(&self, id: SandboxId) -> Result<Option<(i32, OwnedFd)>, BackendError> {
        client::find(&self.places.socket(id)).map_err(host::call("look for the guest"))
    }

    fn running(&self, id: SandboxId) -> Result<Group, BackendError> {
        self.group(id)?.ok_or(BackendError::Call {
            step: "find the control group",
            source: io::ErrorKind::NotFound.into(),
        })
    }
}

impl Backend for Container {
    fn tier(&self) -> Tier {
        Tier::Container
    }

    fn capabilities(&self) -> Capabilities {
        host::capabilities(&self.layout, self.writable_root.is_ok())
    }

    fn missing(&self) -> Vec<(&'static str, String)> {
        host::missing(self.capabilities(), &self.writable_root)
    }

    fn create(&self, id: SandboxId, spec: &Spec, progress: &Progress) -> Result<(), BackendError> {
        self.places.check_room()?;
        let base = match spec.layer {
            Some(_) => Base::Host,
            None => image::base(spec, &self.places, self.images.as_ref(), progress)?,
        };
        if !matches!(base, Base::Host) {
            progress.reached(Stage::ImageReady)?;
        }
        self.places.make(id)?;
        let top = self.places.top(id);
        self.make_top(&top)?;
        progress.reached(Stage::Allocated)?;
        let ids = self.identities.take(id, &self.places)?;
        top.own_home(ids, None).map_err(host::call("give the home to the sandbox's user"))?;
        if let Some(layer) = spec.layer {
            self.make_from(id, layer)?;
        } else {
            match &base {
                Base::Root(root) if self.writable_root.is_err() => {
                    drop(order::etc(&self.places, Some(root))?);
                    top.note_image(root)?;
                }
                Base::Host => drop(order::etc(&self.places, None)?),
                Base::Layers(_) if self.writable_root.is_err() => {
                    let reason = "images of layers need a root file system that can be written";
                    let reason = format!("{reason} (writable_root)");
                    return Err(BackendError::Image { image: spec.image.clone(), reason });
                }
                base => image::make(base, &top, ids, self.images.as_ref())?,
            }
        }
        self.places.set_whole(id)?;
        progress.reached(Stage::FilesystemReady)
    }

    fn start(
        &self,
        id: SandboxId,
        spec: &Spec,
        progress: &Progress,
    ) -> Result<Alive, BackendError> {
        if !self.places.is_whole(id) {
            return Err(BackendError::NotFound { id });
        }
        let ids = self.places.top(id).ids()?;
        let below = self.hold_for_start(id)?;
        let (roots, images) = (self.roots.as_deref(), self.images.as_ref());
        let mut order = order::order(&self.places, id, spec, ids, roots, images, &below.layers)?;
        self.places.clear_socket(id)?;
        let group = host::make_group(&self.layout, id, &spec.limits)?;
        // A process that is moved there waits for the whole machine, for some ms.
        let joined = group.as_ref().and_then(Group::join_path);
        order.group = joined.map(order::octets).transpose()?;
        // Until it is known, there is no network of that cookie.
        self.places.note_network(id, order.capture.as_ref().map(|_| 0))?;
        let starts = self.spawner.starts();
        let spawned = self.spawner.spawn(&order).map_err(host::unspawned);
        if self.spawner.starts() != starts {
            tracing::warn!("the process that makes sandboxes had ended; another one was started");
        }
        let spawned = spawned?;
        if spawned.network.is_some() {
            self.places.note_network(id, spawned.network)?;
        }
        progress.reached(Stage::NetworkReady)?;
        if let (Some(group), Some(pid)) = (&group, Pid::from_raw(spawned.pid)) {
            group
                .attach(pid)
                .map_err(|error| host::other("put the sandbox under its limits", error))?;
        }
        progress.reached(Stage::RuntimeReady)?;
        Ok(Alive { exit: spawned.pidfd, guest: self.places.socket(id) })
    }

    fn adopt(&self, id: SandboxId) -> Result<Alive, BackendError> {
        let (_, exit) = self.guest(id)?.ok_or(BackendError::NotFound { id })?;
        Ok(Alive { exit, guest: self.places.socket(id) })
    }

    fn listeners(&self, id: SandboxId) -> Result<Option<Listeners>, BackendError> {
        let Some(network) = self.places.network(id)? else { return Ok(None) };
        client::listeners(&self.places.socket(id), network, LISTENERS_WITHIN)
            .map(Some)
            .map_err(host::call("take what leaves the sandbox's network"))
    }

    fn freeze(&self, id: SandboxId) -> Result<(), BackendError> {
        let socket = self.places.socket(id);
        client::ask(&socket, &Request::HoldClock, CLOCK_WITHIN)
            .map_err(host::call("stop the sandbox's clock"))?;
        self.running(id)?
            .freeze(FREEZE_WITHIN)
            .map_err(|error| host::other("freeze the processes", error))
    }

    fn thaw(&self, id: SandboxId) -> Result<(), BackendError> {
        self.running(id)?.thaw().map_err(|error| host::other("thaw the processes", error))?;
        client::ask(&self.places.socket(id), &Request::ReleaseClock, CLOCK_WITHIN)
            .map(|_| ())
            .map_err(host::call("let the sandbox's clock go on"))
    }

    fn stop(&self, id: SandboxId) -> Result<(), BackendError> {
        // The engine kills what has not ended when its time is over.
        let request = Request::Stop { grace_ms: u64::from(u32::MAX) };
        client::tell(&self.places.socket(id), &request).map_err(host::call("ask the guest to stop"))
    }

    fn kill(&self, id: SandboxId, within: Duration) -> Result<(), BackendError> {
        let guest = self.guest(id)?;
        if let Some(group) = self.group(id)? {
            group.kill().map_err(|error| host::other("kill the processes", error))?;
        }
        let Some((_, pidfd)) = guest else { return Ok(()) };
        // Everybody inside ends with its PID 1.
        pidfd_send_signal(&pidfd, Signal::KILL).ok();
        let within = Timespec::try_from(within).unwrap_or_default();
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&within)) {
            Ok(1..) => Ok(()),
            Ok(0) => Err(BackendError::Call {
                step: "see the processes end",
                source: io::ErrorKind::TimedOut.into(),
            }),
            Err(error) => Err(host::call("see the processes end")(error.into())),
        }
    }

    fn remove(&self, id: SandboxId) -> Result<(), BackendError> {
        if let Some(group) = self.group(id)? {
            group
                .remove(KILL_WITHIN)
                .map_err(|error| host::other("remove the control group", error))?;
        }
        self.places.remove(id)?;
        self.identities.give_back(id);
        Ok(())
    }

    fn copy_ahead(
        &self,
        id: SandboxId,
        layer: LayerId,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.prepare_copy(id, layer, progress)
    }

    fn snapshot(
        &self,
        id: SandboxId,
        layer: LayerId,
        processes: Processes,
        progress: &Progress,
    ) -> Result<Taken, BackendError> {
        self.take(id, layer, processes, progress)
    }

    fn sync_layer(&self, layer: LayerId) -> Result<(), BackendError> {
        self.bring_to_disk(layer)
    }

    fn restore(&self, id: SandboxId, layer: LayerId) -> Result<(), BackendError> {
        self.go_back(id, layer)
    }

    fn layers(&self) -> Result<Vec<Layer>, BackendError> {
        self.list_layers()
    }

    fn collect(&self, keep: &BTreeSet<LayerId>) -> Result<Vec<LayerId>, BackendError> {
        self.collect_but(keep)
    }

    fn flatten(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
        progress: &Progress,
    ) -> Result<Option<Flat>, BackendError> {
        self.shorten(keep, most, progress)
    }

    fn diff(
        &self,
        before: Option<LayerId>,
        after: LayerId,
        image: &str,
        most: usize,
        progress: &Progress,
    ) -> Result<Differences, BackendError> {
        self.compare_layers(before, after, image, most, progress)
    }

    fn show_chain(&self, layer: LayerId, show: Show<'_>) -> Result<Option<String>, BackendError> {
        self.show(layer, show)
    }

    fn stage_chain(
        &self,
        layers: &[LayerId],
        image: (&str, Option<&str>),
        fill: Fill<'_>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.stage(layers, image, fill, progress)
    }

    fn place_chain(&self, layers: &[LayerId]) -> Result<(), BackendError> {
        self.place(layers)
    }

    fn ground(&self, id: SandboxId, image: &str) -> Result<String, BackendError> {
        // The file or directory that it leads to is named by a digest, but for a root file system
        // that is somebody's directory.
        let root = self.places.top(id).image()?;
        Ok(root.map_or_else(|| image.to_owned(), |root| root.display().to_string()))
    }

    fn measure(&self, id: SandboxId) -> Result<Measured, BackendError> {
        let events =
            self.running(id)?.events().map_err(|error| host::other("read what it used", error))?;
        Ok(Measured { cpu_us: events.cpu_usage_us, memory_bytes: events.memory_bytes })
    }

    fn disk(&self, id: SandboxId) -> Result<Option<(u64, bool)>, BackendError> {
        // A subvolume is a device of its own, beyond which it is not looked.
        let measured = disk::measure(self.places.top(id).path());
        measured.map(Some).map_err(|error| host::call("look at its files")(error.into()))
    }

    fn create_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.make_volume(id)
    }

    fn copy_volume_ahead(&self, from: VolumeId, to: VolumeId) -> Result<(), BackendError> {
        self.volume_ahead(from, to)
    }

    fn copy_volume(&self, from: VolumeId, to: VolumeId) -> Result<VolumeCopied, BackendError> {
        self.volume_copy(from, to)
    }

    fn export_volume(&self, id: VolumeId, out: &mut dyn io::Write) -> Result<(), BackendError> {
        self.pack_volume(id, out)
    }

    fn check_folder(&self, path: &Path, is_writable: bool) -> Result<(), BackendError> {
        self.look_at_folder(path, is_writable)
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

    fn sync_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.bring_volume_to_disk(id)
    }

    fn remove_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.discard_volume(id)
    }

    fn volumes(&self) -> Result<Vec<VolumeId>, BackendError> {
        self.list_volumes()
    }

    fn inventory(&self) -> Result<Vec<Found>, BackendError> {
        let found = |id| {
            let processes = match (self.guest(id)?, self.group(id)?) {
                (None, _) => Processes::None,
                (Some(_), Some(group)) if group.is_frozen() => Processes::Frozen,
                (Some(_), _) => Processes::Running,
            };
            Ok(Found { id, processes, is_whole: self.places.is_whole(id) })
        };
        self.places.list()?.into_iter().map(found).collect()
    }
}

/// Where a sandbox's own directory is shown inside.
fn home() -> PathBuf {
    PathBuf::from("/home/user")
}
