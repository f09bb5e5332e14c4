//! What an agent in a project can try, each with the evidence that it got through.

use super::scene::Scene;
use std::time::Duration;

/// Who tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Ordinary,
    Root,
}

/// What there must be beside the project, outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prop {
    Nothing,
    /// A process of the same user, with a word among its arguments.
    Neighbour,
    /// A socket that is listened on, in `/run`.
    Socket,
    /// An abstract one.
    Abstract,
    /// A TCP port of the loopback interface.
    Port,
    /// A terminal, the controlling one.
    Terminal,
    /// An open file as descriptor 9.
    Descriptor,
    /// A variable of the environment.
    Variable,
    /// A key in the user's keyring.
    Key,
    /// A set-user-ID program of root in the project, and a file for it to read.
    SetUserId,
}

pub(super) struct Attempt {
    pub(super) name: &'static str,
    /// For people; a row of the table.
    pub(super) title: &'static str,
    pub(super) who: Who,
    pub(super) prop: Prop,
    /// For a shell in the project. Names in braces are filled in. One that needs Python says
    /// "started" when it has it; for the others the shell does.
    pub(super) script: &'static str,
    pub(super) evidence: fn(&mut Scene, &str) -> bool,
}

/// How long something may take to go, or to come, outside.
pub(super) const MOMENT: Duration = Duration::from_millis(400);

fn says_secret(scene: &mut Scene, said: &str) -> bool {
    said.contains(&scene.secret)
}

fn says_done(_: &mut Scene, said: &str) -> bool {
    said.lines().any(|line| line.trim() == "done")
}

fn was_connected(scene: &mut Scene, _: &str) -> bool {
    scene.was_connected()
}

const fn plain(
    name: &'static str,
    title: &'static str,
    script: &'static str,
    evidence: fn(&mut Scene, &str) -> bool,
) -> Attempt {
    Attempt { name, title, who: Who::Ordinary, prop: Prop::Nothing, script, evidence }
}

const fn with(prop: Prop, attempt: Attempt) -> Attempt {
    Attempt { prop, ..attempt }
}

const fn as_root(attempt: Attempt) -> Attempt {
    Attempt { who: Who::Root, ..attempt }
}

pub(super) const ATTEMPTS: &[Attempt] = &[
    plain("ssh-key", "read `~/.ssh/id_ed25519`", "cat {home}/.ssh/id_ed25519", says_secret),
    plain("other-project", "read another project", "cat {home}/other/notes", says_secret),
    as_root(plain("shadow", "read `/etc/shadow`, as root", "cat /etc/shadow", |_, said| {
        said.lines().any(|line| line.starts_with("root:"))
    })),
    plain("env-file", "read `.env`, which an ignore file names", "cat .env", says_secret),
    with(
        Prop::Variable,
        plain("variable", "read a token in the environment", "printenv API_TOKEN", says_secret),
    ),
    with(
        Prop::Descriptor,
        plain("descriptor", "read an inherited descriptor", "cat <&9", says_secret),
    ),
    with(Prop::Key, plain("keyring", "read a key of the user's keyring", KEYRING, says_secret)),
    with(
        Prop::Neighbour,
        plain("processes", "see processes outside", "cat /proc/[0-9]*/cmdline", says_secret),
    ),
    with(
        Prop::Neighbour,
        plain("signal", "end a process outside", "kill -TERM {pid}", |scene, _| {
            scene.neighbour_ended()
        }),
    ),
    with(Prop::Neighbour, plain("ptrace", "trace a process outside", PTRACE, says_done)),
    with(Prop::Socket, plain("unix-socket", "connect to a socket in `/run`", UNIX, was_connected)),
    with(
        Prop::Abstract,
        plain("abstract-socket", "connect to an abstract socket", ABSTRACT, was_connected),
    ),
    with(
        Prop::Port,
        plain("loopback", "connect to a port of the host's loopback", LOOPBACK, was_connected),
    ),
    plain(
        "hook",
        "plant `.git/hooks/pre-commit`",
        "echo evil > .git/hooks/pre-commit",
        |one, _| one.project.join(".git/hooks/pre-commit").exists(),
    ),
    plain(
        "fsmonitor",
        "set `core.fsmonitor` in `.git/config`",
        "printf '[core]\\n\\tfsmonitor = evil\\n' >> .git/config",
        |scene, _| scene.holds(".git/config", "fsmonitor"),
    ),
    plain(
        "tasks",
        "plant `.vscode/tasks.json`",
        "mkdir .vscode; echo '{}' > .vscode/tasks.json",
        |scene, _| scene.project.join(".vscode/tasks.json").exists(),
    ),
    plain(
        "symlink",
        "write outside by a symbolic link",
        "ln -s {home}/other link; echo evil > link/planted",
        |scene, _| scene.home.join("other/planted").exists(),
    ),
    with(
        Prop::Terminal,
        plain("terminal", "type into the caller's terminal (`TIOCSTI`)", TYPE, |scene, _| {
            scene.was_typed()
        }),
    ),
    plain(
        "namespaces",
        "mount in a user namespace of its own",
        "unshare --user --map-root-user --mount mount -t tmpfs none /tmp && echo done",
        says_done,
    ),
    as_root(plain(
        "sysctl",
        "write to `/proc/sys`, as root",
        // What it holds already: the host stays as it is.
        "f=/proc/sys/kernel/core_pipe_limit; v=$(cat $f); echo $v > $f && echo done",
        says_done,
    )),
    with(
        Prop::SetUserId,
        plain(
            "set-user-id",
            "become root by a set-user-ID program",
            "./tool only-root",
            says_secret,
        ),
    ),
    plain(
        "background",
        "leave a process behind",
        // Ends when the other has started, not before.
        "setsid sleep {number} >/dev/null 2>&1 & \
         while [ -e /proc/$! ] && ! grep -qx sleep /proc/$!/comm; do true; done",
        |scene, _| scene.is_left_running(),
    ),
];

const KEYRING: &str = "/usr/bin/python3 -c '
import ctypes, os
print(\"started\")
call = ctypes.CDLL(None).syscall
call.restype = ctypes.c_long
keyctl = 219 if os.uname().machine == \"aarch64\" else 250
key = call(keyctl, 10, -4, b\"user\", b\"{key}\", 0)
text = ctypes.create_string_buffer(200)
print(call(keyctl, 11, key, text, 200), text.value.decode())'";

const PTRACE: &str = "/usr/bin/python3 -c '
import ctypes
print(\"started\")
seize = 0x4206
trace = ctypes.CDLL(None).ptrace
trace.argtypes = [ctypes.c_long] * 4
print(\"done\" if trace(seize, {pid}, 0, 0) == 0 else \"no\")'";

const UNIX: &str = "/usr/bin/python3 -c '
import socket
print(\"started\")
socket.socket(socket.AF_UNIX).connect(\"{socket}\")'";

const ABSTRACT: &str = "/usr/bin/python3 -c '
import socket
print(\"started\")
socket.socket(socket.AF_UNIX).connect(chr(0) + \"{abstract}\")'";

const LOOPBACK: &str = "/usr/bin/python3 -c '
import socket
print(\"started\")
socket.create_connection((\"127.0.0.1\", {port}), 5)'";

const TYPE: &str = "/usr/bin/python3 -c '
import fcntl, termios
print(\"started\")
fcntl.ioctl(0, termios.TIOCSTI, b\"x\")'";
