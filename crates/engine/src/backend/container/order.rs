//! What a sandbox is made of, as the spawner is told.

use super::home;
use super::host::{Looked, Places, call};
use super::identity::{Ids, UID};
use super::image::{self, Ground};
use super::{layers, volume};
use crate::backend::{BackendError, Spec};
use crate::images::Images;
use atoll_api::id::{LayerId, SandboxId};
use atoll_jail::host::{Account, Names};
use atoll_protocol::octets::Octets;
use atoll_spawner::order::{Bind, Image, Order, Overlay, Root, SecretFile, Trust};
use atoll_store::oci::Settings;
use atoll_store::secret::Value;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Room for what is not kept, in bytes.
const PRIVATE_BYTES: u64 = 1 << 30;

/// Most processes and threads of a sandbox of root's that has no limit of its own.
const PROCESSES: u64 = 8192;

/// The user inside.
pub(super) fn account() -> Account {
    let (name, shell) = ("user".to_owned(), "/bin/sh".into());
    Account { name, uid: UID, gid: UID, home: home(), shell }
}

/// How long this machine's `/etc` is taken to be as it was: to look at every file that is
/// shown of it takes half as long as to make a sandbox.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The directory that becomes `/etc`; made anew if what it is made from has changed.
pub(super) fn etc(places: &Places, root: Option<&Path>) -> Result<PathBuf, BackendError> {
    let (base, mut looked) = places.etc();
    if root.is_none()
        && let Some(Looked { at, directory }) = &*looked
        && at.elapsed() < LOOK_AGAIN
    {
        return Ok(directory.clone());
    }
    let at = Instant::now();
    let directory = atoll_jail::host::etc(&base, &account(), Names::OfEach, root)
        .map_err(call("put the sandbox's /etc together"))?;
    if root.is_none() {
        *looked = Some(Looked { at, directory: directory.clone() });
    }
    Ok(directory)
}

/// What is shown as the root file system, what becomes `/etc`, and how that wants to be run.
fn shown(
    places: &Places,
    id: SandboxId,
    name: &str,
    ids: Ids,
    images: Option<&Images>,
    below: &[LayerId],
) -> Result<(Image, Option<PathBuf>, Settings), BackendError> {
    let (lowers, settings) = match image::ground(&places.top(id), name, images)? {
        None => return Ok((Image::Host, Some(etc(places, None)?), Settings::default())),
        Some(Ground::Root(root)) => (vec![root], Settings::default()),
        Some(Ground::Layers(lowers, settings)) => (lowers, settings),
    };
    if let Some(layers) = layers::root_at_start(places, id, &lowers, ids, below)? {
        return Ok((Image::Writable(layers), None, settings));
    }
    let [root] = lowers.as_slice() else {
        let reason = "it has several layers, and the root file system cannot be written here";
        let reason = format!("{reason} (writable_root)");
        return Err(BackendError::Image { image: name.to_owned(), reason });
    };
    let etc = etc(places, Some(root))?;
    Ok((Image::Directory(octets(root)?), Some(etc), settings))
}

/// The order for a sandbox that [`Backend::create`](crate::backend::Backend::create)
/// has made, with these layers `below` what it keeps. `roots` is a file of certificates that are
/// trusted in place of the image's.
pub(super) fn order(
    places: &Places,
    id: SandboxId,
    spec: &Spec,
    ids: Ids,
    roots: Option<&Path>,
    images: Option<&Images>,
    below: &[LayerId],
) -> Result<Order, BackendError> {
    let (image, etc, settings) = shown(places, id, &spec.image, ids, images, below)?;
    let (binds, overlays) = match layers::home_at_start(places, id, ids, below)? {
        Some(layers) => (Vec::new(), vec![Overlay { layers, at: octets(&home())? }]),
        None => {
            let source = octets(&places.top(id).home())?;
            (vec![Bind { source, at: octets(&home())?, is_writable: true }], Vec::new())
        }
    };
    let own_id = id.to_string();
    let start = getrandom::u64().map_err(|error| super::host::other("number the start", error))?;
    let start = format!("{start:016x}");
    let mut environment = vec![
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/home/user"),
        ("USER", "user"),
        ("LOGNAME", "user"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("ATOLL", "1"),
        ("ATOLL_SANDBOX", &own_id),
        ("ATOLL_START", &start),
    ];
    let own = spec.env.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let theirs = settings.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // Who the user is, the image does not know.
    let is_ours =
        |name: &str| ["HOME", "USER", "LOGNAME"].contains(&name) || name.starts_with("ATOLL");
    let theirs = theirs.filter(|(name, _)| !is_ours(name));
    let theirs: Vec<_> = theirs.collect();
    environment.retain(|(name, _)| !theirs.iter().any(|(other, _)| other == name));
    environment.extend(theirs);
    environment.retain(|(name, _)| !spec.env.0.contains_key(*name));
    environment.extend(own);
    let roots = roots.map(octets).transpose()?;
    let trust = spec.certificate.clone().map(|certificate| Trust { certificate, roots });
    Ok(Order {
        socket: octets(&places.socket(id))?,
        image,
        etc: etc.as_deref().map(octets).transpose()?,
        user: ids.as_user(),
        root: root(ids, spec, &settings)?,
        binds,
        overlays,
        volumes: volume::at_start(places, &spec.volumes, ids)?,
        hostname: spec.hostname.clone(),
        machine_id: Some(machine_id(id)),
        private_bytes: PRIVATE_BYTES,
        environment: environment.into_iter().map(variable).collect::<Result<_, _>>()?,
        directory: match (&spec.directory, image::workdir(&settings)) {
            (Some(directory), _) => octets(Path::new(directory))?,
            (None, Some(workdir)) => octets(workdir)?,
            (None, None) => octets(&home())?,
        },
        group: None,
        open_files: None,
        // An ordinary server's own processes would count too.
        processes: rustix::process::geteuid().is_root().then_some(PROCESSES),
        capture: spec.capture.clone(),
        secrets: spec.secrets.iter().map(secret).collect::<Result<_, _>>()?,
        trust,
    })
}

fn secret((at, value): &(PathBuf, Value)) -> Result<SecretFile, BackendError> {
    Ok(SecretFile::new(octets(at)?, value.as_bytes().to_vec()))
}

/// The id of the machine inside: another one for each sandbox, whatever it was made of, and the
/// same at every start.
fn machine_id(id: SandboxId) -> String {
    let digest = Sha256::digest(format!("machine id of {id}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The root inside, where there are ids for it.
fn root(ids: Ids, spec: &Spec, settings: &Settings) -> Result<Option<Root>, BackendError> {
    let ids = ids.others();
    if ids.is_empty() {
        return Ok(None);
    }
    let own = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("USER", "root"),
        ("LOGNAME", "root"),
    ];
    // What the sandbox was given as its own is everybody's.
    let has_path = settings.env.iter().any(|(name, _)| name == "PATH");
    let is_said = |name: &str| spec.env.0.contains_key(name) || (has_path && name == "PATH");
    let environment = own.into_iter().filter(|(name, _)| !is_said(name));
    Ok(Some(Root { ids, environment: environment.map(variable).collect::<Result<_, _>>()? }))
}

fn variable((name, value): (&str, &str)) -> Result<(Octets, Octets), BackendError> {
    Ok((Octets::new(name).map_err(bad_env)?, Octets::new(value).map_err(bad_env)?))
}

fn bad_env(error: atoll_protocol::octets::HasNul) -> BackendError {
    super::host::other("read the environment", error)
}

pub(super) fn octets(path: &Path) -> Result<Octets, BackendError> {
    Octets::try_from(path.as_os_str().to_owned())
        .map_err(|error| super::host::other("name a path", error))
}
