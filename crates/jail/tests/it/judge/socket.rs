//! Sockets get names by the judge, and none that is protected.

use super::harness::as_each_user;
use super::semantics::differences;

const SCRIPT: &str = concat!("python3 - <<'END'\n", include_str!("socket.py"), "\nEND\n");

/// Binds a unix socket to its argument.
const BIND: &str = "bind() { python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \"$1\"; }\n";

#[test]
fn bind_answers_as_it_does_without_the_judge() {
    as_each_user(|sandbox| assert_eq!(differences(sandbox, SCRIPT, 55), Vec::<String>::new()));
}

#[test]
fn no_socket_takes_a_protected_name() {
    as_each_user(|sandbox| {
        sandbox.options.tools = vec![".vscode", "atoll.toml"];
        sandbox.options.deny = vec!["denied"];
        sandbox.on_host("git init -q . && mkdir sub && ln -s .git/hooks way");
        for (place, rule, path) in [
            (".git/hooks/x", "git-hooks", ".git/hooks/x"),
            ("$PWD/.git/hooks/x", "git-hooks", ".git/hooks/x"),
            ("sub/../.git/hooks/x", "git-hooks", ".git/hooks/x"),
            ("way/x", "git-hooks", ".git/hooks/x"),
            ("/proc/self/cwd/way/x", "git-hooks", ".git/hooks/x"),
            ("atoll.toml", "project-tool", "atoll.toml"),
            (".vscode", "project-tool", ".vscode"),
            ("denied", "user-deny", "denied"),
            ("sub/.git", "git-pointer", "sub/.git"),
        ] {
            let script = format!("{BIND}bind {place}");
            let outcome = sandbox.run(&script).fails().denies(rule, path);
            assert!(outcome.stderr.contains("Permission denied"), "{outcome:#?}");
            assert!(!sandbox.has(path), "{place}");
            sandbox.control(&format!("{script} && rm {place}")).succeeds();
        }
        // Git's own daemon has its socket there.
        sandbox.run(&format!("{BIND}bind .git/daemon.ipc")).succeeds().denies_nothing();
    });
}

#[test]
fn what_is_there_already_is_no_denial() {
    as_each_user(|sandbox| {
        sandbox.options.tools = vec!["atoll.toml"];
        sandbox.on_host("touch atoll.toml");
        let outcome = sandbox.run(&format!("{BIND}bind atoll.toml")).fails().denies_nothing();
        assert!(outcome.stderr.contains("Address already in use"), "{outcome:#?}");
    });
}

/// One thread binds, others swap the socket's number and the address under it.
const RACE: &str = r#"
python3 - <<'END'
import ctypes, os, socket, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
end = time.monotonic() + float(os.environ["SECONDS_TO_RACE"])
good = struct.pack("=H", socket.AF_INET) + b"\0\0\x7f\0\0\1" + bytes(8)
bad = struct.pack("=H", socket.AF_UNIX) + b".git/hooks/x\0\0"
assert len(good) == len(bad) == 16
address = ctypes.create_string_buffer(good, 16)
NUMBER = 50
hits = rounds = 0

def swap_address():
    while time.monotonic() < end:
        ctypes.memmove(address, bad, 16)
        ctypes.memmove(address, good, 16)

def swap_socket():
    while time.monotonic() < end:
        for family in (socket.AF_UNIX, socket.AF_INET):
            made = socket.socket(family)
            os.dup2(made.fileno(), NUMBER)
            made.close()

threads = [threading.Thread(target=swap) for swap in (swap_address, swap_socket)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    rounds += 1
    libc.bind(NUMBER, address, 16)
    if os.path.lexists(".git/hooks/x"):
        hits += 1
        os.unlink(".git/hooks/x")
for thread in threads:
    thread.join()
print(hits > 0, rounds > 100)
END
"#;

#[test]
fn neither_the_socket_nor_its_address_can_be_swapped() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q .");
        let race = |seconds| format!("export SECONDS_TO_RACE={seconds}\n{RACE}");
        let judged = sandbox.run(&race(3)).succeeds().denies("git-hooks", ".git/hooks/x");
        assert_eq!(judged.stdout, "False True\n");
        assert_eq!(sandbox.control(&race(1)).succeeds().stdout, "True True\n");
    });
}
