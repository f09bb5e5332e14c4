//! Images of a server: pulled from registries, read from files, listed, removed.
//!
//! | to know | read |
//! |---|---|
//! | what an image is made of, and where it is kept | [`atoll_store::import::Store`] |
//! | how one comes from a registry | `pull` |
//! | how a registry is spoken to | `registry` |
//! | who waits for the same pull | `jobs` |
//!
//! Whoever needs an image asks for it by name and gets it with a pin, which keeps its layers from
//! being collected until it is written down elsewhere who has them.

mod error;
mod jobs;
mod pull;
mod registry;

pub use error::ImageError;
pub use jobs::{Following, Progress};
pub(crate) use registry::{ANSWER_WITHIN, Roads, SILENT_MAX, Url};
pub use registry::{Outside, Proxies};

pub use atoll_store::catalog::Image as Stored;
pub use atoll_store::room::Quota;

use crate::error::chain;
use atoll_api::image::{Image as Shown, ImageConfig, ImageName, ImagePull, Pruned};
use atoll_api::time::Timestamp;
use atoll_store::catalog::{Image, whole_name};
use atoll_store::digest::Digest;
use atoll_store::import::Store;
use atoll_store::layer::Pin;
use atoll_store::oci::Source;
use jobs::Jobs;
use registry::Registry;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::spawn_blocking;

/// What says which layers it needs; nobody collects these.
pub type Roots = Box<dyn Fn() -> io::Result<BTreeSet<Digest>> + Send + Sync>;

/// What says which things were made of which images.
pub type Users = Box<dyn Fn() -> io::Result<Vec<(String, Digest)>> + Send + Sync>;

/// The images of a server. Clones are of the same ones.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    registry: Registry,
    jobs: Jobs,
    roots: Mutex<Vec<Roots>>,
    users: Mutex<Vec<Users>>,
}

/// An image that is there, and stays so as long as this is.
#[derive(Debug)]
pub struct Held {
    /// The image.
    pub image: Image,
    /// Its layers are not collected.
    pub pin: Pin,
}

impl Images {
    /// Opens the images below `state`.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn open(state: &Path, quota: Quota, outside: Outside) -> Result<Self, ImageError> {
        let store = Store::open(state, quota).map_err(ImageError::of_import)?;
        let registry = Registry::new(outside);
        let (jobs, roots, users) = Default::default();
        Ok(Self { inner: Arc::new(Inner { store, registry, jobs, roots, users }) })
    }

    /// Where they are kept.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Keeps what this says it needs, from now on.
    pub fn keep(&self, roots: Roots) {
        self.roots().push(roots);
    }

    /// Neither deletes nor prunes what this says is used, from now on.
    pub fn spare(&self, users: Users) {
        self.inner.users.lock().unwrap_or_else(PoisonError::into_inner).push(users);
    }

    /// How many pulls and imports are under way.
    pub fn pulling_count(&self) -> usize {
        self.inner.jobs.count()
    }

    fn users(&self) -> Result<Vec<(String, Digest)>, ImageError> {
        let mut all = Vec::new();
        for users in &*self.inner.users.lock().unwrap_or_else(PoisonError::into_inner) {
            let failed = |error: io::Error| ImageError::Store { reason: chain(&error) };
            all.extend(users().map_err(failed)?);
        }
        Ok(all)
    }

    fn roots(&self) -> MutexGuard<'_, Vec<Roots>> {
        self.inner.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the image of a name, pulled or imported if need be; nothing if the name is the path of
    /// something that holds no images, but may be a root file system itself.
    ///
    /// Calls for the same image share the work; when nobody waits any more it ends. One that
    /// failed lately fails at once.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub async fn ensure(&self, name: &str, pull: ImagePull) -> Result<Option<Held>, ImageError> {
        // What was collected in between is pulled once more.
        for _ in 0..3 {
            let Some(image) = self.find_or_get(name, pull).await? else { return Ok(None) };
            let (store, id) = (self.clone(), image.record.id);
            let held = blocking(move || store.hold(image)).await??;
            if let Some(held) = held {
                self.inner.store.catalog.touch(&id);
                return Ok(Some(held));
            }
            if pull == ImagePull::Never {
                break;
            }
        }
        Err(ImageError::NotHere { name: name.to_owned() })
    }

    async fn find_or_get(&self, name: &str, pull: ImagePull) -> Result<Option<Image>, ImageError> {
        let source = Source::parse(name);
        let is_digest = name.strip_prefix("sha256:").is_some();
        let is_file = matches!(&source, Ok(s) if !matches!(s, Source::Registry(_)));
        if is_digest || (pull != ImagePull::Always && !is_file) {
            let found = self.find(name).await;
            match found {
                Ok(found) if self.inner.store.has_all(&found.record.layers) => {
                    return Ok(Some(found));
                }
                Ok(_) | Err(ImageError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if is_digest {
            return Err(ImageError::NotFound { name: name.to_owned() });
        }
        if pull == ImagePull::Never && !is_file {
            return Err(ImageError::NotHere { name: name.to_owned() });
        }
        let source = source.map_err(ImageError::Name)?;
        self.follow(name, source, true)?.outcome().await
    }

    /// Pulls or imports an image whatever is there, and says how far it is.
    ///
    /// # Errors
    /// If the name is none.
    pub fn pull(&self, name: &str) -> Result<Following, ImageError> {
        let source = Source::parse(name).map_err(ImageError::Name)?;
        self.follow(name, source, false)
    }

    fn follow(
        &self,
        name: &str,
        source: Source,
        minds_failures: bool,
    ) -> Result<Following, ImageError> {
        let name = whole_name(name);
        let images = self.clone();
        self.inner.jobs.follow(&name.clone(), minds_failures, move |told| async move {
            match source {
                Source::Registry(reference) => {
                    pull::pull(&images.inner, &reference, told).await.map(Some)
                }
                Source::Layout { .. } | Source::Archive { .. } | Source::Path(_) => {
                    let store = images.clone();
                    let import = move || store.inner.store.import(&source, &name);
                    blocking(import).await?.map_err(ImageError::of_import)
                }
            }
        })
    }

    fn hold(&self, image: Image) -> Result<Option<Held>, ImageError> {
        let store = &self.inner.store;
        let pin = store.layers.pin(&image.record.layers).map_err(ImageError::of_layer)?;
        Ok(store.has_all(&image.record.layers).then_some(Held { image, pin }))
    }

    /// All images.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn list(&self) -> Result<Vec<Image>, ImageError> {
        let images = self.clone();
        blocking(move || images.inner.store.catalog.list()).await?.map_err(ImageError::of_catalog)
    }

    /// The image of that name or digest.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn find(&self, text: &str) -> Result<Image, ImageError> {
        let (images, name) = (self.clone(), text.to_owned());
        let found = blocking(move || images.inner.store.catalog.find(&name)).await?;
        let found = found.map_err(ImageError::of_catalog)?;
        found.ok_or_else(|| ImageError::NotFound { name: text.to_owned() })
    }

    /// Takes a name away from an image, or removes it with all its names. One that something was
    /// made of is not removed.
    ///
    /// # Errors
    /// If there is none, it is used, or it cannot be removed.
    pub async fn delete(&self, text: &str) -> Result<(), ImageError> {
        let image = self.find(text).await?;
        let (images, name) = (self.clone(), text.to_owned());
        blocking(move || {
            let mut users = Vec::new();
            let is_used = || {
                let all = images.users()?.into_iter();
                users
                    .extend(all.filter(|(_, used)| *used == image.record.id).map(|(user, _)| user));
                Ok::<_, ImageError>(!users.is_empty())
            };
            if !images.inner.store.catalog.remove(&image, &name, is_used)? {
                return Err(ImageError::InUse { name, users });
            }
            images.collect().map(drop)
        })
        .await?
    }

    /// Removes images that nothing was made of: those without a name, or `all`; and layers that
    /// nobody has.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub async fn prune(&self, all: bool) -> Result<Pruned, ImageError> {
        let images = self.clone();
        blocking(move || {
            let catalog = &images.inner.store.catalog;
            let mut pruned = 0;
            for image in catalog.list().map_err(ImageError::of_catalog)? {
                let id = image.record.id;
                let is_used = || {
                    let users = images.users()?;
                    Ok::<_, ImageError>(users.iter().any(|(_, used)| *used == id))
                };
                let is_wanted = all || image.names.is_empty();
                if is_wanted && catalog.remove(&image, &id.to_string(), is_used)? {
                    pruned += 1;
                }
            }
            let collected = images.collect()?;
            let (layers, bytes) = (collected.layers, collected.bytes);
            Ok(Pruned { images: pruned, layers, bytes })
        })
        .await?
    }

    /// Removes layers that nobody has.
    fn collect(&self) -> Result<atoll_store::layer::Collected, ImageError> {
        let others = || {
            let mut kept = BTreeSet::new();
            for roots in &*self.roots() {
                kept.extend(roots()?);
            }
            Ok(kept)
        };
        self.inner.store.collect(others).map_err(ImageError::of_import)
    }
}

/// An image as the API shows it.
#[must_use]
pub fn view(image: &Image) -> Shown {
    let Image { record, names, used } = image;
    let time = |seconds: u64| {
        let unix_us =
            i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
        let time = unix_us.and_then(|unix_us| Timestamp::from_unix_us(unix_us).ok());
        time.unwrap_or(Timestamp::UNIX_EPOCH)
    };
    let name = |named: &atoll_store::catalog::Named| ImageName {
        name: named.name.clone(),
        manifest: named.manifest.as_ref().map(ToString::to_string),
    };
    let settings = &record.settings;
    let variable = |(name, value): &(String, String)| format!("{name}={value}");
    Shown {
        digest: record.id.to_string(),
        names: names.iter().map(name).collect(),
        layers: record.layers.iter().map(ToString::to_string).collect(),
        size_bytes: record.bytes,
        config: ImageConfig {
            env: settings.env.iter().map(variable).collect(),
            workdir: settings.workdir.clone(),
            user: settings.user.clone(),
            entrypoint: settings.entrypoint.clone(),
            cmd: settings.cmd.clone(),
            ports: settings.ports.clone(),
        },
        architecture: record.architecture.clone(),
        built_at: record.created.clone(),
        created_at: time(record.added),
        used_at: time(*used),
    }
}

/// Whether only who may do everything may name this image: it is read from the server's machine, or
/// without TLS from wherever the name says.
#[must_use]
pub fn is_for_admins(name: &str) -> bool {
    match Source::parse(name) {
        Ok(Source::Registry(reference)) => reference.is_plain,
        Ok(Source::Layout { .. } | Source::Archive { .. } | Source::Path(_)) => true,
        // It is refused as what it is.
        Err(_) => name.starts_with('/'),
    }
}

/// Lets time pass. What is waited for is outside, so it is real time and not the engine's.
#[expect(clippy::disallowed_methods, reason = "how long a registry is left alone is real time")]
async fn pause(time: std::time::Duration) {
    tokio::time::sleep(time).await;
}

/// Runs what may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ImageError> {
    spawn_blocking(work).await.map_err(|error| ImageError::BrokenOff { reason: chain(&error) })
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").finish_non_exhaustive()
    }
}
