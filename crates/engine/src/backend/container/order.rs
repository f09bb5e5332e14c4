//! What a sandbox is made of, as the spawner is told.

use super::home;
use super::host::{Places, call};
use super::identity::{Ids, UID};
use crate::backend::{BackendError, Spec};
use atoll_api::id::SandboxId;
use atoll_jail::host::Account;
use atoll_protocol::octets::Octets;
use atoll_spawner::order::{Bind, Image, Order, Root};
use std::path::{Path, PathBuf};

/// Room for what is not kept, in bytes.
const PRIVATE_BYTES: u64 = 1 << 30;

/// Most processes and threads of a sandbox of root's that has no limit of its own.
const PROCESSES: u64 = 8192;

/// Name of the machine inside.
const HOSTNAME: &str = "atoll";

/// The image of this name: `host`, or a directory.
pub(super) fn image(name: &str) -> Result<Image, BackendError> {
    let refused =
        |reason: &str| BackendError::Image { image: name.to_owned(), reason: reason.to_owned() };
    if name == "host" {
        return Ok(Image::Host);
    }
    if !name.starts_with('/') {
        return Err(refused("it is neither host nor the absolute path of a directory"));
    }
    let path = Path::new(name).canonicalize().map_err(|error| refused(&error.to_string()))?;
    let has = |name: &str| path.join(name).symlink_metadata().is_ok();
    if !path.is_dir() || !(has("bin") || has("usr/bin")) {
        return Err(refused("it is no root file system: there is neither bin nor usr/bin in it"));
    }
    Ok(Image::Directory(octets(&path)?))
}

/// The directory that becomes `/etc`; made anew if what it is made from has changed.
pub(super) fn etc(places: &Places, image: &Image) -> Result<PathBuf, BackendError> {
    let root = match image {
        Image::Host => None,
        Image::Directory(path) => Some(path.as_path()),
    };
    let (base, _guard) = places.etc();
    let account = Account {
        name: "user".to_owned(),
        uid: UID,
        gid: UID,
        home: home(),
        shell: "/bin/sh".into(),
    };
    atoll_jail::host::etc(&base, &account, HOSTNAME, root)
        .map_err(call("put the sandbox's /etc together"))
}

/// The order for a sandbox that [`Backend::create`](crate::backend::Backend::create)
/// has made.
pub(super) fn order(
    places: &Places,
    id: SandboxId,
    spec: &Spec,
    ids: Ids,
) -> Result<Order, BackendError> {
    let image = image(&spec.image)?;
    let etc = etc(places, &image)?;
    let mut environment = vec![
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/home/user"),
        ("USER", "user"),
        ("LOGNAME", "user"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("ATOLL", "1"),
    ];
    let own = spec.env.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    environment.retain(|(name, _)| !spec.env.0.contains_key(*name));
    environment.extend(own);
    Ok(Order {
        socket: octets(&places.socket(id))?,
        image,
        etc: octets(&etc)?,
        user: ids.as_user(),
        root: root(ids, spec)?,
        binds: vec![Bind {
            source: octets(&places.home(id))?,
            at: octets(&home())?,
            is_writable: true,
        }],
        hostname: HOSTNAME.to_owned(),
        private_bytes: PRIVATE_BYTES,
        environment: environment.into_iter().map(variable).collect::<Result<_, _>>()?,
        directory: octets(&home())?,
        open_files: None,
        // An ordinary server's own processes would count too.
        processes: rustix::process::geteuid().is_root().then_some(PROCESSES),
    })
}

/// The root inside, where there are ids for it.
fn root(ids: Ids, spec: &Spec) -> Result<Option<Root>, BackendError> {
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
    let environment = own.into_iter().filter(|(name, _)| !spec.env.0.contains_key(*name));
    Ok(Some(Root { ids, environment: environment.map(variable).collect::<Result<_, _>>()? }))
}

fn variable((name, value): (&str, &str)) -> Result<(Octets, Octets), BackendError> {
    Ok((Octets::new(name).map_err(bad_env)?, Octets::new(value).map_err(bad_env)?))
}

fn bad_env(error: atoll_protocol::octets::HasNul) -> BackendError {
    super::host::other("read the environment", error)
}

fn octets(path: &Path) -> Result<Octets, BackendError> {
    Octets::try_from(path.as_os_str().to_owned())
        .map_err(|error| super::host::other("name a path", error))
}
