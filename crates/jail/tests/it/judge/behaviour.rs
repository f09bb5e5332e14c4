//! Signals, FIFOs, limits, and many callers.

use super::harness::as_each_user;

#[test]
fn signals_repeat_no_call() {
    as_each_user(|sandbox| {
        let outcome = sandbox
            .run(
                r#"
python3 - <<'END'
import os, signal
count = 0
def tick(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
wrong = 0
for i in range(5000):
    try:
        os.close(os.open(f"f{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        wrong += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(wrong, count > 100)
END
"#,
            )
            .succeeds();
        assert_eq!(outcome.stdout, "0 True\n");
    });
}

#[test]
fn a_program_under_a_lease_is_written_once_that_is_given_up_and_runs() {
    as_each_user(|sandbox| {
        let script = r#"
printf '#!/bin/true\n' > program && chmod 755 program
python3 - <<'END'
import fcntl, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
for _ in range(100):
    file = os.open("program", os.O_RDONLY)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    child = os.fork()
    if child == 0:
        os.close(file)
        os.close(os.open("program", os.O_WRONLY))
        os.execv("./program", ["program"])
    signal.sigwait({signal.SIGIO})
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(file)
    assert os.waitpid(child, 0)[1] == 0
print("each ran")
END
"#;
        assert_eq!(sandbox.run(script).succeeds().denies_nothing().stdout, "each ran\n");
        assert_eq!(sandbox.control(script).succeeds().stdout, "each ran\n");
    });
}

#[test]
fn a_fifo_without_a_reader_keeps_nobody_else_waiting_and_can_be_interrupted() {
    as_each_user(|sandbox| {
        let outcome = sandbox
            .run(
                r#"
mkfifo p
timeout -s INT 1 dash -c 'trap "echo interrupted; exit 3" INT; echo x > p' &
stuck=$!
python3 - <<'END' &
import os, signal, time
def on_int(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGUSR1, on_int)
signal.setitimer(signal.ITIMER_REAL, 60)
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.2)
        os.kill(parent, signal.SIGUSR1)
    os._exit(0)
try:
    os.open("p", os.O_WRONLY)
except KeyboardInterrupt:
    print("python interrupted", flush=True)
END
python=$!
for i in $(seq 200); do echo $i > f$i; done
echo created
wait $python
wait $stuck
echo x > p & cat p; wait
"#,
            )
            .succeeds();
        let mut lines: Vec<_> = outcome.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["created", "interrupted", "python interrupted", "x"], "{outcome:#?}");
    });
}

#[test]
fn a_waiting_caller_can_be_killed() {
    as_each_user(|sandbox| {
        let script =
            "mkfifo p; timeout -s KILL 0.3 dash -c 'echo x > p'; echo $?; echo y > f; cat f";
        assert_eq!(sandbox.run(script).succeeds().stdout, "137\ny\n");
    });
}

#[test]
fn callers_that_are_not_dumpable_are_served() {
    as_each_user(|sandbox| {
        let outcome = sandbox
            .run(
                r#"
python3 - <<'END'
import ctypes, os
ctypes.CDLL(None).prctl(4, 0)
os.mkdir("d")
os.chdir("d")
fd = os.open("f", os.O_CREAT | os.O_WRONLY, 0o600)
os.fchmod(fd, 0o640)
os.rename("f", "g")
os.umask(0o077)
os.mkdir("m", 0o777)
print(os.listdir(), oct(os.stat("m").st_mode))
END
"#,
            )
            .succeeds();
        assert!(
            outcome.stdout.contains("'g'") && outcome.stdout.contains("0o40700"),
            "{outcome:#?}"
        );
    });
}

#[test]
fn a_hundred_pipelines() {
    as_each_user(|sandbox| {
        let script = "for i in $(seq 100); do dash -c 'echo $0 | cat | tr 0-9 a-j > p; cat p' $i; done | sort | uniq | wc -l";
        assert_eq!(sandbox.run(script).succeeds().stdout.trim(), "100");
    });
}

#[test]
fn ten_thousand_calls_leave_no_descriptor() {
    // The supervisor of every run counts its own before and after.
    as_each_user(|sandbox| {
        sandbox
            .run(
                r#"
python3 - <<'END'
import os
for i in range(2500):
    fd = os.open("f", os.O_CREAT | os.O_WRONLY)
    os.fchmod(fd, 0o600 + i % 2)
    os.close(fd)
    os.rename("f", "g")
    try:
        os.mkdir("g")
    except FileExistsError:
        os.unlink("g")
END
"#,
            )
            .succeeds();
    });
}

#[test]
fn the_callers_limit_is_the_callers() {
    as_each_user(|sandbox| {
        let script = "ulimit -n 10; exec 3>a 4>b 5>c 6>d 7>e 8>g 9>h; echo x > f";
        let outcome = sandbox.run(script).fails();
        assert!(outcome.stderr.contains("Too many open files"), "{outcome:#?}");
        sandbox.run("exec 3>i 4>j 5>a 6>b 7>c 8>d 9>e; echo x > f; cat f").succeeds();
    });
}

#[test]
fn a_terminal_is_the_callers() {
    as_each_user(|sandbox| {
        let outcome = sandbox
            .run(
                r#"
python3 - <<'END'
import os, pty
pid, master = pty.fork()
if pid == 0:
    with open("/dev/tty", "r+b", buffering=0) as t:
        t.write(b"to my terminal")
        print(" ", os.ttyname(t.fileno()) == os.ttyname(0), flush=True)
    os._exit(0)
text = b""
while True:
    try:
        got = os.read(master, 100)
    except OSError:
        break
    if not got:
        break
    text += got
os.waitpid(pid, 0)
print(text.decode())
END
"#,
            )
            .succeeds();
        assert!(outcome.stdout.contains("to my terminal"), "{outcome:#?}");
        assert!(outcome.stdout.contains("True"), "{outcome:#?}");
    });
}

#[test]
fn a_judge_that_was_stopped_lets_nothing_through() {
    as_each_user(|sandbox| {
        sandbox.on_host("mkfifo $B/h/stop");
        let script = "echo x > a || exit 1; exec 5<>$B/h/stop; echo stop >&5
            until ! mkdir d 2>$B/h/error; do rmdir d; done; cat $B/h/error; mkdir e || cat a";
        let outcome = sandbox.run(script);
        assert!(!sandbox.has("e") && sandbox.has("a"), "{outcome:#?}");
        assert!(outcome.stderr.contains("Function not implemented"), "{outcome:#?}");
    });
}

#[test]
fn the_workspace_must_be_the_planned_one() {
    use atoll_jail::judge::{Config, Judge, NewError, Root};
    let make = |root: &str, root_inode| {
        Judge::new(Config {
            root: Some(Root { path: root.into(), device: 0, inode: root_inode }),
            free: None,
            grants: Vec::new(),
            tool_names: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            told_names: Vec::new(),
            umask: 0o022,
            hidden: None,
            is_strict: false,
            masked: Vec::new(),
            has_nested_users: false,
        })
    };
    assert!(matches!(make("/", 0), Err(NewError::Other { .. })));
    assert!(matches!(make("w", 0), Err(NewError::Relative { .. })));
    assert!(matches!(make("/nowhere/at/all", 0), Err(NewError::Look { .. })));
}
