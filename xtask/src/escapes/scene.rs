//! A home with a project, and what an attempt may reach for outside. New for each run, at
//! the same place, so that what a sandbox keeps for a home is made once.

use super::attempts::{Attempt, MOMENT, Prop, Who};
use super::sandboxes::Way;
use crate::process;
use crate::soak::ORDINARY;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) struct Scene {
    pub(super) home: PathBuf,
    pub(super) project: PathBuf,
    /// What nobody inside may learn; no script contains it.
    pub(super) secret: String,
    /// Names what belongs to this scene.
    number: u32,
    user: Option<u32>,
    cache: PathBuf,
    neighbour: Option<Child>,
    unix: Option<UnixListener>,
    tcp: Option<TcpListener>,
    terminal: Option<(OwnedFd, OwnedFd)>,
    run: Option<TempDir>,
    has_key: bool,
    /// What should have ended.
    running: Option<Child>,
    place: PathBuf,
}

/// By then an attempt is done.
const RUN_MAX: Duration = Duration::from_secs(5);

/// Comes first: an attempt that did not even start was not refused.
const START: &str = "echo started; ";

/// How the user's key is added, and its permissions widened to those of other sessions.
const ADD_KEY: &str = "
import ctypes, os, sys
call = ctypes.CDLL(None).syscall
call.restype = ctypes.c_long
arm = os.uname().machine == 'aarch64'
name, text = sys.argv[1].encode(), sys.argv[2].encode()
key = call(217 if arm else 248, b'user', name, text, len(text), -4)
call(219 if arm else 250, 5, key, 0x3f3f0000)
sys.exit(key <= 0)";
const REMOVE_KEY: &str = "
import ctypes, os, sys
call = ctypes.CDLL(None).syscall
keyctl = 219 if os.uname().machine == 'aarch64' else 250
key = call(keyctl, 10, -4, b'user', sys.argv[1].encode(), 0)
call(keyctl, 9, key, -4)";
/// Lets itself be traced by anybody, as a debugger's crash handler does: PR_SET_PTRACER.
const NEIGHBOUR: &str = "
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
print('ready', flush=True)
sys.stdin.read()";

/// A directory of each user's own.
fn cache_name(user: Option<u32>) -> String {
    user.map_or("cache".to_owned(), |uid| format!("cache-{uid}"))
}

impl Scene {
    /// Makes a place for scenes, one after the other, which everybody can enter. It lies where
    /// homes are; what lies in /tmp is hidden by some sandboxes as a whole.
    pub(super) fn place() -> Result<TempDir> {
        let is_root = rustix::process::geteuid().is_root();
        let homes = if is_root && Path::new("/home").is_dir() { "/home" } else { "/var/tmp" };
        let place = tempfile::Builder::new().prefix("atoll-escapes-").tempdir_in(homes)?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        for user in [None, Some(ORDINARY).filter(|_| is_root)] {
            let path = place.path().join(cache_name(user));
            fs::create_dir_all(&path)?;
            if let Some(uid) = user {
                give(&path, uid)?;
            }
        }
        Ok(place)
    }

    pub(super) fn new(attempt: &Attempt, place: &Path) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let is_root = rustix::process::geteuid().is_root();
        let user = (is_root && attempt.who == Who::Ordinary).then_some(ORDINARY);
        let home = place.join(format!("home-{}", user.unwrap_or(0)));
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        let project = home.join("project");
        let number = std::process::id() * 1000 + count;
        let mut scene = Self {
            secret: format!("secret-{number}"),
            number,
            user,
            cache: place.join(cache_name(user)),
            neighbour: None,
            unix: None,
            tcp: None,
            terminal: None,
            run: None,
            has_key: false,
            running: None,
            home,
            project,
            place: place.to_owned(),
        };
        scene.fill()?;
        scene.add(attempt.prop)?;
        Ok(scene)
    }

    fn fill(&self) -> Result<()> {
        for path in [self.home.join(".ssh"), self.home.join("other"), self.project.clone()] {
            fs::create_dir_all(path)?;
        }
        let secret = format!("{}\n", self.secret);
        for (path, text) in [
            (self.home.join(".ssh/id_ed25519"), &*secret),
            (self.home.join("other/notes"), &secret),
            (self.home.join("held"), &secret),
            (self.project.join(".env"), &secret),
            (self.project.join(".atollignore"), ".env\n"),
        ] {
            fs::write(&path, text)?;
        }
        let mut git = Command::new("git");
        process::output(git.args(["init", "--quiet"]).arg(&self.project))?;
        if let Some(uid) = self.user {
            give(&self.home, uid)?;
        }
        Ok(())
    }

    fn add(&mut self, prop: Prop) -> Result<()> {
        match prop {
            Prop::Nothing | Prop::Descriptor | Prop::Variable => {}
            Prop::Neighbour => self.neighbour = Some(self.start_neighbour()?),
            Prop::Socket => {
                let run = tempfile::Builder::new().prefix("atoll-escapes-").tempdir_in("/run")?;
                fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755))?;
                let path = run.path().join("socket");
                let listener = UnixListener::bind(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
                listener.set_nonblocking(true)?;
                (self.unix, self.run) = (Some(listener), Some(run));
            }
            Prop::Abstract => {
                let address = SocketAddr::from_abstract_name(self.name())?;
                let listener = UnixListener::bind_addr(&address)?;
                listener.set_nonblocking(true)?;
                self.unix = Some(listener);
            }
            Prop::Port => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                listener.set_nonblocking(true)?;
                self.tcp = Some(listener);
            }
            Prop::Terminal => self.terminal = Some(self.open_terminal()?),
            Prop::Key => {
                let mut python = self.command("/usr/bin/python3");
                python.args(["-c", ADD_KEY, &self.name(), &self.secret]);
                ensure!(python.status()?.success(), "cannot add a key");
                self.has_key = true;
            }
            Prop::SetUserId => {
                let (tool, only) = (self.project.join("tool"), self.project.join("only-root"));
                fs::copy("/usr/bin/cat", &tool)?;
                fs::write(&only, &self.secret)?;
                for (path, mode) in [(tool, 0o4755), (only, 0o600)] {
                    lchown(&path, Some(0), Some(0))?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
                }
            }
        }
        Ok(())
    }

    /// What abstract sockets and keys of this scene are called.
    fn name(&self) -> String {
        format!("atoll-escapes-{}", self.number)
    }

    fn start_neighbour(&self) -> Result<Child> {
        let mut python = self.command("/usr/bin/python3");
        python.args(["-c", NEIGHBOUR, &self.secret]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("piped")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "the process outside did not start");
        Ok(child)
    }

    fn open_terminal(&self) -> Result<(OwnedFd, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        // What is typed is there at once, rather than at the end of a line.
        let mut modes = rustix::termios::tcgetattr(&slave)?;
        modes.local_modes -= rustix::termios::LocalModes::ICANON;
        rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &modes)?;
        if let Some(uid) = self.user {
            rustix::fs::fchown(&slave, Some(rustix::fs::Uid::from_raw(uid)), None)?;
        }
        Ok((master, slave))
    }

    /// A command of whoever tries, with a home and no other environment.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.dress(&mut command);
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        command
    }

    fn dress(&self, command: &mut Command) {
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("XDG_CACHE_HOME", &self.cache);
        command.current_dir(&self.project).stdin(Stdio::null());
    }

    /// Runs the attempt behind the words of a sandbox. Gives what it said, on both streams.
    pub(super) fn run(&mut self, attempt: &Attempt, sandbox: &Way) -> Result<String> {
        let mut script = attempt.script.to_owned();
        if !script.contains("started") {
            script.insert_str(0, START);
        }
        let port = self.tcp.as_ref().map(|tcp| Ok::<_, std::io::Error>(tcp.local_addr()?.port()));
        let socket = self.run.as_ref().map(|run| run.path().join("socket").display().to_string());
        for (name, value) in [
            ("{home}", self.home.display().to_string()),
            ("{pid}", self.neighbour.as_ref().map_or(0, Child::id).to_string()),
            ("{port}", port.transpose()?.unwrap_or(0).to_string()),
            ("{socket}", socket.unwrap_or_default()),
            ("{abstract}", self.name()),
            ("{key}", self.name()),
            ("{number}", self.number.to_string()),
        ] {
            script = script.replace(name, &value);
        }
        let mut words = sandbox.words.clone();
        words.extend(["/bin/sh", "-c", &script].map(str::to_owned));
        if attempt.prop == Prop::Descriptor {
            let held = self.home.join("held").display().to_string();
            let holder = ["/bin/sh".to_owned(), "-c".to_owned(), "exec \"$@\" 9<\"$0\"".to_owned()];
            words = [&holder[..], &[held], &words].concat();
        }
        if self.user.is_some() && sandbox.wants_account {
            words = self.with_account(words)?;
        }
        if attempt.prop == Prop::Terminal {
            words = [&["setsid", "--ctty", "--wait"].map(str::to_owned)[..], &words].concat();
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.dress(&mut command);
        if let (Some(uid), false) = (self.user, sandbox.wants_account) {
            command.uid(uid).gid(uid);
        }
        if let Some((master, slave)) = &self.terminal {
            return on_terminal(command, master, slave);
        }
        if attempt.prop == Prop::Variable {
            command.env("API_TOKEN", &self.secret);
        }
        self.wait_for(command).with_context(|| format!("cannot run {}", words[0]))
    }

    /// Gives what a command said, at the latest when it should be done. One that goes on
    /// then ends with the scene.
    fn wait_for(&mut self, mut command: Command) -> Result<String> {
        // No pipe: whatever is left behind would keep it open.
        let path = self.place.join("said");
        let said = File::create(&path)?;
        let mut child = command.stdout(said.try_clone()?).stderr(said).spawn()?;
        let has_ended = || matches!(child.try_wait(), Ok(Some(_)));
        if !holds_within(RUN_MAX, has_ended) {
            self.running = Some(child);
        }
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }

    /// The same words behind a user database that knows who tries, for programs that ask it.
    fn with_account(&self, words: Vec<String>) -> Result<Vec<String>> {
        let uid = self.user.context("root has an account")?;
        let home = self.home.display();
        let mut script = String::new();
        for (name, line) in [
            ("passwd", format!("agent:x:{uid}:{uid}::{home}:/bin/sh\n")),
            ("group", format!("agent:x:{uid}:\n")),
        ] {
            let (file, etc) = (self.place.join(name), format!("/etc/{name}"));
            fs::write(&file, fs::read_to_string(&etc)? + &line)?;
            script += &format!("mount --bind {} {etc} && ", file.display());
        }
        script += &format!("exec setpriv --reuid {uid} --regid {uid} --clear-groups \"$@\"");
        let own = ["unshare", "--mount", "/bin/sh", "-c", &script, "sh"].map(str::to_owned);
        Ok([own.to_vec(), words].concat())
    }

    /// Whether anybody connected to what listens outside.
    pub(super) fn was_connected(&self) -> bool {
        self.unix.as_ref().is_some_and(|unix| unix.accept().is_ok())
            || self.tcp.as_ref().is_some_and(|tcp| tcp.accept().is_ok())
    }

    /// Whether characters wait for whoever reads the terminal next.
    pub(super) fn was_typed(&self) -> bool {
        let waiting = |(_, slave): &(OwnedFd, OwnedFd)| rustix::io::ioctl_fionread(slave);
        self.terminal.as_ref().is_some_and(|both| waiting(both).is_ok_and(|count| count > 0))
    }

    pub(super) fn neighbour_ended(&mut self) -> bool {
        let Some(neighbour) = &mut self.neighbour else { return false };
        holds_in_a_moment(|| matches!(neighbour.try_wait(), Ok(Some(_))))
    }

    /// Whether the process that was left goes on for longer than ending it takes.
    pub(super) fn is_left_running(&self) -> bool {
        !holds_in_a_moment(|| self.left_running().is_empty())
    }

    fn left_running(&self) -> Vec<Pid> {
        let wanted = format!("sleep\0{}\0", self.number);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let found = entries.filter(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        });
        found.filter_map(|one| Pid::from_raw(one.file_name().to_str()?.parse().ok()?)).collect()
    }

    pub(super) fn holds(&self, file: &str, text: &str) -> bool {
        fs::read_to_string(self.project.join(file)).is_ok_and(|content| content.contains(text))
    }

    fn remove_key(&self) -> Result<()> {
        let mut python = self.command("/usr/bin/python3");
        python.args(["-c", REMOVE_KEY, &self.name()]).status()?;
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in [&mut self.neighbour, &mut self.running].into_iter().flatten() {
            child.kill().ok();
            child.wait().ok();
        }
        for pid in self.left_running() {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        if self.has_key {
            self.remove_key().ok();
        }
    }
}

/// Runs a command on a terminal, and gives what it printed there.
fn on_terminal(mut command: Command, master: &OwnedFd, slave: &OwnedFd) -> Result<String> {
    let end = || slave.try_clone();
    command.stdin(end()?).stdout(end()?).stderr(end()?).status().context("cannot start setsid")?;
    rustix::io::ioctl_fionbio(master, true)?;
    let mut said = vec![0; 65536];
    let count = File::from(master.try_clone()?).read(&mut said).unwrap_or(0);
    said.truncate(count);
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn holds_in_a_moment(holds: impl FnMut() -> bool) -> bool {
    holds_within(MOMENT, holds)
}

/// Whether it comes to hold.
fn holds_within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        rustix::event::poll(&mut [], Some(&soon)).ok();
    }
    true
}

fn give(path: &Path, uid: u32) -> Result<()> {
    lchown(path, Some(uid), Some(uid))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid)?;
        }
    }
    Ok(())
}
