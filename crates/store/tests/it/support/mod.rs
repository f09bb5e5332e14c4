//! A project, an overlay over it and what a script did in there.

pub(crate) mod archive;
mod manifest;

use atoll_store::Format;
use atoll_store::apply::{self, ApplyError, Outcome, Request};
use atoll_store::changes::{self, ChangeKind, Changes, Conflict};
use atoll_store::node::Time;
use atoll_store::view::{Baseline, View, ViewSpec};
use atoll_testkit::clock;
use atoll_testkit::run::again_as_ordinary;
use manifest::Manifest;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Waits until files made so far are older than the time that is returned.
pub(crate) fn wait_for_next_tick() -> Time {
    let now = clock::wait_for_next_tick();
    Time { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap() }
}
