//! What lies about on a user's machine and would let somebody act as the user:
//! files in HOME, agents behind sockets, what is in the memory of the processes
//! around the command.

use super::{each, is_installed};
use atoll_testkit::run::{Project, Ran, User};
use atoll_testkit::skip::skip;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Stdio};

const SECRET: &str = "sesame-opens";

const MODES: [&str; 3] = ["live", "review", "none"];

/// Where tools keep secrets below HOME, among them places beside or below
/// directories that are shown because they hold programs.
const PLACES: [&str; 52] = [
    ".ssh/id_ed25519",
    ".ssh/config",
    ".gnupg/private-keys-v1.d/key.key",
    ".netrc",
    ".git-credentials",
    ".gitconfig",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".config/git/credentials",
    ".config/pypoetry/auth.toml",
    ".config/gcloud/application_default_credentials.json",
    ".config/atoll/config.toml.bak",
    ".config/google-chrome/Default/Cookies",
    ".config/chromium/Default/Login Data",
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/op/config",
    ".mozilla/firefox/x.default/logins.json",
    ".docker/config.json",
    ".kube/config",
    ".aws/credentials",
    ".azure/msal_token_cache.json",
    ".oci/config",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".password-store/x.gpg",
    ".local/share/keyrings/login.keyring",
    ".local/share/uv/credentials/credentials.toml",
    ".local/share/uv/tools/tool/bin/../../../credentials/credentials.toml",
    ".local/state/gh/device-id",
    ".local/bin/../share/fish/fish_history",
    ".rye/credentials",
    ".opam/plugins/opam-publish/ada.token",
    ".npm-global/etc/npmrc",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".lesshst",
    ".pgpass",
    ".my.cnf",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".cache/huggingface/token",
];

/// Programs that are shown, so that the directories around them are in view.
const PROGRAMS: [&str; 5] = [
    ".cargo/bin/tool",
    ".local/bin/tool",
    ".local/share/uv/tools/tool/bin/tool",
    ".rye/shims/tool",
    ".opam/default/bin/tool",
];

fn furnish(project: &Project) {
    let put = |name: &str, content: &str| {
        let path = project.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    PROGRAMS.iter().for_each(|name| put(name, "program"));
    PLACES.iter().for_each(|name| put(name, SECRET));
    project.user.give(&project.home());
}

#[test]
fn files_of_home_are_not_there() {
    each(|project| {
        furnish(project);
        let cats = PLACES.map(|name| format!("cat \"$HOME/{name}\"\n")).concat();
        let control = project.bare_sh(&cats);
        assert_eq!(control.stdout(), SECRET.repeat(PLACES.len()), "{}", control.text());
        for mode in MODES {
            let search = format!("{cats}grep -rs sesame \"$HOME\"; cat $HOME/{}", PROGRAMS[0]);
            let run = project.run_sh(&["--workspace", mode], &search);
            assert_eq!(run.stdout(), "program", "{mode}: {}", run.text());
        }
    });
}

/// Connects to sockets and says which could be reached.
const CONNECT: &str = r"
import socket, sys
for name in sys.argv[1:]:
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect('\0' + name[1:] if name.startswith('@') else name)
        print(name)
    except OSError:
        pass
";

#[test]
fn sockets_of_agents_cannot_be_reached() {
    each(|project| {
        let names = [".gnupg/S.gpg-agent", ".ssh/agent/s.1", ".docker/run/docker.sock"];
        let below_home = names.map(|name| project.home().join(name));
        let run = Path::new("/run").join(format!("atoll-test-{}", std::process::id()));
        let beside = project.outside().join("keyring-control");
        let mut paths: Vec<_> = below_home.into_iter().chain([beside]).collect();
        if rustix::process::geteuid().is_root() {
            paths.push(run.join("bus"));
        }
        let mut listeners = Vec::new();
        for path in &paths {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            listeners.push(UnixListener::bind(path).unwrap());
            project.user.give(path);
        }
        project.user.give(&project.home());
        let hidden = format!("atoll-test-bus-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&hidden).unwrap();
        listeners.push(UnixListener::bind_addr(&address).unwrap());
        let mut names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        names.push(format!("@{hidden}"));
        let arguments = |program: &str| {
            let mut all = vec![program.to_owned(), "-c".to_owned(), CONNECT.to_owned()];
            all.extend(names.clone());
            all
        };
        let control = Ran(project.bare("python3").args(&arguments("")[1..]).output().unwrap());
        assert_eq!(control.stdout().lines().count(), names.len(), "{}", control.text());
        for mode in MODES {
            let mut inside = project.atoll(&["run", "--workspace", mode, "--"]);
            let inside = Ran(inside.args(arguments("python3")).output().unwrap());
            assert_eq!(inside.stdout(), "", "{mode}: {}", inside.text());
            assert_eq!(inside.code(), Some(0), "{mode}: {}", inside.text());
        }
        std::fs::remove_dir_all(run).ok();
    });
}

/// A program that is ended when the test is over.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn keys_of_a_running_agent_cannot_be_used() {
    if !Path::new("/usr/bin/ssh-agent").exists() || !Path::new("/usr/bin/gpg-agent").exists() {
        return skip("agents", "ssh-agent or gpg-agent is not installed");
    }
    each(|project| {
        let socket = project.home().join(".ssh/agent");
        assert_eq!(project.bare_sh("mkdir -m 700 ~/.ssh ~/.gnupg").code(), Some(0));
        let mut agent = project.bare("ssh-agent");
        agent.args(["-D", "-a"]).arg(&socket).stdout(Stdio::piped());
        let mut agent = Daemon(agent.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let make = "gpg -q --batch --pinentry-mode loopback --passphrase '' \
             --quick-gen-key tester ed25519 sign never; gpgconf --kill all";
        let made = project.bare_sh(make);
        assert_eq!(made.code(), Some(0), "{}", made.text());
        let list = format!(
            "python3 -c \"$1\" {}; gpg --list-secret-keys; gpgconf --kill all",
            socket.display()
        );
        let mut control = project.bare("sh");
        let control = Ran(control.args(["-c", &list, "-", LIST]).output().unwrap());
        assert!(control.stdout().contains("answers 12"), "{}", control.text());
        assert!(control.stdout().contains("tester"), "{}", control.text());
        for mode in MODES {
            let mut run = project.atoll(&["run", "--workspace", mode, "--", "sh", "-c"]);
            run.args([&list, "-", LIST]).env("SSH_AUTH_SOCK", &socket);
            let run = Ran(run.output().unwrap());
            assert_eq!(run.stdout(), "", "{mode}: {}", run.text());
        }
    });
}

/// A multiplexer runs what it is told to, as the user and outside.
#[test]
fn sessions_of_a_multiplexer_outside_run_nothing() {
    if !is_installed("tmux", "terminal-tmux") {
        return;
    }
    each(|project| {
        let outside = project.outside();
        let socket = outside.join("tmux");
        let socket = socket.to_str().unwrap();
        let mut server = project.bare("tmux");
        let server = server.args(["-S", socket, "-f", "/dev/null", "new-session", "-d", "cat"]);
        assert!(server.status().unwrap().success());
        let tell = |word: &str| {
            let made = outside.join(word);
            format!("tmux -S {socket} run-shell 'echo x > {}'", made.display())
        };
        let runs = MODES.map(|mode| {
            let mut run = project.atoll(&["run", "--workspace", mode, "--", "sh", "-c"]);
            run.arg(tell("escaped")).env("TMUX", format!("{socket},1,0"));
            Ran(run.output().unwrap())
        });
        let escaped = outside.join("escaped").exists();
        let control = project.bare_sh(&tell("told"));
        let told = outside.join("told").exists();
        assert_eq!(project.bare_sh(&format!("tmux -S {socket} kill-server")).code(), Some(0));
        for run in runs {
            assert_ne!(run.code(), Some(0), "{}", run.text());
            assert!(run.stderr().contains("system.sessions (likely)"), "{}", run.text());
        }
        assert!(!escaped);
        assert!(told, "{}", control.text());
    });
}

/// Asks an SSH agent for its keys, by its protocol: the tools of OpenSSH refuse to
/// run for a user without an account.
const LIST: &str = r"
import socket, sys
agent = socket.socket(socket.AF_UNIX)
agent.connect(sys.argv[1])
agent.sendall(b'\0\0\0\1\x0b')
print('answers', agent.recv(5)[4])
";

/// Tries everything that shows memory, files or environment of another process, and
/// says what gave something away. It pries into the processes in its arguments; with
/// none into all but its own ancestors up to the workload, and that in a sandbox
/// alone: tracing stops a process, and outside these are everybody's.
const PRY: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
status = lambda pid, key: next(l.split()[1] for l in open(f'/proc/{pid}/status') if l.startswith(key))
own, pid = set(), os.getpid()
others = [int(n) for n in sys.argv[1:] if n.isdigit()]
if not others:
    assert open('/proc/1/cmdline').read().split('\0')[0] == 'atoll-init', 'not in a sandbox'
    while pid > 1 and open(f'/proc/{pid}/cmdline').read().split('\0')[0] != 'atoll-init':
        own.add(pid); pid = int(status(pid, 'PPid'))
    others = [int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) not in own]
print('others', len(others))
files = ['environ', 'mem', 'maps', 'smaps', 'auxv', 'stack', 'syscall', 'io', 'pagemap', 'personality',
         'root/etc/passwd', 'cwd/.', 'clear_refs', 'timerslack_ns']
links = ['exe', 'cwd', 'root', 'ns/mnt', 'ns/user', 'ns/pid', 'fd/0', 'fd/1', 'fd/2', 'fd/3', 'fd/4', 'fd/5']
for pid in others:
    for base in [f'/proc/{pid}', f'/proc/{pid}/task/{pid}']:
        for name in files:
            try:
                got = os.read(os.open(f'{base}/{name}', os.O_RDONLY), 64)
                print('read', base, name, got)
            except OSError: pass
        for name in links:
            try: print('link', base, name, os.readlink(f'{base}/{name}'))
            except OSError: pass
        for name in ['fd', 'map_files', 'fdinfo']:
            try:
                if os.listdir(f'{base}/{name}'): print('list', base, name)
            except OSError: pass
        for name in ['mem', 'oom_score_adj', 'comm']:
            try: os.close(os.open(f'{base}/{name}', os.O_RDWR)); print('write', base, name)
            except OSError: pass
    if libc.ptrace(16, pid, 0, 0) == 0: print('attach', pid)
    if libc.ptrace(0x4206, pid, 0, 0) == 0: print('seize', pid)
    buffer = ctypes.create_string_buffer(8)
    iov = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    far = (ctypes.c_size_t * 2)(0x400000, 8)
    if libc.process_vm_readv(pid, iov, 1, far, 1, 0) > 0: print('vm_readv', pid)
    pidfd = libc.syscall(434, pid, 0)
    for number in range(12):
        if pidfd >= 0 and libc.syscall(438, pidfd, number, 0) >= 0: print('getfd', pid, number)
    for name in ['cmdline', 'comm', 'status', 'wchan']:
        try:
            if 'sesame' in open(f'/proc/{pid}/{name}', errors='replace').read(): print('named', pid, name)
        except OSError: pass
";

/// The projects of [`each`], and for root one that is somebody else's.
fn each_owner(test: impl Fn(&Project)) {
    each(&test);
    if rustix::process::geteuid().is_root() {
        let project = Project::new(User::Root, env!("CARGO_BIN_EXE_atoll"));
        User::Ordinary.give(&project.root());
        test(&project);
    }
}

#[test]
fn the_processes_around_the_command_show_nothing() {
    each_owner(|project| {
        // The control: a process of one's own shows all this.
        let control = "sleep 60 & python3 -c \"$1\" $!; kill -9 $!";
        let control = Ran(project.bare("sh").args(["-c", control, "-", PRY]).output().unwrap());
        for kind in ["read", "link", "list", "write"] {
            assert!(control.stdout().contains(kind), "{kind}: {}", control.text());
        }
        project.write(".env", "");
        project.write(".aiignore", ".env\n");
        for flags in [
            &[] as &[&str],
            &["--strict-ignore"],
            &["--allow", "ptrace"],
            &["--workspace", "review"],
        ] {
            let mut run = project.atoll(&["run"]);
            run.args(flags).args(["--env", "PASSED=x", "--", "python3", "-c", PRY, SECRET]);
            let run = Ran(run.env("GH_TOKEN", SECRET).output().unwrap());
            let text = run.stdout();
            let mut lines = text.lines();
            assert_ne!(lines.next(), Some("others 0"), "{flags:?}: {}", run.text());
            assert_eq!(lines.next(), None, "{flags:?}: {}", run.text());
            assert_eq!(run.code(), Some(0), "{flags:?}: {}", run.text());
        }
    });
}

#[test]
fn values_of_variables_are_on_no_command_line_and_in_no_report() {
    each(|project| {
        let value = format!("sesame-{}-{}", std::process::id(), project.root().display());
        let named = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.filter(|line| String::from_utf8_lossy(line).contains(&value)).count()
        };
        let mut run = project.atoll(&["run", "--verbose", "--json", "--env", "PASSED", "--"]);
        run.args(["sh", "-c", "echo ready; read line; test -n \"$PASSED\"; exit 3"]);
        run.envs([("GH_TOKEN", &value), ("PASSED", &value)]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert_eq!(named(), 0);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let run = Ran(child.wait_with_output().unwrap());
        assert_eq!(run.code(), Some(3), "{}", run.text());
        assert!(run.stderr().contains("GH_TOKEN") && !run.stderr().contains("sesame"));
        // The control: on a command line it is found.
        let mut sleeper = Daemon(
            project
                .bare("sh")
                .args(["-c", "read x", &value])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        assert_eq!(named(), 1);
        drop(sleeper.0.stdin.take());
    });
}
