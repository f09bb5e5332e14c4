//! What the commands of a sandbox see and may write, from its order.

use crate::order::{Failed, Image, Order};
use atoll_jail::confine::Confinement;
use atoll_jail::host;
use atoll_jail::spec::{Access, Entry, Kind, Source, Spec, User, What};
use std::path::{Path, PathBuf};

/// The view, and the trees that the maker opens for it, in the order of
/// [`Source::Handed`].
pub(crate) struct View {
    pub(crate) spec: Spec,
    pub(crate) confinement: Confinement,
    pub(crate) handed: Vec<PathBuf>,
}

/// What belongs to programs that run.
pub(crate) const RUN: &str = "/run";

/// The home of the root inside.
pub(crate) const ROOT_HOME: &str = "/root";

/// Puts the view together. Root `hands_in` what the sandbox's user may not reach.
pub(crate) fn build(order: &Order, hands_in: bool) -> Result<View, Failed> {
    let mut view = host::own();
    if order.root.is_some() {
        // Everybody may make something in the first, and nobody take another's away.
        view.retain(|entry| entry.at != Path::new(RUN));
        view.extend([Entry::private(RUN, 0o1777), Entry::private(ROOT_HOME, 0o700)]);
    }
    if order.image == Image::Host {
        view.extend(host::system());
    }
    view.push(bind(Path::new("/etc"), order.etc.as_path(), Access::ReadOnly));
    let proc = What::Proc {
        cover_root_writable: order.user.inside_uid == 0 || order.root.is_some(),
        nested_userns: false,
        watches: host::watches(),
    };
    view.push(Entry::new("/proc", proc));
    let mut writable: Vec<PathBuf> = ["/tmp", RUN, "/dev/shm"].map(PathBuf::from).into();
    writable.extend(order.root.as_ref().map(|_| PathBuf::from(ROOT_HOME)));
    for one in &order.binds {
        let (at, source) = (one.at.as_path(), one.source.as_path());
        view.retain(|entry| !entry.at.starts_with(at));
        let access = if one.is_writable { Access::ReadWrite } else { Access::ReadOnly };
        view.push(bind(at, source, access));
        writable.extend(one.is_writable.then(|| at.to_owned()));
    }
    if let Image::Directory(root) = &order.image {
        let places: Vec<PathBuf> = view.iter().map(|entry| entry.at.clone()).collect();
        let shown = host::image(root.as_path(), &places);
        view.extend(shown.map_err(|error| Failed::new("image", &error, 0))?);
    }
    let handed = if hands_in { hand_in(&mut view) } else { Vec::new() };
    let user = User {
        inside_uid: order.user.inside_uid,
        inside_gid: order.user.inside_gid,
        outside_uid: order.user.outside_uid,
        outside_gid: order.user.outside_gid,
    };
    let (hostname, private_bytes) = (order.hostname.clone(), order.private_bytes);
    Ok(View {
        spec: Spec { user, view, hostname, private_bytes },
        confinement: Confinement {
            writable,
            openable: vec!["/dev".into(), "/proc".into()],
            ptrace: true,
            nested_userns: false,
            has_helper: false,
            has_root: order.root.is_some(),
        },
        handed,
    })
}

fn bind(at: &Path, source: &Path, access: Access) -> Entry {
    let source = Source::Path { path: source.to_owned(), expect: None };
    Entry::new(at, What::Bind { source, kind: Kind::Directory, access })
}

/// Replaces every path but those of the system, which everybody may read, by a tree
/// that is handed in.
fn hand_in(view: &mut [Entry]) -> Vec<PathBuf> {
    let mut handed = Vec::new();
    for entry in view {
        let What::Bind { source, .. } = &mut entry.what else { continue };
        let Source::Path { path, .. } = source else { continue };
        if *path == entry.at && host::places().any(|place| place == path) {
            continue;
        }
        handed.push(path.clone());
        *source = Source::Handed(handed.len() - 1);
    }
    handed
}
