//! What the launcher does while the command runs, with a stand-in for the jail
//! (`examples/supervise.rs`).

mod death;
mod job_control;
mod pipes;
mod shared;
mod terminal;

use atoll_testkit::pty::Pty;
use atoll_testkit::skip::is_installed;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: u32 = 65534;

/// The users to run a test as: root has an ordinary one too.
fn each_user(mut test: impl FnMut(User)) {
    test(User { id: None });
    if rustix::process::geteuid().is_root() {
        test(User { id: Some(NOBODY) });
    }
}

#[derive(Debug, Clone, Copy)]
struct User {
    id: Option<u32>,
}

impl User {
    fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some(id) = self.id {
            command.uid(id).gid(id);
        }
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm").env("PS1", "$ ");
        command.env("HOME", "/nonexistent").current_dir("/");
        command
    }

    /// The launcher with these arguments.
    fn launcher(self, arguments: &[&str]) -> Command {
        let mut command = self.command(launcher());
        command.args(arguments);
        command
    }

    /// A shell on a terminal, with `$L` for the launcher.
    fn shell(self) -> Pty {
        let mut shell = self.command("bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("L", launcher()).env("PS1", "ready> ");
        let mut pty = Pty::spawn(&mut shell).unwrap();
        pty.expect("ready> ").unwrap();
        // What is typed must not be mistaken for what is printed.
        pty.send("stty -echo; bind 'set enable-bracketed-paste off'\r").unwrap();
        pty.expect("ready> ").unwrap();
        pty
    }
}

fn launcher() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_atoll")).with_file_name("examples/supervise");
    assert!(path.exists(), "{} is not built: build the examples", path.display());
    path
}

/// A directory that every user may write.
fn shared_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// A word that no other process has among its arguments.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes with `marker` in an argument, zombies excluded.
fn processes(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&arguments).contains(marker)
            && let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
        {
            found.push(pid);
        }
    }
    found
}

/// Modes in a form that can be compared.
fn modes(pty: &Pty) -> String {
    format!("{:?}", pty.modes().unwrap())
}

/// The modes before the launcher.
fn first_modes(pty: &Pty) -> String {
    format!("{:?}", pty.first_modes())
}
