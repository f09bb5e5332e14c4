//! A guest that serves operations (`examples/guest.rs`), asked as a host asks.

mod ending;
mod hostile;
mod input;
mod output;
mod ports;
mod run;
mod sessions;

use atoll_testkit::guest::{Client, Said, Socket, code, command, sh};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::User;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A guest and the directory of its socket.
struct Guest {
    child: Child,
    dir: tempfile::TempDir,
    socket: Socket,
}

struct Options {
    /// How long a follower is waited for.
    patience_ms: u64,
    kept_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience_ms: 10_000, kept_bytes: 256 << 20 }
    }
}

/// Runs a test with a guest of every user.
fn each(test: impl Fn(&Guest)) {
    each_with(&Options::default(), test);
}

fn each_with(options: &Options, test: impl Fn(&Guest)) {
    for user in User::all() {
        test(&Guest::start(user, options));
    }
}

impl Guest {
    fn start(user: User, options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        user.give(dir.path());
        let mut command = Command::new("unshare");
        command.args(["-Ur", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program());
        command.arg(dir.path().join("socket"));
        command.args([options.patience_ms.to_string(), options.kept_bytes.to_string()]);
        user.become_for(&mut command);
        let child = command.current_dir("/").env_clear().spawn().unwrap();
        let socket = Socket::new(dir.path().join("socket"));
        wait_until("the guest", || socket.is_there());
        Self { child, dir, socket }
    }
}

impl std::ops::Deref for Guest {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        let panics = self.dir.path().join("socket.panics");
        let panics = std::fs::read_to_string(panics).unwrap_or_default();
        if std::thread::panicking() {
            writeln!(std::io::stderr(), "the guest: {panics}").ok();
        } else {
            assert_eq!(panics, "");
        }
    }
}

fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().with_file_name("examples").join("guest");
    assert!(path.exists(), "{} is not built: build the examples", path.display());
    path
}
