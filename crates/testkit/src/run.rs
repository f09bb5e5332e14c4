//! `atoll run` in a project of the test's own, by root and by an ordinary user.

use crate::skip;
use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// An ordinary user that no machine has an account for.
pub const ORDINARY_UID: u32 = 54_321;

/// Who runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    /// Every user that the test can be: both for root, one for anybody else,
    /// which is then said.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() {
            vec![Self::Root, Self::Ordinary]
        } else {
            skip::skip("as-root", "run by an ordinary user");
            vec![Self::Ordinary]
        }
    }

    /// The user id, where the test can choose it.
    #[must_use]
    pub fn uid(self) -> Option<u32> {
        match self {
            Self::Root => Some(0),
            Self::Ordinary if rustix::process::geteuid().is_root() => Some(ORDINARY_UID),
            Self::Ordinary => None,
        }
    }

    /// Makes `command` run as this user.
    pub fn become_for(self, command: &mut Command) {
        if let (Self::Ordinary, Some(uid)) = (self, self.uid()) {
            command.uid(uid).gid(uid);
        }
    }

    /// Gives a path, and all below it, to this user.
    ///
    /// # Panics
    ///
    /// If it cannot.
    pub fn give(self, path: &Path) {
        let Some(uid) = self.uid() else { return };
        std::os::unix::fs::lchown(path, Some(uid), Some(uid)).expect("chown");
        if path.symlink_metadata().expect("stat").is_dir() {
            for entry in std::fs::read_dir(path).expect("read the directory") {
                self.give(&entry.expect("read the directory").path());
            }
        }
    }
}

/// Runs the test `name` of this test program once more, as the ordinary user: for
/// tests that act themselves instead of starting a program.
///
/// # Panics
///
/// If the test fails there, or there is none of this name.
pub fn again_as_ordinary(name: &str) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(reachable(&program));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env("HOME", "/nonexistent").current_dir("/");
    User::Ordinary.become_for(&mut command);
    let ran = Ran(command.output().expect("start the test"));
    assert_eq!(ran.code(), Some(0), "as an ordinary user: {}", ran.text());
    assert!(ran.stdout().contains("1 passed"), "there is no test {name}: {}", ran.text());
}

/// A project with a home directory beside it, both gone at the end.
#[derive(Debug)]
pub struct Project {
    base: PathBuf,
    pub user: User,
    atoll: PathBuf,
}

impl Project {
    /// Makes an empty project for `user`; `atoll` is the program
    /// (`env!("CARGO_BIN_EXE_atoll")`).
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[must_use]
    pub fn new(user: User, atoll: &str) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // A test that was killed may have left its own behind, and ids come again.
        let base = loop {
            let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = format!("atoll-test-{}-{count}", std::process::id());
            let base = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o755).create(&base) {
                Ok(()) => break base,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", base.display()),
            }
        };
        for name in ["project", "home"] {
            let path = base.join(name);
            DirBuilder::new().mode(0o755).create(&path).expect("make a directory");
            user.give(&path);
        }
        Self { base, user, atoll: reachable(Path::new(atoll)) }
    }

    /// The project's directory.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.base.join("project")
    }

    /// The caller's home directory.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// A directory beside both, for things outside.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        let path = self.base.join("outside");
        if !path.exists() {
            std::fs::create_dir(&path).expect("make a directory");
            self.user.give(&path);
        }
        path
    }

    /// Writes a file of the project (`relative`) as the user, with its parents.
    ///
    /// # Panics
    ///
    /// If it cannot.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(relative);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("make parents");
        std::fs::write(&path, content).expect("write a file");
        self.user.give(&self.root());
        path
    }

    /// What a file of the project holds now.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    #[must_use]
    pub fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.root().join(relative)).expect("read a file")
    }

    /// A command of the user's own, without a sandbox: the control.
    #[must_use]
    pub fn bare(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.user.become_for(&mut command);
        command.current_dir(self.root()).env_clear().envs(self.environment());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a shell script without a sandbox.
    ///
    /// # Panics
    ///
    /// If the shell cannot be started.
    #[must_use]
    pub fn bare_sh(&self, script: &str) -> Ran {
        Ran(self.bare("sh").args(["-c", script]).output().expect("start sh"))
    }

    /// The program with these arguments, in the project, as the user.
    #[must_use]
    pub fn atoll(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(&self.atoll);
        command.args(arguments);
        command
    }

    /// The program's own path, where the user can run it.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.atoll
    }

    /// `atoll run FLAGS -- sh -c SCRIPT`.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    #[must_use]
    pub fn run_sh(&self, flags: &[&str], script: &str) -> Ran {
        let mut command = self.atoll(&["run"]);
        command.args(flags).args(["--", "sh", "-c", script]);
        Ran(command.output().expect("start atoll"))
    }

    fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME", self.home()),
            ("USER", "tester".into()),
            ("LANG", "C.UTF-8".into()),
        ]
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // Something may have been made unreadable on purpose.
        Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.base).output().ok();
        std::fs::remove_dir_all(&self.base).ok();
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran(pub Output);

impl Ran {
    /// Exit status; `None` after a signal.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Both, for the text of a failed assertion.
    #[must_use]
    pub fn text(&self) -> String {
        format!("status {:?}\n{}\n{}", self.0.status, self.stdout(), self.stderr())
    }

    /// The object that `--json` prints as the last line of stderr.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let text = self.stderr();
        let line = text.lines().last().expect("a line");
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON in {}", self.text()))
    }
}

/// A program where every user can run it: the build directory may lie below a
/// directory that is root's own.
///
/// # Panics
///
/// If it is not there, or cannot be copied to where they can.
#[must_use]
pub fn reachable(program: &Path) -> PathBuf {
    static COPY: LazyLock<PathBuf> = LazyLock::new(|| {
        let name = format!("atoll-test-program-{}", rustix::process::geteuid().as_raw());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("make a directory");
        std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("chmod");
        chown(&directory, None, None).expect("own");
        directory
    });
    let open = |path: &Path| path.metadata().is_ok_and(|it| it.permissions().mode() & 0o005 == 5);
    if program.ancestors().all(open) {
        return program.to_owned();
    }
    let stamp = program.metadata().and_then(|it| it.modified()).expect("stat the program");
    let age = stamp.duration_since(std::time::UNIX_EPOCH).expect("a time after 1970").as_nanos();
    let name = program.file_name().expect("a name").display();
    let copy = COPY.join(format!("{name}-{age}"));
    if !copy.exists() {
        let staged = COPY.join(format!(".{name}-{}", std::process::id()));
        std::fs::copy(program, &staged).expect("copy the program");
        std::fs::set_permissions(&staged, Permissions::from_mode(0o755)).expect("chmod");
        std::fs::rename(&staged, &copy).expect("rename");
    }
    copy
}
