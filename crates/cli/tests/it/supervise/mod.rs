//! What the launcher does while the command runs, with a stand-in for the jail
//! (`examples/supervise.rs`).

mod death;
mod job_control;
mod pipes;
mod shared;
mod terminal;

use atoll_testkit::process::{marker, processes};
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{User, reachable};
use atoll_testkit::skip::is_installed;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `test` as each user there can be.
fn each_user(test: impl FnMut(Caller)) {
    User::all().into_iter().map(Caller).for_each(test);
}

/// Who runs the launcher.
#[derive(Debug, Clone, Copy)]
struct Caller(User);

impl Caller {
    fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.0.become_for(&mut command);
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
    reachable(&path)
}

/// A directory that every user may write.
fn shared_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Modes in a form that can be compared.
fn modes(pty: &Pty) -> String {
    format!("{:?}", pty.modes().unwrap())
}

/// The modes before the launcher.
fn first_modes(pty: &Pty) -> String {
    format!("{:?}", pty.first_modes())
}
