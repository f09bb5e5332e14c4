//! Runs scripts as a judged workload, in namespaces of their own.
//!
//! This test binary is also the programs in there: `unshare` starts it as PID 1,
//! which starts it again as supervisor and as workload. The workload loads the
//! filter, hands the listener over and becomes the script.

use std::fs;
use std::io::{IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use atoll_jail::judge::{Config, Denial, Ended, Judge, Pattern, Report, Root};
use atoll_testkit::run::{User, reachable};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

const ROLE: &str = "ATOLL_JUDGE_ROLE";
const BASE: &str = "ATOLL_JUDGE_BASE";
const OPTIONS: &str = "ATOLL_JUDGE_OPTIONS";
const SCRIPT: &str = "ATOLL_JUDGE_SCRIPT";

/// No script of these tests needs as long.
const DEADLINE: Duration = Duration::from_secs(180);

/// Runs `test` as each user that this process can become.
pub(super) fn as_each_user(test: impl Fn(&mut Sandbox)) {
    for user in User::all() {
        eprintln!("as {user:?}");
        test(&mut Sandbox::new(user));
    }
}

/// How a run differs from the usual.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) tools: Vec<&'static str>,
    pub(super) allow: Vec<&'static str>,
    pub(super) deny: Vec<&'static str>,
    pub(super) told: Vec<&'static str>,
    /// Ends of paths that may not be read.
    pub(super) hidden: Vec<&'static str>,
    /// Only the workspace and the script's own directories can be written.
    pub(super) is_closed: bool,
    pub(super) environment: Vec<(&'static str, String)>,
}

/// A directory with a workspace `w`, something outside of it, `o`, and a home, `h`.
pub(super) struct Sandbox {
    base: tempfile::TempDir,
    user: User,
    pub(super) options: Options,
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) denials: Vec<Told>,
    pub(super) report: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) rule: String,
    pub(super) operation: String,
    /// Relative to the workspace where it lies in it.
    pub(super) path: String,
    pub(super) detail: String,
}

impl Outcome {
    #[track_caller]
    pub(super) fn succeeds(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn fails(self) -> Self {
        assert_ne!(self.code, 0, "{self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn denies(self, rule: &str, path: &str) -> Self {
        let is_told = self.denials.iter().any(|told| told.rule == rule && told.path == path);
        assert!(is_told, "no {rule} for {path}: {self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn denies_nothing(self) -> Self {
        assert!(self.denials.is_empty(), "{self:#?}");
        self
    }
}

impl Sandbox {
    pub(super) fn new(user: User) -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["w", "o", "h", "c"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let sandbox = Self { base, user, options: Options::default() };
        user.give(&sandbox.base());
        sandbox
    }

    /// Links resolved, as the judge sees it.
    pub(super) fn base(&self) -> PathBuf {
        fs::canonicalize(self.base.path()).unwrap()
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.base().join("w")
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.workspace().join(path)).unwrap_or_else(|e| format!("{path}: {e}"))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.workspace().join(path)).is_ok()
    }

    /// Names, modes, link targets and contents of everything below a directory.
    pub(super) fn picture(&self, path: &str) -> String {
        let listing = Command::new("sh")
            .args([
                "-c",
                "find . -printf '%p %m %l\n' | sort; find . -type f -exec sha256sum {} + | sort",
            ])
            .current_dir(self.workspace().join(path))
            .output()
            .unwrap();
        assert!(listing.status.success(), "{path}");
        String::from_utf8(listing.stdout).unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.base().join("h"))
            .env("B", self.base())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "a")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@example.com")))
            .envs(self.options.environment.iter().cloned())
            .stdin(Stdio::null());
        self.user.become_for(&mut command);
        command
    }

    /// Runs a script as the user on the host, without any sandbox; it must succeed.
    #[track_caller]
    pub(super) fn on_host(&self, script: &str) -> String {
        let output = self.command("bash").args(["-ec", script]).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
        stdout
    }

    /// Runs a script as a judged workload.
    pub(super) fn run(&self, script: &str) -> Outcome {
        self.start("judged", script)
    }

    /// Runs it in the same namespaces, but with no filter.
    pub(super) fn control(&self, script: &str) -> Outcome {
        self.start("free", script)
    }

    /// Runs it judged, and kills everything once `wait` returns.
    pub(super) fn run_until_killed(&self, script: &str, wait: impl FnOnce()) {
        let mut child = self.outer("judged", script).spawn().unwrap();
        wait();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn outer(&self, how: &str, script: &str) -> Command {
        let map = if self.user == User::Root { "--map-root-user" } else { "--map-current-user" };
        let control = self.base().join("c");
        for name in ["denials", "report", "out", "err"] {
            let _absent = fs::remove_file(control.join(name));
        }
        let mut command = self.command("unshare");
        command
            .args(["--user", map, "--keep-caps", "--mount", "--pid", "--fork", "--mount-proc"])
            .args(["--kill-child", "--"])
            .arg(reachable(&std::env::current_exe().unwrap()))
            .args(["--exact", "judge::harness::role", "--nocapture", "--test-threads=1"])
            .env(ROLE, how)
            .env(BASE, self.base())
            .env(OPTIONS, encode(&self.options))
            .env(SCRIPT, script)
            .stdout(Stdio::null())
            .stderr(fs::File::create(control.join("harness")).unwrap());
        command
    }

    fn start(&self, how: &str, script: &str) -> Outcome {
        let control = self.base().join("c");
        let mut child = self.outer(how, script).spawn().unwrap();
        let (send, receive) = mpsc::channel();
        let pid = rustix::process::Pid::from_child(&child);
        let waiter = std::thread::spawn(move || send.send(child.wait().unwrap()));
        let status = receive.recv_timeout(DEADLINE).unwrap_or_else(|_| {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            panic!("still running: {script}\n{}", text(&control.join("harness")));
        });
        waiter.join().unwrap().unwrap();
        let code = fs::read_to_string(control.join("code")).ok().and_then(|c| c.parse().ok());
        let outcome = Outcome {
            code: code.unwrap_or(-1),
            stdout: text(&control.join("out")),
            stderr: text(&control.join("err")),
            denials: text(&control.join("denials")).lines().map(|l| self.told(l)).collect(),
            report: text(&control.join("report")).lines().map(|l| self.relative(l)).collect(),
        };
        let noise = text(&control.join("harness"));
        assert!(status.success(), "{status} {outcome:#?}\n{noise}");
        fs::remove_file(control.join("code")).unwrap();
        outcome
    }

    fn relative(&self, path: &str) -> String {
        let prefix = format!("{}/", self.workspace().display());
        path.strip_prefix(&prefix).unwrap_or(path).to_owned()
    }

    fn told(&self, line: &str) -> Told {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap();
        let (rule, operation) = (next(), next());
        Told { rule, operation, path: self.relative(&next()), detail: next() }
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn encode(options: &Options) -> String {
    let list = |names: &[&str]| names.join("\x1f");
    let Options { tools, allow, deny, hidden, told, .. } = options;
    let lists = [tools, allow, deny, hidden, told];
    let closed = if options.is_closed { "closed" } else { "" };
    format!("{}\x1e{closed}", lists.map(|names| list(names)).join("\x1e"))
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn options() -> Vec<Vec<String>> {
    let lists = variable(OPTIONS);
    let list =
        |text: &str| text.split('\x1f').filter(|n| !n.is_empty()).map(str::to_owned).collect();
    lists.split('\x1e').map(list).collect()
}

/// Not a test of its own: the processes of a run begin here.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => {}
        Ok("judged") => first_process(true),
        Ok("free") => first_process(false),
        Ok("supervisor") => supervisor(),
        Ok("workload") => workload(true),
        Ok("unjudged") => workload(false),
        Ok(other) => panic!("no role {other}"),
    }
}

/// PID 1: starts both and reaps everybody.
#[expect(clippy::zombie_processes, reason = "it reaps in a loop of its own")]
fn first_process(is_judged: bool) {
    let base = PathBuf::from(variable(BASE));
    if !options()[5].is_empty() {
        close_outside(&base);
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let again = |role: &str, socket: UnixStream| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "judge::harness::role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(OwnedFd::from(socket));
        command.spawn().unwrap()
    };
    let supervisor = is_judged.then(|| again("supervisor", ours));
    let workload = again(if is_judged { "workload" } else { "unjudged" }, theirs);
    let mut code = None;
    let mut is_served = !is_judged;
    while let Ok(Some((pid, status))) = rustix::process::wait(rustix::process::WaitOptions::empty())
    {
        let status = std::process::ExitStatus::from_raw(status.as_raw());
        if u32::try_from(pid.as_raw_pid()) == Ok(workload.id()) {
            let result = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
            code = Some(result);
        }
        if supervisor.as_ref().is_some_and(|s| u32::try_from(pid.as_raw_pid()) == Ok(s.id())) {
            assert!(status.success(), "supervisor: {status}");
            is_served = true;
        }
    }
    assert!(is_served, "the supervisor was not reaped");
    fs::write(base.join("c/code"), code.unwrap().to_string()).unwrap();
}

/// Makes everything but the sandbox's own directories read-only.
fn close_outside(base: &Path) {
    let mount = |arguments: &[&std::ffi::OsStr]| {
        assert!(Command::new("mount").args(arguments).status().unwrap().success());
    };
    for name in ["w", "h", "c"] {
        let path = base.join(name);
        mount(&["--bind".as_ref(), path.as_os_str(), path.as_os_str()]);
    }
    mount(&["-o".as_ref(), "remount,bind,ro".as_ref(), "/".as_ref()]);
    std::env::set_current_dir(base.join("w")).unwrap();
}

/// The socket between supervisor and workload comes as standard input.
fn socket() -> OwnedFd {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap()
}

fn keep(capabilities: CapabilitySet) {
    let sets = CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::clear_ambient_capability_set().unwrap();
    rustix::thread::set_capabilities(None, sets).unwrap();
}

fn supervisor() {
    let base = PathBuf::from(variable(BASE));
    let (mut denials, report) = (create(&base, "denials"), base.join("c/report"));
    let lists = options();
    let patterns = |names: &[String]| names.iter().map(|n| Pattern::new(n).unwrap()).collect();
    let root = base.join("w");
    let found = fs::metadata(&root).unwrap();
    let hidden = lists[3].clone();
    let is_hidden = move |path: &Path, _| {
        hidden.iter().any(|part| path.to_string_lossy().ends_with(part.as_str()))
    };
    keep(CapabilitySet::SYS_PTRACE);
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
    let before = fs::read_dir("/proc/self/fd").unwrap().count();
    let judge = Judge::new(Config {
        root: Some(Root { path: root, device: found.dev(), inode: found.ino() }),
        free: None,
        grants: Vec::new(),
        tool_names: patterns(&lists[0]),
        allow: patterns(&lists[1]),
        deny: patterns(&lists[2]),
        told_names: patterns(&lists[4]),
        umask: 0o022,
        hidden: if lists[3].is_empty() { None } else { Some(Box::new(is_hidden)) },
        is_strict: true,
        masked: Vec::new(),
        has_nested_users: false,
    })
    .unwrap();
    let socket = socket();
    let listener = receive(&socket);
    rustix::io::write(&socket, b"!").unwrap();
    drop(socket);
    let mut sink = |denial: Denial| {
        let Denial { rule, operation, path, detail, .. } = denial;
        let detail = detail.unwrap_or_default();
        writeln!(denials, "{rule}\t{operation}\t{}\t{detail}", path.display()).unwrap();
    };
    // A script that makes this FIFO can stop the judge by it.
    let stop = base.join("h/stop");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let stop = rustix::fs::open(&stop, flags, rustix::fs::Mode::empty()).ok();
    let expected = if stop.is_some() { Ended::Control } else { Ended::HungUp };
    let control = stop.as_ref().map(|fd| fd.as_fd());
    let (ended, told) = judge.serve(listener, control, &mut sink).unwrap();
    assert_eq!(ended, expected);
    drop(stop);
    // The judge is gone with all that it held.
    let after = fs::read_dir("/proc/self/fd").unwrap().count();
    assert_eq!(after, before, "descriptors grew");
    let mut lines = String::new();
    let Report { born_repositories, tool_files_elsewhere, told_files, .. } = told;
    for path in [born_repositories, tool_files_elsewhere, told_files].into_iter().flatten() {
        lines += &format!("{}\n", path.display());
    }
    fs::write(report, lines).unwrap();
}

fn create(base: &Path, name: &str) -> fs::File {
    fs::File::create(base.join("c").join(name)).unwrap()
}

fn workload(is_judged: bool) {
    let base = PathBuf::from(variable(BASE));
    let (out, err) = (create(&base, "out"), create(&base, "err"));
    let mut script = Command::new("bash");
    script.args(["-c", &variable(SCRIPT)]).stdin(Stdio::null()).stdout(out).stderr(err);
    for name in [ROLE, BASE, OPTIONS, SCRIPT] {
        script.env_remove(name);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::thread::set_capabilities_secure_bits(
        rustix::thread::CapabilitiesSecureBits::NO_ROOT
            | rustix::thread::CapabilitiesSecureBits::NO_ROOT_LOCKED,
    )
    .unwrap();
    keep(CapabilitySet::empty());
    rustix::thread::set_no_new_privs(true).unwrap();
    if is_judged {
        let socket = socket();
        let filter = super::filter::build(!options()[3].is_empty());
        let listener = atoll_sys::notify::install(&filter).unwrap();
        send(&socket, &listener);
        let mut answer = [0];
        assert_eq!(rustix::io::read(&socket, &mut answer).unwrap(), 1, "no supervisor");
    }
    panic!("{}", script.exec());
}

fn send(socket: &OwnedFd, listener: &OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [listener.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(socket, &[IoSlice::new(b"!")], &mut ancillary, SendFlags::empty()).unwrap();
}

fn receive(socket: &OwnedFd) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags).unwrap();
    let mut files = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    files.next().expect("the workload sent no listener")
}
