//! What makes sandboxes: one backend for each tier.
//!
//! The trait is synchronous and gives data, which keeps the async runtime out of
//! the code that clones and mounts; the engine calls it on threads that may block.
//! A backend knows the host and nothing of records, names or lifecycles, and it
//! must find what it made again after a restart: see [`Backend::inventory`].

mod container;
pub mod fake;
mod progress;

pub use container::Container;
pub use progress::Progress;
pub(crate) use progress::Waiting;

use crate::images::ImageError;
use crate::usage::Measured;
use crate::volumes::Mount;
use atoll_api::budget::Budget;
use atoll_api::id::{LayerId, SandboxId, VolumeId};
use atoll_api::image::ImagePull;
use atoll_api::sandbox::{Env, Limits, Tier};
use atoll_api::snapshot::{DiffEntry, SnapshotWay, Uncompared};
use atoll_api::volume::VolumeLimitBy;
use atoll_store::archive::{Destination, Source};
use atoll_store::secret::Value;
use atoll_sys::capture::Listeners;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long killed processes may take to be gone.
pub const KILL_WITHIN: Duration = Duration::from_secs(10);

/// What a sandbox is made of. Everything is resolved: defaults are filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The image; with a layer, the one that this was made over.
    pub image: String,
    /// Whether that is pulled. Only [`Backend::create`] looks at it.
    pub pull: ImagePull,
    /// The layer that it begins with, with all that are below that one. Only
    /// [`Backend::create`] looks at it.
    pub layer: Option<LayerId>,
    /// Where commands begin; where the image says, or in the home, if nothing is said.
    pub directory: Option<String>,
    /// How the machine is called inside.
    pub hostname: String,
    /// Environment of everything that runs in it.
    pub env: Env,
    /// Limits.
    pub limits: Limits,
    /// All that leaves its network arrives at [`Backend::listeners`]: the ports that do so on
    /// kernels without nf_tables, beside DNS, 80 and 443. Nothing leaves where this is none.
    pub capture: Option<Vec<u16>>,
    /// The certificate of an authority, in PEM, that programs are to trust beside the image's.
    pub certificate: Option<String>,
    /// Files with the values of secrets, which are nowhere but in the sandbox's own memory.
    pub secrets: Vec<(PathBuf, Value)>,
    /// Volumes that are shown in it.
    pub volumes: Vec<VolumePlace>,
}

/// A volume, and where it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePlace {
    /// Which.
    pub id: VolumeId,
    /// Where inside: an absolute path.
    pub at: PathBuf,
    /// It can be written.
    pub is_writable: bool,
    /// The folder of the host that it is, if it is one.
    pub host_path: Option<PathBuf>,
}

impl VolumePlace {
    pub(crate) fn of(mount: &Mount) -> Self {
        let (at, host_path) = (PathBuf::from(&mount.path), mount.host_path.as_deref());
        let host_path = host_path.map(PathBuf::from);
        Self { id: mount.volume, at, is_writable: mount.access.writes(), host_path }
    }
}

/// A sandbox whose processes run or are frozen.
#[derive(Debug)]
pub struct Alive {
    /// Becomes readable when the sandbox's first process has ended: a pidfd or the like.
    pub exit: OwnedFd,
    /// The socket on which its guest listens.
    pub guest: PathBuf,
}

/// What a backend can do on this host. What it cannot is refused by this flag's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag with a name of its own")]
pub struct Capabilities {
    /// Processes can be frozen and thawed.
    pub pause: bool,
    /// A limit of memory is enforced.
    pub limit_memory: bool,
    /// A limit of processors is enforced.
    pub limit_cpus: bool,
    /// A limit of processes is enforced.
    pub limit_pids: bool,
    /// Processor time is counted.
    pub measure_cpu: bool,
    /// A limit of disk space is enforced.
    pub limit_disk: bool,
    /// Commands can run as root inside.
    pub user_root: bool,
    /// The root file system of an image can be written, unless the image is `host`.
    pub writable_root: bool,
    /// What a sandbox keeps can be set aside, gone back to and begun with.
    pub snapshot: bool,
    /// Volumes can be shown in it.
    pub volumes: bool,
}

impl Capabilities {
    /// The first flag that `limits` need and that is missing.
    pub fn lacks(&self, limits: &Limits) -> Option<&'static str> {
        let needs = [
            (limits.memory_bytes.is_some(), self.limit_memory, "limit_memory"),
            (limits.cpus_milli.is_some(), self.limit_cpus, "limit_cpus"),
            (limits.pids.is_some(), self.limit_pids, "limit_pids"),
            (limits.disk_bytes.is_some(), self.limit_disk, "limit_disk"),
        ];
        needs.into_iter().find(|(needed, has, _)| *needed && !has).map(|(.., flag)| flag)
    }

    /// The flag that a budget needs and that is missing. Memory is counted where it is limited.
    pub fn lacks_of(&self, budget: &Budget) -> Option<&'static str> {
        (budget.cpu_us.is_some() && !self.measure_cpu).then_some("measure_cpu")
    }
}

/// What the processes of a sandbox do, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// They run.
    Running,
    /// They are frozen.
    Frozen,
    /// There are none, or not the first one.
    None,
}

/// Something of a sandbox that is on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub id: SandboxId,
    /// Its processes.
    pub processes: Processes,
    /// Whether it can be started: what [`Backend::create`] makes is there, and whole.
    pub is_whole: bool,
}

/// A layer that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How.
    pub way: SnapshotWay,
    /// Names of files that were looked at; none where that was not needed.
    pub files: Option<u64>,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Layers below it.
    pub below: usize,
}

/// How a volume was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeCopied {
    /// How its files came to be.
    pub way: SnapshotWay,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// What became of a chain of layers that was too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flat {
    /// So many of them are one now.
    pub layers: usize,
    /// Names that are those of their files.
    pub linked: u64,
    /// Files that were copied.
    pub copied: u64,
    /// And their bytes.
    pub copied_bytes: u64,
    /// Directories that were made; none if that one was there already.
    pub directories: u64,
}

/// A layer that is on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Which.
    pub id: LayerId,
    /// What [`Backend::snapshot`] makes is there. Else nothing came of it, and the sandbox has
    /// everything still.
    pub is_whole: bool,
}

/// What differs between two layers, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// What differs.
    pub entries: Vec<DiffEntry>,
    /// What could not be compared.
    pub uncompared: Vec<Uncompared>,
    /// There may be more.
    pub is_cut: bool,
}

/// Why a backend could not do something.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The host has no sandbox of that id.
    #[error("this host has no sandbox {id}")]
    NotFound {
        /// The id.
        id: SandboxId,
    },
    /// There is no such image, or it cannot be used.
    #[error("image {image:?} cannot be used: {reason}")]
    Image {
        /// The image.
        image: String,
        /// Why.
        reason: String,
    },
    /// The image cannot be had.
    #[error("the image cannot be had")]
    Images {
        /// Why.
        source: Arc<ImageError>,
    },
    /// A volume cannot be where it is to be.
    #[error("a volume cannot be shown there: {reason}")]
    VolumePlace {
        /// Why, with the place.
        reason: String,
    },
    /// A folder of the host cannot be a volume.
    #[error("{:?} cannot be a volume: {reason}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What a volume holds is not on this host.
    #[error("what volume {id} holds is not on this host")]
    NoVolume {
        /// Which.
        id: VolumeId,
    },
    /// Two layers are above different images.
    #[error("the layers are above different images")]
    OtherImage,
    /// A disk has no room left.
    #[error("no space is left {step}")]
    DiskFull {
        /// What was being done, as in "while the directory was made".
        step: &'static str,
    },
    /// The server, or what makes sandboxes for it, has as many open files as it may.
    #[error("no more files can be opened, as was needed to {step}")]
    OpenFiles {
        /// What was being done, as in "make the directory".
        step: &'static str,
    },
    /// It was told to give up.
    #[error("it was cancelled")]
    Cancelled,
    /// A call to the system failed.
    #[error("could not {step}")]
    Call {
        /// What was being done, as in "freeze the processes".
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Nobody takes any more of what is sent.
pub(crate) fn unsent(source: io::Error) -> BackendError {
    BackendError::Call { step: "send the archive", source }
}

/// Who is shown a layer.
pub type Show<'s> = &'s mut dyn FnMut(LayerId, &Source<'_>) -> Result<(), BackendError>;

/// Who fills the layer of that number.
pub type Fill<'f> = &'f mut dyn FnMut(usize, &Destination<'_>) -> Result<(), BackendError>;

/// Makes sandboxes of one tier on this host, and takes them away.
///
/// Calls about one sandbox come one after the other, except that [`Backend::kill`]
/// may come while another one is under way. A call that fails leaves at most what
/// [`Backend::remove`] takes away.
pub trait Backend: Send + Sync + 'static {
    /// The tier.
    fn tier(&self) -> Tier;

    /// What can be done on this host.
    fn capabilities(&self) -> Capabilities;

    /// Why flags are missing, as far as there is more to say than that they are: the flag,
    /// and the reason in words.
    fn missing(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Makes everything of a sandbox that is kept while it is stopped.
    ///
    /// # Errors
    /// Also when `progress` was told that nobody wants it any more.
    fn create(&self, id: SandboxId, spec: &Spec, progress: &Progress) -> Result<(), BackendError>;

    /// What a sandbox is made of, its layers aside: the same text for two that are made of the
    /// same. `image` is what it was called when it was made.
    ///
    /// # Errors
    /// If it cannot be told.
    fn ground(&self, _id: SandboxId, image: &str) -> Result<String, BackendError> {
        Ok(image.to_owned())
    }

    /// Starts the first process of a sandbox that has none.
    ///
    /// # Errors
    /// As for [`Backend::create`].
    fn start(&self, id: SandboxId, spec: &Spec, progress: &Progress)
    -> Result<Alive, BackendError>;

    /// Takes up a sandbox that an earlier server left running or frozen.
    ///
    /// # Errors
    /// [`BackendError::NotFound`] if its processes are gone.
    fn adopt(&self, id: SandboxId) -> Result<Alive, BackendError>;

    /// What the network of a sandbox whose processes run leads to, after [`Backend::start`] and
    /// after [`Backend::adopt`]; none if its [`Spec`] says that nothing leaves. Its processes
    /// may have begun to connect, and wait until somebody accepts. Those that are frozen hand
    /// nothing over until they are thawed.
    ///
    /// # Errors
    /// Nothing reaches anybody from inside then.
    fn listeners(&self, _id: SandboxId) -> Result<Option<Listeners>, BackendError> {
        Ok(None)
    }

    /// Freezes its processes; on return none of them runs.
    ///
    /// # Errors
    /// Some may be frozen then; [`Backend::thaw`] takes that back.
    fn freeze(&self, id: SandboxId) -> Result<(), BackendError>;

    /// Lets its processes go on. Those that do already are no mistake.
    ///
    /// # Errors
    /// They may still be frozen then.
    fn thaw(&self, id: SandboxId) -> Result<(), BackendError>;

    /// Asks its processes to end and returns at once; [`Alive::exit`] tells when they have.
    ///
    /// # Errors
    /// They have not been asked then.
    fn stop(&self, id: SandboxId) -> Result<(), BackendError>;

    /// Kills its processes, frozen or not; on return there is none. None to kill is no mistake.
    ///
    /// # Errors
    /// Some may live on. Where they are not gone `within` that time, the call that says so is an
    /// [`std::io::ErrorKind::TimedOut`], and they end later: none runs a program any more, but the
    /// kernel is not done with them. It is long with one that has many files in memory.
    fn kill(&self, id: SandboxId, within: Duration) -> Result<(), BackendError>;

    /// Removes everything of a sandbox from this host. Nothing to remove is no mistake.
    ///
    /// # Errors
    /// Something may be left; another call removes it.
    fn remove(&self, id: SandboxId) -> Result<(), BackendError>;

    /// Does what can be done of [`Backend::snapshot`] for this layer while the processes still
    /// run, so that they stand still for less. Nothing comes of it if that is not called.
    ///
    /// # Errors
    /// If that would fail too.
    fn copy_ahead(
        &self,
        _id: SandboxId,
        _layer: LayerId,
        _progress: &Progress,
    ) -> Result<(), BackendError> {
        Ok(())
    }

    /// Makes a layer of everything that a sandbox keeps. Of one without processes this takes no
    /// longer for many files than for few; of one whose processes are frozen it is a copy, and
    /// may be given up by `progress`.
    ///
    /// # Errors
    /// There is no layer then, and the sandbox is as it was.
    fn snapshot(
        &self,
        id: SandboxId,
        layer: LayerId,
        processes: Processes,
        progress: &Progress,
    ) -> Result<Taken, BackendError>;

    /// Returns when a layer is on the disk.
    ///
    /// # Errors
    /// It may not be there then.
    fn sync_layer(&self, layer: LayerId) -> Result<(), BackendError>;

    /// Puts a sandbox without processes back to a layer. What it has kept since is gone, unless
    /// it is a layer too.
    ///
    /// # Errors
    /// It has everything still.
    fn restore(&self, id: SandboxId, layer: LayerId) -> Result<(), BackendError>;

    /// Every layer on this host.
    ///
    /// # Errors
    /// A list that is not complete is none.
    fn layers(&self) -> Result<Vec<Layer>, BackendError>;

    /// Removes the layers that are not among `keep`, not below one of those, and not below any
    /// sandbox. Gives those that went. Nothing else that is about layers may happen meanwhile.
    ///
    /// # Errors
    /// Some may be left that should have gone.
    fn collect(&self, keep: &BTreeSet<LayerId>) -> Result<Vec<LayerId>, BackendError>;

    /// Looks for a chain of more than `most` layers, below a sandbox or a layer of `keep`, and puts one
    /// layer in the place of all, which shows the same. Nothing is to be done: that gives none, else
    /// there may be more. A sandbox that runs has the old ones until it is started again;
    /// [`Backend::collect`] knows. It may come beside any other call but itself, takes its time, and may
    /// be given up by `progress`.
    ///
    /// # Errors
    /// Every sandbox and every layer shows what it did.
    fn flatten(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
        progress: &Progress,
    ) -> Result<Option<Flat>, BackendError>;

    /// Tells what sandboxes that begin with the layer `after` see otherwise than those that begin
    /// with `before`, or without that, than those that begin with the image alone, whose name is
    /// `image`: at most `most` differences. It may come beside any other call, and may be given up by
    /// `progress`.
    ///
    /// # Errors
    /// Nothing is known of it then.
    fn diff(
        &self,
        before: Option<LayerId>,
        after: LayerId,
        image: &str,
        most: usize,
        progress: &Progress,
    ) -> Result<Differences, BackendError>;

    /// Shows a layer and all that are below it, the lowest first, to who packs them; none goes away
    /// meanwhile. Gives which image is below, if it has a digest. It may come beside any other call.
    ///
    /// # Errors
    /// If `show` fails, or they are not all there.
    fn show_chain(&self, layer: LayerId, show: Show<'_>) -> Result<Option<String>, BackendError>;

    /// Makes layers that are nobody's yet, each above the one before it, the lowest first, over an
    /// image that is called `image` and has that digest if it has one. `fill` puts the files of each
    /// into a directory. It may come beside any other call.
    ///
    /// # Errors
    /// If `fill` fails, or the image is not to be had. Nothing is left then.
    fn stage_chain(
        &self,
        layers: &[LayerId],
        image: (&str, Option<&str>),
        fill: Fill<'_>,
        progress: &Progress,
    ) -> Result<(), BackendError>;

    /// Makes what [`Self::stage_chain`] made layers like all others; they are on the disk then.
    ///
    /// # Errors
    /// The last of them is not there then, so that nothing is above the others.
    fn place_chain(&self, layers: &[LayerId]) -> Result<(), BackendError>;

    /// What its processes have used since they were started, also if they have ended since; what
    /// this host does not count is not there.
    ///
    /// # Errors
    /// Where it cannot be told.
    fn measure(&self, id: SandboxId) -> Result<Measured, BackendError>;

    /// Room that its files take on the host, in bytes, and whether all of them were seen; none where
    /// that cannot be told. It takes some seconds at most, and may come beside any other call.
    ///
    /// # Errors
    /// Nothing is known of it then.
    fn disk(&self, _id: SandboxId) -> Result<Option<(u64, bool)>, BackendError> {
        Ok(None)
    }

    /// Makes an empty directory for a volume, which every sandbox may write that it is shown in so.
    ///
    /// # Errors
    /// [`Backend::remove_volume`] removes what there may be of it.
    fn create_volume(&self, id: VolumeId) -> Result<(), BackendError>;

    /// Looks whether a folder of the host can be a volume, to read or to write too.
    ///
    /// # Errors
    /// [`BackendError::Folder`] says why it cannot.
    fn check_folder(&self, path: &Path, is_writable: bool) -> Result<(), BackendError>;

    /// Has at most so many bytes lie on a volume, or any number again, where the file system sees to
    /// such things; says whether it does.
    ///
    /// # Errors
    /// The limit is as it was then.
    fn limit_volume(&self, id: VolumeId, bytes: Option<u64>)
    -> Result<VolumeLimitBy, BackendError>;

    /// Bytes that what lies on a volume takes on the disk.
    ///
    /// # Errors
    /// Nothing is known of it then.
    fn measure_volume(&self, id: VolumeId) -> Result<u64, BackendError>;

    /// Does what can be done of [`Backend::copy_volume`] while sandboxes write. Nothing comes of it if
    /// that is not called.
    ///
    /// # Errors
    /// If that would fail too.
    fn copy_volume_ahead(&self, _from: VolumeId, _to: VolumeId) -> Result<(), BackendError> {
        Ok(())
    }

    /// Makes `to` a volume that holds what `from` holds, to which nobody writes meanwhile.
    ///
    /// # Errors
    /// [`Backend::remove_volume`] removes what there may be of it.
    fn copy_volume(&self, from: VolumeId, to: VolumeId) -> Result<VolumeCopied, BackendError>;

    /// Writes what a volume holds, to which nobody writes meanwhile, as a tar archive.
    ///
    /// # Errors
    /// What was written is no archive then.
    fn export_volume(&self, id: VolumeId, out: &mut dyn Write) -> Result<(), BackendError>;

    /// Returns when what a volume holds is on the disk.
    ///
    /// # Errors
    /// It may not be there then.
    fn sync_volume(&self, id: VolumeId) -> Result<(), BackendError>;

    /// Takes away what a volume holds, which no sandbox is shown. On return it is out of sight; the
    /// room that it takes may be free later. Nothing to remove is no mistake.
    ///
    /// # Errors
    /// It may be there still; another call removes it.
    fn remove_volume(&self, id: VolumeId) -> Result<(), BackendError>;

    /// Every volume of which something is on this host.
    ///
    /// # Errors
    /// A list that is not complete is none.
    fn volumes(&self) -> Result<Vec<VolumeId>, BackendError>;

    /// Everything of this tier on this host, half-made things included, whoever made it.
    ///
    /// # Errors
    /// An inventory that is not complete is none.
    fn inventory(&self) -> Result<Vec<Found>, BackendError>;
}
