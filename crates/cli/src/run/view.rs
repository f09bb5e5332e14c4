//! What the workload sees, from the policy and this machine.

use super::cache::Cache;
use super::caller::Identity;
use super::repository::Repository;
use crate::gateway::host::named_roots;
use crate::policy::ignore::Hidden;
use atoll_api::policy::{EffectivePolicy, WorkspaceMode};
use atoll_jail::confine::Confinement;
use atoll_jail::host::{self, ImageError, Trusted};
use atoll_jail::spec::{Access, Entry, Kind, Lower, Source, Spec, What};
use atoll_store::secret::Value;
use atoll_store::session::Session;
use std::path::{Path, PathBuf};

/// Room for private files where the policy names none, in bytes.
const PRIVATE_BYTES: u64 = 4 << 30;

/// The project as it was found.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) identity: (u64, u64),
    pub(crate) owner: (u32, u32),
}

/// Where installed programs come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum System<'a> {
    Host,
    /// The root file system in this directory.
    Image(&'a Path),
    /// An archive that has not been unpacked: nothing of it can be told.
    Packed,
}

/// What the view is made from.
pub(crate) struct Given<'a> {
    pub(crate) policy: &'a EffectivePolicy,
    pub(crate) project: &'a Project,
    pub(crate) identity: Identity,
    pub(crate) home: &'a Path,
    pub(crate) system: System<'a>,
    /// The directory that becomes `/etc`.
    pub(crate) etc: &'a Path,
    pub(crate) hostname: &'a str,
    pub(crate) cache: Option<&'a Cache>,
    /// Paths of the project that are hidden, relative to it; under review the
    /// session hides them itself.
    pub(crate) hidden: &'a [Hidden],
    /// What is in the private `~/.gitconfig`.
    pub(crate) git_settings: String,
    /// The project's repository, where it lies outside.
    pub(crate) repository: Option<&'a Repository>,
    /// The review session, where the project is under review.
    pub(crate) session: Option<&'a Session>,
    /// Root opens what the workload's user may not reach, and hands it in.
    pub(crate) hands_in: bool,
    /// The certificate of an authority, in PEM, that programs are to trust as well.
    pub(crate) certificate: Option<&'a str>,
    /// Secrets that are shown, each with its place.
    pub(crate) secrets: &'a [(PathBuf, Value)],
}

/// How the owners of a tree's files are seen inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    AsTheyAre,
    /// Through the sandbox's user namespace.
    Mapped,
    /// The same where the file system can; else as they are.
    MappedIfPossible,
}

/// A tree that the launcher opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandedTree {
    pub(crate) path: PathBuf,
    pub(crate) expect: Option<(u64, u64)>,
    pub(crate) owners: Owners,
    /// It lies under an overlay with this upper and this work directory.
    pub(crate) overlay: Option<(PathBuf, PathBuf)>,
}

impl HandedTree {
    fn new(path: &Path, expect: Option<(u64, u64)>) -> Self {
        Self { path: path.to_owned(), expect, owners: Owners::AsTheyAre, overlay: None }
    }
}

/// The view and what goes with it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) spec: Spec,
    pub(crate) confinement: Confinement,
    /// In the order of [`Source::Handed`].
    pub(crate) handed: Vec<HandedTree>,
    /// In the order of [`Source::Late`].
    pub(crate) late: Vec<HandedTree>,
}

/// Puts the view together.
pub(crate) fn build(given: &Given<'_>) -> Result<View, ImageError> {
    let user = given.identity.user;
    let mut view = host::own();
    if matches!(given.system, System::Host) {
        view.extend(host::system());
    }
    view.push(system_at("/etc", given.etc));
    let proc = What::Proc {
        cover_root_writable: user.inside_uid == 0,
        nested_userns: given.policy.kernel.nested_userns.value,
        watches: host::watches(),
    };
    view.push(Entry::new("/proc", proc));
    let cache = given.cache.map(|cache| (cache.path.as_path(), cache.identity));
    view.extend(host::home(given.home, cache));
    if !given.git_settings.is_empty() {
        let content = given.git_settings.clone().into_bytes();
        let what = What::File { content, mode: 0o644 };
        view.push(Entry::new(given.home.join(".gitconfig"), what));
    }
    let mut writable = vec![
        given.home.to_owned(),
        PathBuf::from("/tmp"),
        PathBuf::from("/run"),
        PathBuf::from("/dev/shm"),
    ];
    if let Some(source) = workspace(given) {
        let root = &given.project.root;
        // A program of the project that HOME has a link to stays writable.
        if !given.home.starts_with(root) {
            view.retain(|entry| !entry.at.starts_with(root));
        }
        make_room(&mut view, root);
        let (kind, access) = (Kind::Directory, Access::ReadWrite);
        view.push(Entry::new(root, What::Bind { source, kind, access }));
        writable.push(root.clone());
    }
    if let Some(repository) = given.repository {
        // A commit under review would have to be reviewed too: it is not ours to
        // hold back, so then the repository can only be read.
        let is_live = given.policy.workspace.mode.value == WorkspaceMode::Live;
        let access = if is_live { Access::ReadWrite } else { Access::ReadOnly };
        view.push(bind(&repository.path, Some(repository.identity), access));
        writable.extend(is_live.then(|| repository.path.clone()));
    }
    if given.session.is_none() {
        view.extend(given.hidden.iter().map(|hidden| {
            let kind = if hidden.is_dir { Kind::Directory } else { Kind::File };
            Entry::new(given.project.root.join(&hidden.path), What::Mask { kind })
        }));
    }
    for grant in &given.policy.files.read {
        add_grant(&mut view, &grant.value.path, Access::ReadOnly);
    }
    for grant in &given.policy.files.write {
        add_grant(&mut view, &grant.value.path, Access::ReadWrite);
        writable.push(grant.value.path.clone());
    }
    for (at, value) in given.secrets {
        make_room(&mut view, at);
        view.extend(host::secret_file(at, value.as_bytes()));
    }
    if let System::Image(root) = given.system {
        let places: Vec<PathBuf> = view.iter().map(|entry| entry.at.clone()).collect();
        view.extend(host::image(root, &places)?);
    }
    if let Some(certificate) = given.certificate {
        let trusted = Trusted { named: named_roots(), certificate };
        view.extend(host::trust(&view, &[], given.home, &trusted));
    }
    // Late trees come in the order of the plan, which sorts by place.
    view.sort_by(|a, b| a.at.cmp(&b.at));
    let (handed, late) = if given.hands_in { hand_in(&mut view, given) } else { (vec![], vec![]) };
    let has_helper = view.iter().any(|entry| matches!(entry.what, What::Mask { .. }));
    let private_bytes = given.policy.limits.disk.value.map_or(PRIVATE_BYTES, |bytes| bytes.0);
    Ok(View {
        spec: Spec { user, root: None, view, hostname: given.hostname.to_owned(), private_bytes },
        confinement: Confinement {
            writable,
            openable: vec!["/dev".into(), "/proc".into()],
            ptrace: given.policy.kernel.ptrace.value,
            nested_userns: given.policy.kernel.nested_userns.value,
            has_helper,
            has_root: false,
        },
        handed,
        late,
    })
}

/// Where the project comes from, if it is shown.
fn workspace(given: &Given<'_>) -> Option<Source> {
    let (path, identity) = (given.project.root.clone(), given.project.identity);
    match (given.policy.workspace.mode.value, given.session) {
        (WorkspaceMode::None, _) => None,
        (_, Some(session)) => Some(Source::Overlay {
            lowers: vec![Lower { path, expect: Some(identity) }],
            upper: session.upper(),
            work: session.work(),
        }),
        (_, None) => Some(Source::Path { path, expect: Some(identity) }),
    }
}

/// A directory of the host, read-only, at another place.
fn system_at(at: &str, path: &Path) -> Entry {
    let source = Source::Path { path: path.to_owned(), expect: None };
    Entry::new(at, What::Bind { source, kind: Kind::Directory, access: Access::ReadOnly })
}

fn bind(path: &Path, expect: Option<(u64, u64)>, access: Access) -> Entry {
    let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
    let source = Source::Path { path: path.to_owned(), expect };
    Entry::new(path, What::Bind { source, kind, access })
}

/// Takes away what is at `path`, and links that nothing could be placed below.
fn make_room(view: &mut Vec<Entry>, path: &Path) {
    view.retain(|entry| {
        let is_link = matches!(entry.what, What::Link { .. });
        entry.at != path && !(is_link && path.starts_with(&entry.at))
    });
}

/// A later grant of the same place takes the earlier one's.
fn add_grant(view: &mut Vec<Entry>, path: &Path, access: Access) {
    make_room(view, path);
    view.push(bind(path, None, access));
}

/// Replaces every path that root may reach but the workload's user may not by a
/// tree that is handed in.
fn hand_in(view: &mut [Entry], given: &Given<'_>) -> (Vec<HandedTree>, Vec<HandedTree>) {
    let (mut handed, mut late) = (Vec::new(), Vec::new());
    for entry in view {
        let What::Bind { source, .. } = &mut entry.what else { continue };
        if let Source::Overlay { lowers, upper, work } = source
            && let [lower] = &lowers[..]
        {
            let mut tree = HandedTree::new(&lower.path, lower.expect);
            tree.overlay = Some((upper.clone(), work.clone()));
            if given.identity.maps_project {
                tree.owners = Owners::Mapped;
            }
            late.push(tree);
            *source = Source::Late;
            continue;
        }
        let Source::Path { path, expect } = source else { continue };
        if *path == entry.at && host::places().any(|place| place == path) {
            continue;
        }
        let mut tree = HandedTree::new(path, *expect);
        tree.owners = owners(path, given);
        // Owners can be mapped only when the sandbox's user namespace is there.
        if tree.owners != Owners::AsTheyAre {
            *source = Source::Late;
            late.push(tree);
        } else {
            *source = Source::Handed(handed.len());
            handed.push(tree);
        }
    }
    (handed, late)
}

/// Root's own files are the workload's where root named them: the project, and
/// what was granted.
pub(super) fn owners(path: &Path, given: &Given<'_>) -> Owners {
    let files = &given.policy.files;
    let is_own = path == given.project.root
        || given.repository.is_some_and(|repository| path == repository.path);
    if !given.identity.maps_project {
        Owners::AsTheyAre
    } else if is_own || files.write.iter().any(|grant| grant.value.path == path) {
        Owners::Mapped
    } else if files.read.iter().any(|grant| grant.value.path == path) {
        Owners::MappedIfPossible
    } else {
        Owners::AsTheyAre
    }
}

/// Says whether a directory is in the view.
pub(crate) fn shows(spec: &Spec, image: Option<&Path>, path: &Path) -> bool {
    let is_tree = |entry: &&Entry| matches!(entry.what, What::Bind { .. } | What::Link { .. });
    let covering = spec.view.iter().filter(is_tree).filter(|entry| path.starts_with(&entry.at));
    let Some(entry) = covering.max_by_key(|entry| entry.at.components().count()) else {
        return false;
    };
    // Toolchains and the project are the host's beside an image too.
    let in_image =
        |path: &Path| image.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    match in_image(&entry.at).filter(|place| place.symlink_metadata().is_ok()) {
        Some(_) => in_image(path).is_some_and(|path| path.is_dir()),
        None => path.is_dir(),
    }
}
