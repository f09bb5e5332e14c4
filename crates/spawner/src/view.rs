//! What the commands of a sandbox see and may write, from its order.

use crate::order::{self, Failed, Image, Layers, Order, Owners, Trust};
use atoll_jail::confine::Confinement;
use atoll_jail::host::{self, Stack, Trusted};
use atoll_jail::spec::{Access, Entry, Kind, Lower, Source, Spec, User, What};
use std::path::{Path, PathBuf};

/// The view, and the trees that the maker opens for it, in the order of
/// [`Source::Handed`].
pub(crate) struct View {
    pub(crate) spec: Spec,
    pub(crate) confinement: Confinement,
    pub(crate) handed: Vec<Handed>,
}

/// A tree that root hands in.
pub(crate) struct Handed {
    pub(crate) path: PathBuf,
    /// Its device and inode, where it has to be this one.
    pub(crate) expect: Option<(u64, u64)>,
    pub(crate) owners: Owners,
}

/// What belongs to programs that run.
pub(crate) const RUN: &str = "/run";

/// The home of the root inside, unless the image has it.
pub(crate) const ROOT_HOME: &str = "/root";

/// Puts the view together. Root `hands_in` what the sandbox's user may not reach.
pub(crate) fn build(order: &Order, hands_in: bool) -> Result<View, Failed> {
    let writable_root = match &order.image {
        Image::Writable(layers) => Some(layers),
        Image::Host | Image::Directory(_) => None,
    };
    let mut view = own(order);
    if order.image == Image::Host {
        view.extend(host::system());
    }
    view.extend(order.etc.iter().map(|etc| bind(ETC, etc.as_path(), Access::ReadOnly)));
    let proc = What::Proc {
        cover_root_writable: order.user.inside_uid == 0 || order.root.is_some(),
        nested_userns: false,
        watches: host::watches(),
    };
    view.push(Entry::new("/proc", proc));
    let mut writable: Vec<PathBuf> = ["/tmp", RUN, "/dev/shm"].map(PathBuf::from).into();
    for one in &order.binds {
        let (at, source) = (one.at.as_path(), one.source.as_path());
        view.retain(|entry| !entry.at.starts_with(at));
        let access = if one.is_writable { Access::ReadWrite } else { Access::ReadOnly };
        view.push(bind(at, source, access));
        writable.extend(one.is_writable.then(|| at.to_owned()));
    }
    for one in &order.overlays {
        let at = one.at.as_path();
        view.retain(|entry| !entry.at.starts_with(at));
        let source = stack(&one.layers, hands_in)?;
        let access = Access::ReadWrite;
        view.push(Entry::new(at, What::Bind { source, kind: Kind::Directory, access }));
        writable.push(at.to_owned());
    }
    for one in &order.volumes {
        let (at, source) = (one.at.as_path(), one.source.as_path());
        view.retain(|entry| !entry.at.starts_with(at));
        let access = if one.is_writable { Access::ReadWrite } else { Access::ReadOnly };
        let source = Source::Path { path: source.to_owned(), expect: one.expect };
        view.push(Entry::new(at, What::Bind { source, kind: Kind::Directory, access }));
        writable.extend(one.is_writable.then(|| at.to_owned()));
    }
    if let Image::Directory(root) = &order.image {
        let places: Vec<PathBuf> = view.iter().map(|entry| entry.at.clone()).collect();
        let shown = host::image(root.as_path(), &places);
        view.extend(shown.map_err(|error| Failed::new("image", &error, 0))?);
    }
    if let Some(machine_id) = &order.machine_id {
        view.extend(host::own_names(&order.hostname, machine_id));
    }
    for secret in &order.secrets {
        view.extend(host::secret_file(secret.at.as_path(), &secret.content));
    }
    if let Some(trust) = &order.trust {
        let root = writable_root.map(|layers| of_layers(Path::new("/"), layers));
        let overlays = order.overlays.iter().map(|one| of_layers(one.at.as_path(), &one.layers));
        let stacks: Vec<Stack<'_>> = root.into_iter().chain(overlays).collect();
        view.extend(host::trust(&view, &stacks, order.directory.as_path(), &trusted(trust)));
    }
    if writable_root.is_some() {
        // What is not to be written is a mount of its own that cannot be, or of no id inside.
        writable = vec![PathBuf::from("/")];
    } else if order.root.is_some() {
        writable.push(ROOT_HOME.into());
    }
    let root = writable_root.map(|layers| stack(layers, hands_in)).transpose()?;
    let handed = if hands_in { hand_in(order, &mut view) } else { Vec::new() };
    let user = User {
        inside_uid: order.user.inside_uid,
        inside_gid: order.user.inside_gid,
        outside_uid: order.user.outside_uid,
        outside_gid: order.user.outside_gid,
    };
    let (hostname, private_bytes) = (order.hostname.clone(), order.private_bytes);
    Ok(View {
        spec: Spec { user, root, view, hostname, private_bytes },
        confinement: confinement(writable, order.root.is_some()),
        handed,
    })
}

/// What commands may do, of which the filter is the same for all sandboxes.
pub(crate) fn confinement(writable: Vec<PathBuf>, has_root: bool) -> Confinement {
    Confinement {
        writable,
        openable: vec!["/dev".into(), "/proc".into()],
        ptrace: true,
        nested_userns: false,
        has_helper: false,
        has_root,
    }
}

const ETC: &str = "/etc";

fn of_layers<'a>(at: &'a Path, layers: &'a Layers) -> Stack<'a> {
    let lowers = layers.lowers.iter().rev().map(|lower| lower.path.as_path());
    Stack { at, layers: [layers.upper.as_path()].into_iter().chain(lowers).collect() }
}

fn trusted(trust: &Trust) -> Trusted<'_> {
    let named = trust.roots.as_ref().and_then(|path| std::fs::read(path.as_path()).ok());
    Trusted { named, certificate: &trust.certificate }
}

/// What every sandbox has of its own.
fn own(order: &Order) -> Vec<Entry> {
    let mut view = host::own();
    let is_writable = matches!(order.image, Image::Writable(_));
    if order.root.is_some() {
        // Everybody may make something there, and nobody take another's away.
        view.retain(|entry| entry.at != Path::new(RUN));
        view.push(Entry::private(RUN, 0o1777));
    }
    if order.root.is_some() && !is_writable {
        view.push(Entry::private(ROOT_HOME, 0o700));
    }
    if is_writable {
        // An image has these itself, as it likes them.
        view.retain(|entry| !matches!(entry.what, What::Link { .. }));
    }
    view
}

/// Root mounts it outside, where directories can be renamed and owners be mapped.
fn stack(layers: &Layers, hands_in: bool) -> Result<Source, Failed> {
    if hands_in {
        return Ok(Source::Late);
    }
    let lower =
        |lower: &order::Lower| Lower { path: lower.path.as_path().to_owned(), expect: None };
    Ok(Source::Overlay {
        lowers: layers.lowers.iter().map(lower).collect(),
        upper: layers.upper.as_path().to_owned(),
        work: layers.work.as_path().to_owned(),
    })
}

fn bind(at: impl Into<PathBuf>, source: &Path, access: Access) -> Entry {
    let source = Source::Path { path: source.to_owned(), expect: None };
    Entry::new(at, What::Bind { source, kind: Kind::Directory, access })
}

/// Replaces every path but those of the system, which everybody may read, by a tree
/// that is handed in, with whose its files are.
fn hand_in(order: &Order, view: &mut [Entry]) -> Vec<Handed> {
    let mut handed = Vec::new();
    for entry in view {
        let What::Bind { source, .. } = &mut entry.what else { continue };
        let Source::Path { path, expect } = source else { continue };
        if *path == entry.at && host::places().any(|place| place == path) {
            continue;
        }
        let volume = order.volumes.iter().find(|one| one.at.as_path() == entry.at);
        let owners = volume.map_or(Owners::Own, |one| one.owners);
        handed.push(Handed { path: path.clone(), expect: *expect, owners });
        *source = Source::Handed(handed.len() - 1);
    }
    handed
}
