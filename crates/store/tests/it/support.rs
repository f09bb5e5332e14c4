//! A project, an overlay over it and what a script did in there.

use atoll_store::Format;
use atoll_store::apply::{self, ApplyError, Outcome, Request};
use atoll_store::changes::{self, ChangeKind, Changes, Conflict};
use atoll_store::node::Time;
use atoll_store::view::{Baseline, View, ViewSpec};
use atoll_testkit::run::again_as_ordinary;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const SESSION: &str = "ses_0123456789abcdef";

/// Runs a test as whoever started it and, when that is root, once more as an
/// ordinary user.
pub(crate) fn as_root_and_user(name: &str, test: fn()) {
    test();
    if is_root() {
        again_as_ordinary(name);
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a test that only root can do may go on; says so if not.
pub(crate) fn may_as_root() -> bool {
    if !is_root() {
        atoll_testkit::skip::skip("store-as-root", "run by an ordinary user");
    }
    is_root()
}

/// A project with an overlay over it.
pub(crate) struct Case {
    _root: Option<tempfile::TempDir>,
    pub(crate) base: PathBuf,
    pub(crate) format: Format,
    pub(crate) started: Option<Time>,
    pub(crate) masked: BTreeSet<PathBuf>,
    before: Manifest,
}

impl Case {
    /// Makes a project with a shell script and starts a session.
    pub(crate) fn new(setup: &str) -> Self {
        Self::new_in(&std::env::temp_dir(), setup)
    }

    /// [`Self::new`] in a directory of choice.
    pub(crate) fn new_in(dir: &Path, setup: &str) -> Self {
        let root = tempfile::Builder::new().prefix("atoll-store-").tempdir_in(dir).unwrap();
        let base = root.path().to_owned();
        for dir in ["project", "upper", "work", "merged", "expected"] {
            fs::create_dir(base.join(dir)).unwrap();
        }
        let format = if is_root() { Format::Trusted } else { Format::User };
        let mut case = Self {
            _root: Some(root),
            base,
            format,
            started: None,
            masked: BTreeSet::new(),
            before: Manifest::default(),
        };
        case.on_host(setup);
        case.before = Manifest::of(&case.project());
        case.started = Some(wait_for_next_tick());
        case
    }

    /// The case that another process made.
    pub(crate) fn around(base: PathBuf, started: Time) -> Self {
        let format = if is_root() { Format::Trusted } else { Format::User };
        let (masked, before) = Default::default();
        Self { _root: None, base, format, started: Some(started), masked, before }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.base.join("upper")
    }

    /// Runs a script in the project, outside the overlay.
    pub(crate) fn on_host(&self, script: &str) {
        run_script(Command::new("bash").current_dir(self.project()), script);
    }

    /// Runs a script in the upper directory, as a hostile program could have
    /// left it.
    pub(crate) fn forge(&self, script: &str) {
        run_script(Command::new("bash").current_dir(self.upper()), script);
    }

    /// Runs a script within the overlay and keeps a copy of what it left.
    pub(crate) fn in_session(&self, script: &str) -> &Self {
        let (unshare, options) = match self.format {
            Format::Trusted => ("-m", "redirect_dir=on,metacopy=off"),
            Format::User => ("-rm", "userxattr"),
        };
        let whole = format!(
            "mount -t overlay overlay -o lowerdir=project,upperdir=upper,workdir=work,{options} merged\n\
             chmod 755 merged; cd merged\n\
             ( {script}\n )\n\
             cp -a . ../expected/\n"
        );
        run_script(
            Command::new("unshare").arg(unshare).arg("bash").current_dir(&self.base),
            &whole,
        );
        self
    }

    /// Marks a directory of the upper as copied up.
    pub(crate) fn mark_copied(&self, path: &str) {
        atoll_store::mark_copied(&self.upper().join(path), self.format).unwrap();
    }

    pub(crate) fn view_with(&self, baseline: Baseline) -> View {
        View::open(ViewSpec {
            upper: self.upper(),
            project: self.project(),
            format: self.format,
            masked: self.masked.clone(),
            started: self.started,
            stand_in: None,
            baseline,
            is_running: false,
        })
        .unwrap()
    }

    fn baseline(&self) -> Baseline {
        Baseline::parse(&fs::read(self.base.join("baseline")).unwrap_or_default())
    }

    pub(crate) fn view(&self) -> View {
        self.view_with(self.baseline())
    }

    pub(crate) fn changes(&self) -> Changes {
        changes::read(&self.view()).unwrap()
    }

    /// The changes as `A path`, `M path` and so on, conflicts with a `!`.
    pub(crate) fn listed(&self) -> Vec<String> {
        let changes = self.changes();
        let line = |change: &changes::Change| {
            let letter = match change.kind {
                ChangeKind::Added => "A",
                ChangeKind::Modified => "M",
                ChangeKind::Mode => "P",
                ChangeKind::Attributes => "X",
                ChangeKind::TypeChanged => "T",
                ChangeKind::Deleted => "D",
            };
            let mark = if change.conflict.is_some() { "!" } else { "" };
            format!("{letter}{mark} {}", change.path.display())
        };
        changes.list.iter().map(line).collect()
    }

    pub(crate) fn try_apply(&self, paths: &[&str], force: &[&str]) -> Result<Outcome, ApplyError> {
        let own = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let (paths, force) = (own(paths), own(force));
        let baseline =
            OpenOptions::new().create(true).append(true).open(self.base.join("baseline")).unwrap();
        let request =
            Request { session: SESSION, paths: &paths, force: &force, baseline: Some(&baseline) };
        let view = self.view();
        let changes = changes::read(&view).unwrap();
        apply::apply(&view, &changes, &request)
    }

    pub(crate) fn apply(&self) -> Outcome {
        self.try_apply(&[], &[]).unwrap()
    }

    /// Applies everything and checks that the project then is what the session
    /// saw, and that nothing is left to apply.
    #[track_caller]
    pub(crate) fn check(&self) {
        let outcome = self.apply();
        assert_eq!(outcome.conflicts, []);
        assert_eq!(outcome.kept, []);
        self.check_is_as_seen();
        assert_eq!(self.listed(), Vec::<String>::new());
    }

    /// [`Self::check_is_as_seen`] but for the times of directories, which an
    /// interruption moves.
    #[track_caller]
    pub(crate) fn check_content_is_as_seen(&self) {
        let mut expected = Manifest::of(&self.base.join("expected"));
        let mut found = Manifest::of(&self.project());
        for entry in found.entries.values_mut().chain(expected.entries.values_mut()) {
            if entry.kind == "dir" {
                entry.mtime = (0, 0);
            }
        }
        for (path, before) in &self.before.entries {
            for manifest in [&mut expected, &mut found] {
                if let Some(entry) = manifest.entries.get_mut(path)
                    && entry.is_same_but_for_time(before)
                {
                    entry.mtime = (0, 0);
                }
            }
        }
        found.assert_is(&expected);
    }

    #[track_caller]
    pub(crate) fn check_is_as_seen(&self) {
        let mut expected = Manifest::of(&self.base.join("expected"));
        let mut found = Manifest::of(&self.project());
        // Times of directories that were there before follow from the work done
        // in them, here as there, and a file that was only touched is no change.
        for (path, before) in &self.before.entries {
            for manifest in [&mut expected, &mut found] {
                if let Some(entry) = manifest.entries.get_mut(path)
                    && (before.kind == "dir" || entry.is_same_but_for_time(before))
                {
                    entry.mtime = (0, 0);
                }
            }
        }
        found.assert_is(&expected);
    }

    /// [`Self::check_content_is_as_seen`] but for what the names of one file are,
    /// which an overlay shows differently from what it stores.
    #[track_caller]
    pub(crate) fn check_but_for_links(&self) {
        let mut expected = Manifest::of(&self.base.join("expected"));
        let mut found = Manifest::of(&self.project());
        for entry in found.entries.values_mut().chain(expected.entries.values_mut()) {
            (entry.mtime, entry.first_link) = ((0, 0), PathBuf::new());
        }
        found.assert_is(&expected);
    }

    /// Checks that the project is as it was before the session.
    #[track_caller]
    pub(crate) fn check_is_untouched(&self) {
        Manifest::of(&self.project()).assert_is(&self.before);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.project().join(path).symlink_metadata().is_ok()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if self._root.is_none() {
            return;
        }
        // Modes that scripts took away would keep an ordinary user from cleaning up.
        Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.base).output().ok();
    }
}

pub(crate) fn conflict(path: &str, conflict: Conflict) -> (PathBuf, Conflict) {
    (path.into(), conflict)
}

#[track_caller]
pub(crate) fn run_script(command: &mut Command, script: &str) {
    let output = command
        .arg("-euo")
        .arg("pipefail")
        .arg("-c")
        .arg(format!("umask 022\n{script}"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@example.com")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@example.com")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "script failed: {errors}\n{script}");
}

pub(crate) fn coarse_now() -> Time {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Time { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap() }
}

/// Waits until files made so far are older than the time that is returned.
pub(crate) fn wait_for_next_tick() -> Time {
    let (before, deadline) = (coarse_now(), Instant::now() + Duration::from_secs(5));
    // Two ticks: a time stamp may be finer and so later than the coarse clock.
    let mut last = before;
    let mut ticks = 0;
    while ticks < 2 {
        assert!(Instant::now() < deadline, "the coarse clock stands still");
        std::thread::yield_now();
        let now = coarse_now();
        ticks += u32::from(now > last);
        last = now;
    }
    last
}

/// One file as far as it has to be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    content: Vec<u8>,
    /// Whether it takes much less room than its length.
    is_sparse: bool,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The first path of the same file.
    first_link: PathBuf,
}

impl Entry {
    /// A file that was only touched is not a change.
    fn is_same_but_for_time(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.mtime = self.mtime;
        *self == other
    }
}

/// A whole tree.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Manifest {
    pub(crate) fn of(root: &Path) -> Self {
        let mut manifest = Self::default();
        let (mut todo, mut opened) = (vec![PathBuf::new()], Vec::new());
        while let Some(dir) = todo.pop() {
            opened.push(Opened::with(&root.join(&dir), 0o500));
            for entry in fs::read_dir(root.join(&dir)).unwrap() {
                let path = dir.join(entry.unwrap().file_name());
                if fs::symlink_metadata(root.join(&path)).unwrap().is_dir() {
                    todo.push(path.clone());
                }
                manifest.entries.insert(path.clone(), entry_of(&root.join(&path)));
            }
        }
        manifest.find_links(root);
        // Inner directories first.
        while opened.pop().is_some() {}
        manifest
    }

    fn find_links(&mut self, root: &Path) {
        let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (path, entry) in &mut self.entries {
            let ino = fs::symlink_metadata(root.join(path)).unwrap().ino();
            entry.first_link = first.entry(ino).or_insert_with(|| path.clone()).clone();
        }
    }

    #[track_caller]
    fn assert_is(&self, expected: &Self) {
        let paths: BTreeSet<_> = self.entries.keys().chain(expected.entries.keys()).collect();
        let describe = |entry: Option<&Entry>| match entry {
            None => "nothing".into(),
            Some(entry) => {
                let mut short = entry.clone();
                short.content.truncate(80);
                format!("{short:?}")
            }
        };
        let differences: Vec<String> = paths
            .into_iter()
            .filter(|path| self.entries.get(*path) != expected.entries.get(*path))
            .map(|path| {
                let (is, should) = (self.entries.get(path), expected.entries.get(path));
                format!("{path:?}\n  is     {}\n  should {}", describe(is), describe(should))
            })
            .collect();
        assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
    }
}

/// Opens a mode up for reading while it lives.
struct Opened {
    path: PathBuf,
    /// The mode to go back to. Nothing is set without need: that would move the
    /// change time.
    mode: Option<u32>,
}

impl Opened {
    fn with(path: &Path, more: u32) -> Self {
        let mode = fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        let is_needed = mode & more != more && !is_root();
        if is_needed {
            fs::set_permissions(path, PermissionsExt::from_mode(mode | more)).unwrap();
        }
        Self { path: path.to_owned(), mode: is_needed.then_some(mode) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            fs::set_permissions(&self.path, PermissionsExt::from_mode(mode)).unwrap();
        }
    }
}

fn entry_of(path: &Path) -> Entry {
    use std::os::unix::fs::FileTypeExt as _;
    let metadata = fs::symlink_metadata(path).unwrap();
    let kind = metadata.file_type();
    let (kind, content) = if kind.is_dir() {
        ("dir", Vec::new())
    } else if kind.is_symlink() {
        ("link", fs::read_link(path).unwrap().into_os_string().as_bytes().to_vec())
    } else if kind.is_file() {
        ("file", read_shut(path))
    } else if kind.is_fifo() {
        ("fifo", Vec::new())
    } else {
        ("special", Vec::new())
    };
    let is_sparse = kind == "file" && metadata.blocks() * 512 + 65536 < metadata.len();
    let content = if content.len() > 1 << 20 { digest(&content) } else { content };
    Entry {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        content,
        is_sparse,
        xattrs: if kind == "link" { BTreeMap::new() } else { user_xattrs(path) },
        first_link: PathBuf::new(),
    }
}

fn digest(content: &[u8]) -> Vec<u8> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish().to_ne_bytes().to_vec()
}

fn read_shut(path: &Path) -> Vec<u8> {
    let _opened = Opened::with(path, 0o400);
    let is_endless = path.metadata().unwrap().len() > 1 << 30;
    if is_endless { Vec::new() } else { fs::read(path).unwrap() }
}

fn user_xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let _opened = Opened::with(path, 0o400);
    let mut names = vec![0; 65536];
    let Ok(length) = rustix::fs::listxattr(path, names.as_mut_slice()) else {
        return BTreeMap::new();
    };
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user.") || name.starts_with(b"system."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let name = OsStr::from_bytes(name);
            let length = rustix::fs::getxattr(path, name, value.as_mut_slice()).unwrap();
            value.truncate(length);
            (name.to_owned(), value)
        })
        .collect()
}
