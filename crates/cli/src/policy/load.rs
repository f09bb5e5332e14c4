//! From flags and files to the policy in force.

use super::flags::PolicyFlags;
use super::ignore::{self, Hidden, IgnoreSet, ScanError, ScanLimits};
use super::network::{self, Network};
use super::project::{self, Project, ProjectError};
use super::{home, read};
use crate::env;
use crate::error::CliError;
use atoll_api::exec::ExecPattern;
use atoll_api::policy::{
    Document, EffectivePolicy, Host, Layer, Level, MergeError, MergeErrorKind, Merged, POLICY_FILE,
    Resolution, WorkspaceMode, merge,
};
use atoll_jail::paths::normalise;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The policy of one command, and what it was made from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The policy in force, with warnings that the command shows.
    pub(crate) merged: Merged,
    /// The project.
    pub(crate) project: Project,
    /// Where the command was called, links resolved.
    pub(crate) cwd: PathBuf,
    /// The caller's home directory, links resolved.
    pub(crate) home: Option<PathBuf>,
    /// What the policy says of the network, understood.
    pub(crate) network: Network,
    /// Where the user's own policy lies, whether it is there or not.
    pub(crate) user_file: Option<PathBuf>,
}

impl Loaded {
    /// What the rules hide in the project where it is shown. Nothing may start while this is
    /// not known.
    pub(crate) fn scan_hidden(&self) -> Result<(IgnoreSet, Vec<Hidden>), ScanError> {
        if self.merged.policy.workspace.mode.value == WorkspaceMode::None {
            return Ok(Default::default());
        }
        self.scan()
    }

    /// What the rules hide in the project, whether it is shown or not.
    pub(crate) fn scan(&self) -> Result<(IgnoreSet, Vec<Hidden>), ScanError> {
        ignore::scan(self.project.fd.as_fd(), &self.merged.policy.files, ScanLimits::default())
    }
}

/// Finds, reads and merges everything that `flags` and the machine say.
pub(crate) fn load(flags: &PolicyFlags) -> Result<Loaded, CliError> {
    let cwd = match (project::current_directory(), &flags.project) {
        // Whoever named all of its path needs no current directory.
        (Err(ProjectError::Deleted), Some(project)) if project.is_absolute() => PathBuf::from("/"),
        (found, _) => found?,
    };
    let home = home::home();
    let project = project::discover(flags.project.as_deref(), &cwd, home.as_deref())?;
    let user_file = user_file_path(home.as_deref());
    let mut layers = Vec::new();
    if !flags.no_user_policy
        && let Some(path) = &user_file
    {
        layers.extend(user_layer(path, Level::User, &project, home.as_deref())?);
    }
    if let Some(path) = &flags.policy {
        let path = cwd.join(path);
        let layer = user_layer(&path, Level::PolicyFile, &project, home.as_deref())?;
        let missing = || CliError::new(format!("the policy {} does not exist", path.display()));
        layers.push(layer.ok_or_else(missing)?);
    }
    if let Some(document) = read::project_file(&project.fd, &project.root)? {
        let path = project.root.join(POLICY_FILE);
        layers.push(layer(Level::Project, Some(&path), document, home.as_deref())?);
    }
    layers.push(layer(Level::Flag, None, flags.document(&cwd), home.as_deref())?);
    // What the system shows matters to paths that somebody names.
    let names_paths = layers.iter().any(|layer| !layer.paths.is_empty());
    let system = atoll_jail::host::places()
        .filter(|_| names_paths)
        .filter_map(|dir| std::fs::canonicalize(dir).ok())
        .collect();
    let named = flags.policy.as_ref().map(|path| cwd.join(path));
    let trusted =
        [&user_file, &named].into_iter().flatten().flat_map(|path| spellings(path)).collect();
    let host = Host { home: home.clone(), project: project.root.clone(), system, trusted };
    let told = |errors: Vec<MergeError>| merge_error(&errors, user_file.as_deref());
    let mut merged = merge(&layers, &host).map_err(told)?;
    let network = network::understand(&merged.policy.network).map_err(told)?;
    merged.warnings.extend(network::warnings(&network, &merged.policy.network));
    merged.warnings.sort_by_key(|warning| (warning.origin.level, warning.origin.line()));
    check_links(&layers, &merged.policy, &project, home.as_deref())?;
    Ok(Loaded { merged, project, cwd, home, network, user_file })
}

/// Commands that a person is asked about in sandboxes of a server: what the user's own policy says,
/// unless it is left out, and what a file says that was named.
pub(crate) fn exec_ask(
    named: Option<&Path>,
    leaves_user_out: bool,
) -> Result<Vec<ExecPattern>, CliError> {
    let user = user_file_path(home::home().as_deref()).filter(|_| !leaves_user_out);
    let mut patterns = Vec::new();
    for (path, level) in [(user.as_deref(), Level::User), (named, Level::PolicyFile)] {
        let Some(path) = path else { continue };
        match read::user_file(path, level)? {
            Some(document) => {
                let items = document.exec.ask.into_iter().flat_map(|list| list.items);
                patterns.extend(items.map(|item| item.value));
            }
            None if level == Level::User => {}
            None => {
                let message = format!("the policy {} does not exist", path.display());
                return Err(CliError::new(message));
            }
        }
    }
    Ok(patterns)
}

/// Refuses paths that lead through a link in what is writable from inside: an
/// earlier run could have turned it to where nothing was meant to be granted.
fn check_links(
    layers: &[Layer],
    policy: &EffectivePolicy,
    project: &Project,
    home: Option<&Path>,
) -> Result<(), CliError> {
    let granted = policy.files.write.iter().map(|grant| &grant.value.path);
    let writable: Vec<&PathBuf> = std::iter::once(&project.root).chain(granted).collect();
    for (path, found) in layers.iter().flat_map(|layer| &layer.paths) {
        let Some(real) = &found.real else { continue };
        let links = links_on(&expand(path, home)?);
        let leaves = |root: &&&PathBuf| {
            !real.starts_with(root) && links.iter().any(|directory| directory.starts_with(root))
        };
        if let Some(root) = writable.iter().find(leaves) {
            let message = format!("{} leads through a link in {}", path.display(), root.display());
            return Err(CliError::new(message)
                .because("it could have been turned to anything from inside")
                .hint(format!("if it is meant, name what it leads to: {}", real.display())));
        }
    }
    Ok(())
}

/// The real directories that hold the links on an absolute path.
fn links_on(path: &Path) -> Vec<PathBuf> {
    let (mut at, mut found) = (PathBuf::from("/"), Vec::new());
    for part in path.components() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => {
                let next = at.join(name);
                if next.is_symlink() {
                    found.push(at);
                }
                at = std::fs::canonicalize(&next).unwrap_or(next);
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    found
}

/// Where the user's own policy lies, whether it is there or not.
fn user_file_path(home: Option<&Path>) -> Option<PathBuf> {
    let config = env::XDG_CONFIG_HOME.path().or_else(|| home.map(|home| home.join(".config")))?;
    Some(config.join("atoll/config.toml"))
}

/// A file that speaks for the user must lie where a sandbox cannot write it: a
/// project that holds its own trusted policy could widen it for the next run.
fn user_layer(
    path: &Path,
    level: Level,
    project: &Project,
    home: Option<&Path>,
) -> Result<Option<Layer>, CliError> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some(document) = read::user_file(path, level)? else { return Ok(None) };
    // As it is spelled it may *lead through* the project, where a link could be turned.
    if real.starts_with(&project.root) || normalise(path).starts_with(&project.root) {
        let message = format!(
            "the policy {} lies in the project, where it could be written from inside",
            path.display()
        );
        let error = CliError::new(message);
        return Err(match level {
            Level::User => {
                error.hint("leave it out with --no-user-policy, or name another with --policy FILE")
            }
            _ => error.hint(format!(
                "keep it outside, or name it {POLICY_FILE}: then it may only narrow"
            )),
        });
    }
    layer(level, Some(path), document, home).map(Some)
}

/// The paths under which a file could be written, whether it exists or not.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let beside = path.parent().zip(path.file_name());
    let parent = beside.and_then(|(dir, name)| Some(std::fs::canonicalize(dir).ok()?.join(name)));
    let mut all: Vec<PathBuf> = [Some(normalise(path)), parent, std::fs::canonicalize(path).ok()]
        .into_iter()
        .flatten()
        .collect();
    all.dedup();
    all
}

fn layer(
    level: Level,
    file: Option<&Path>,
    document: Document,
    home: Option<&Path>,
) -> Result<Layer, CliError> {
    let paths = document
        .host_paths()
        .map(|path| Ok((path.to_owned(), resolve(path, home)?)))
        .collect::<Result<_, CliError>>()?;
    Ok(Layer { level, file: file.map(Arc::from), document, paths })
}

/// What a path of a document is on this machine.
fn resolve(path: &Path, home: Option<&Path>) -> Result<Resolution, CliError> {
    let spelled = expand(path, home)?;
    // An unreadable parent counts as missing: what cannot be reached cannot be shown.
    let real = std::fs::canonicalize(&spelled).ok();
    let is_socket = real
        .as_ref()
        .and_then(|real| real.metadata().ok())
        .is_some_and(|it| it.file_type().is_socket());
    // Without dots and doubled slashes, so that it can be made inside as it is.
    let has_dots = spelled.components().any(|part| part == Component::ParentDir);
    let spelled = match &real {
        Some(real) if has_dots => real.clone(),
        _ => spelled.components().collect(),
    };
    Ok(Resolution { spelled, real, is_socket })
}

/// A path of a document with `~` replaced.
fn expand(path: &Path, home: Option<&Path>) -> Result<PathBuf, CliError> {
    match (path.strip_prefix("~"), home) {
        (Err(_), _) => Ok(path.to_owned()),
        (Ok(rest), Some(home)) => Ok(home.join(rest)),
        (Ok(_), None) => {
            let message =
                format!("cannot tell where {} is: there is no home directory", path.display());
            Err(CliError::new(message).hint("set HOME, or write the path from /"))
        }
    }
}

impl From<ScanError> for CliError {
    fn from(error: ScanError) -> Self {
        let message = error.to_string();
        match error {
            ScanError::ReadDir { source, .. } | ScanError::ReadFile { source, .. } => {
                Self::new(message).because(source)
            }
            ScanError::TooMany { .. } | ScanError::TooDeep { .. } => Self::new(message)
                .hint("choose a smaller project with --project DIR, or remove the hide rules"),
            ScanError::NotRegular { .. } | ScanError::TooLong { .. } => Self::new(message),
        }
    }
}

impl From<ProjectError> for CliError {
    fn from(error: ProjectError) -> Self {
        let message = error.to_string();
        match error {
            ProjectError::Deleted => Self::new(message)
                .hint("go to a directory that exists, or name one with --project DIR"),
            ProjectError::Cwd { source } | ProjectError::Open { source, .. } => {
                Self::new(message).because(source)
            }
            ProjectError::NotDirectory { .. } => Self::new(message),
            ProjectError::TooWide { .. } => Self::new(message).hint(
                "go to the directory that the command works on, or name it with --project DIR",
            ),
        }
    }
}

/// All problems, and for what the project may not do the line that the user may write.
fn merge_error(errors: &[MergeError], user_file: Option<&Path>) -> CliError {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let mut error = CliError::new(lines.join("\nerror: "));
    for problem in errors {
        if let MergeErrorKind::Widens { user_line: Some(line), .. } = &problem.kind
            && let Some(file) = user_file
        {
            let section = problem.key.split('.').next().unwrap_or_default();
            error = error.hint(format!(
                "if you want it, write under [{section}] in {}: {line}",
                file.display()
            ));
        }
    }
    error
}
