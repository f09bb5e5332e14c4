//! Sandboxes that are started by the resident process, on the real kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod capture;
mod death;
mod layers;
mod root;
mod start;
mod walls;

use atoll_jail::host::{Account, Names};
use atoll_protocol::exec;
use atoll_protocol::octets::Octets;
use atoll_spawner::client::{Spawned, Spawner};
use atoll_spawner::order::{Bind, Ids, Image, Order, Root};
use atoll_testkit::guest::{Socket, sh};
use atoll_testkit::run::User;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A resident process and a directory for its sandboxes.
struct Host {
    user: User,
    spawner: Spawner,
    dir: tempfile::TempDir,
}

/// Runs a test with a resident process of every user.
fn each(test: impl Fn(&Host)) {
    for user in User::all() {
        test(&Host::start(user));
    }
}

impl Host {
    fn start(user: User) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        user.give(dir.path());
        Self { user, spawner: spawner(user), dir }
    }

    /// An order for a sandbox of its own, with a home that is kept.
    fn order(&self, name: &str) -> Order {
        let state = self.dir.path().join(name);
        let home = state.join("home");
        std::fs::create_dir_all(&home).unwrap();
        self.user.give(&state);
        let outside = match self.user {
            // Root's sandboxes are somebody else's.
            User::Root => OUTSIDE,
            User::Ordinary => self.user.uid().unwrap_or(rustix::process::getuid().as_raw()),
        };
        if self.user == User::Root {
            std::os::unix::fs::chown(&home, Some(outside), Some(outside)).unwrap();
        }
        let account = Account {
            name: "user".into(),
            uid: 1000,
            gid: 1000,
            home: "/home/user".into(),
            shell: "/bin/sh".into(),
        };
        let etc =
            atoll_jail::host::etc(&state.join("etc"), &account, Names::Fixed(name), None).unwrap();
        if self.user != User::Root {
            self.user.give(&state.join("etc"));
        }
        let gid = if self.user == User::Root { outside } else { own_gid(self.user) };
        Order {
            socket: octets(&state.join("guest")),
            image: Image::Host,
            etc: Some(octets(&etc)),
            user: atoll_spawner::order::User {
                inside_uid: 1000,
                inside_gid: 1000,
                outside_uid: outside,
                outside_gid: gid,
            },
            root: (self.user == User::Root).then(root),
            binds: vec![Bind {
                source: octets(&home),
                at: octets(Path::new("/home/user")),
                is_writable: true,
            }],
            hostname: name.to_owned(),
            machine_id: None,
            private_bytes: 64 << 20,
            environment: [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/user")]
                .map(|(name, value)| (text(name), text(value)))
                .into(),
            overlays: Vec::new(),
            volumes: Vec::new(),
            directory: text("/home/user"),
            group: None,
            open_files: Some(256),
            processes: None,
            capture: None,
            secrets: Vec::new(),
            trust: None,
        }
    }

    fn spawn(&self, order: &Order) -> Sandbox {
        let spawned = self.spawner.spawn(order).unwrap();
        Sandbox { spawned, socket: Socket::new(order.socket.as_path()) }
    }
}

/// Nobody has these ids: the sandbox's user, and the first of its others.
const OUTSIDE: u32 = 71_000;
const OUTSIDE_ROOT: u32 = 70_000;

/// A root inside, with the accounts that a system has.
fn root() -> Root {
    let ids = |inside, outside, count| Ids { inside, outside, count };
    Root {
        ids: vec![
            ids(0, OUTSIDE_ROOT, 1000),
            ids(1001, OUTSIDE + 1, 22),
            ids(65_534, OUTSIDE + 23, 1),
        ],
        environment: vec![(text("HOME"), text("/root"))],
    }
}

fn own_gid(user: User) -> u32 {
    user.uid().unwrap_or(rustix::process::getgid().as_raw())
}

/// The resident process of a user.
fn spawner(user: User) -> Spawner {
    let tests = std::env::current_exe().unwrap();
    let path: PathBuf = tests.parent().unwrap().with_file_name("examples").join("spawner");
    assert!(path.exists(), "{} is not built: build the examples", path.display());
    let mut command = Command::new(path);
    user.become_for(&mut command);
    command.current_dir("/").env_clear();
    Spawner::start(command, None).unwrap()
}

/// A sandbox that ends with the test.
struct Sandbox {
    spawned: Spawned,
    socket: Socket,
}

impl Sandbox {
    /// What a line of shell prints inside.
    fn sh(&self, script: &str) -> String {
        let ran = self.socket.sh(script);
        format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
    }

    /// The same as the root inside.
    fn root_sh(&self, script: &str) -> String {
        let mut start = sh(script);
        start.command.user = exec::User::Root;
        let ran = self.socket.run(start);
        format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
    }

    /// Waits until its PID 1 has ended.
    fn wait(&self) {
        assert!(ends(&self.spawned), "it has not ended");
    }
}

fn ends(spawned: &Spawned) -> bool {
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut [PollFd::new(&spawned.pidfd, PollFlags::IN)], Some(&patience)).unwrap() == 1
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let kill = rustix::process::Signal::KILL;
        rustix::process::pidfd_send_signal(&self.spawned.pidfd, kill).ok();
    }
}

fn octets(path: &Path) -> Octets {
    text(path.to_str().unwrap())
}

fn text(text: &str) -> Octets {
    Octets::try_from(text).unwrap()
}
