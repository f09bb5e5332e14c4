//! The view of a run that is not made, for explaining: nothing is created.

use super::cache::{self, Cache};
use super::caller::Caller;
use super::prepare::{HOSTNAME, cache_home, project, repository};
use super::view::{self, Owners, System};
use crate::error::CliError;
use crate::policy::ignore::IgnoreSet;
use crate::policy::load::Loaded;
use atoll_api::policy::Image;
use atoll_jail::spec::{Entry, User};
use std::path::PathBuf;

/// What the next run would see.
#[derive(Debug)]
pub(crate) struct Outline {
    /// As for a caller who is not root, who opens every path itself; the source of
    /// `/etc` is of no meaning.
    pub(crate) entries: Vec<Entry>,
    /// What hides in the project.
    pub(crate) rules: IgnoreSet,
    pub(crate) user: User,
    /// Places in whose trees root's files are the workload's own.
    pub(crate) mapped: Vec<PathBuf>,
    pub(crate) home: PathBuf,
    /// Where the project's private cache is seen inside.
    pub(crate) cache: PathBuf,
    /// The project's repository, where it lies outside.
    pub(crate) repository: Option<PathBuf>,
}

/// Plans the view under the policy.
pub(crate) fn outline(loaded: &Loaded) -> Result<Outline, CliError> {
    let caller = Caller::find(loaded.home.clone());
    let project = project(loaded)?;
    let identity = caller.identity(project.owner);
    let base = cache_home(&caller);
    let owner = identity.user.outside_uid;
    let cache = Cache {
        path: cache::place(&base.join("projects"), &project.root, owner),
        identity: (0, 0),
    };
    let repository = repository(loaded, &project, &caller);
    let (rules, hidden) = loaded.scan_hidden()?;
    let given = view::Given {
        policy: &loaded.merged.policy,
        project: &project,
        identity,
        home: &caller.home,
        system: match &loaded.merged.policy.image.value {
            Image::Host => System::Host,
            Image::Path(path) if path.is_dir() => System::Image(path),
            Image::Path(_) => System::Packed,
        },
        etc: &base.join("host/etc"),
        git_settings: String::new(),
        hostname: HOSTNAME,
        cache: Some(&cache),
        hidden: &hidden,
        repository: repository.as_ref(),
        session: None,
        hands_in: false,
        certificate: None,
        secrets: &[],
    };
    let view = view::build(&given)
        .map_err(|error| CliError::new("the root file system cannot be shown").because(error))?;
    let entries = view.spec.view;
    let mapped = entries.iter().map(|entry| &entry.at);
    let mapped = mapped.filter(|at| view::owners(at, &given) != Owners::AsTheyAre);
    Ok(Outline {
        mapped: mapped.cloned().collect(),
        entries,
        rules,
        user: identity.user,
        cache: caller.home.join(".cache"),
        home: caller.home.clone(),
        repository: repository.map(|repository| repository.path),
    })
}
