//! Ways around path rules: links, other names, the supervisor's own powers.

use super::harness::as_each_user;

#[test]
fn links_do_not_lead_out() {
    as_each_user(|sandbox| {
        sandbox.options.is_closed = true;
        sandbox.on_host("mkdir $B/o/d && echo a > $B/o/f && ln -s $B/o/d out && ln -s $B/o/f file && ln -s $B/o/new new");
        for script in [
            "echo x > out/x",
            "mkdir out/x",
            "echo x > file",
            "echo x >> file",
            "truncate -s 0 file",
            "echo x > new",
            "touch a && mv a out/a",
            "ln -s x out/l",
            "mkfifo out/p",
            "rm out/../f",
            "chmod 777 file",
            "touch b && ln b out/b",
            "echo x > out/../../o/y",
        ] {
            let before = sandbox.picture("../o");
            sandbox.run(script).fails();
            assert_eq!(sandbox.picture("../o"), before, "{script}");
        }
        sandbox.run("echo x > inside && ln -s inside l && echo y > l && cat file").succeeds();
        // The same acts reach out when nothing is closed.
        sandbox.options.is_closed = false;
        sandbox.run("echo x > out/x && echo x > new && touch a && mv a out/a").succeeds();
    });
}

#[test]
fn hard_links_do_not_lead_out() {
    as_each_user(|sandbox| {
        sandbox.on_host("echo a > $B/o/f");
        sandbox.options.is_closed = true;
        let outcome = sandbox.run("ln $B/o/f x").fails();
        assert!(outcome.stderr.contains("Invalid cross-device link"), "{outcome:#?}");
        sandbox.options.is_closed = false;
        sandbox.run("ln $B/o/f x").succeeds();
    });
}

/// Compares what a script prints with and without the judge: a supervisor that
/// lends its own rights would let more through.
fn same(script: &str) {
    as_each_user(|sandbox| {
        let free = sandbox.control(script).succeeds();
        sandbox.on_host("rm -rf ./*");
        let judged = sandbox.run(script).succeeds();
        assert_eq!(judged.stdout, free.stdout, "{judged:#?}");
    });
}

#[test]
fn the_supervisors_right_to_trace_is_not_lent() {
    same(
        r#"
python3 - <<'END'
import ctypes, errno, os, signal
r, w = os.pipe()
hold, release = os.pipe()
child = os.fork()
if child == 0:
    # Somebody whose memory and descriptors are nobody's business, as an agent for keys.
    secret = os.open("secret", os.O_RDWR | os.O_CREAT, 0o600)
    os.mkdir("private")
    os.chdir("private")
    ctypes.CDLL(None).prctl(4, 0)
    os.dup2(secret, 20)
    os.write(w, b"x")
    os.close(release)
    os.read(hold, 1)
    os._exit(0)
os.close(hold)
os.read(r, 1)
def attempt(path, flags=os.O_RDWR):
    try:
        os.close(os.open(path, flags, 0o600))
        print(path.replace(str(child), "PID"), "opened")
    except OSError as e:
        print(path.replace(str(child), "PID"), errno.errorcode[e.errno])
for name in ["mem", "fd/20", "cwd/x", "root/tmp/x", f"task/{child}/fd/20", "environ"]:
    attempt(f"/proc/{child}/{name}", os.O_RDWR | os.O_CREAT)
os.symlink(f"/proc/{child}/fd/20", "link")
attempt("link")
os.symlink(f"/proc/{child}/cwd", "dir")
attempt("dir/x", os.O_RDWR | os.O_CREAT)
os.close(release)
os.waitpid(child, 0)
END
"#,
    );
}

#[test]
fn the_supervisor_is_out_of_reach() {
    as_each_user(|sandbox| {
        let outcome = sandbox.run(r#"
python3 - <<'END'
import os
others = [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()]
supervisor = [n for n in others if not os.access(f"/proc/{n}/fd", os.R_OK) or n == 2]
for n in others:
    for name in ["mem", "cwd/x", "root/tmp/x", "fd/0", "fd/3", "fd/4", f"task/{n}/fd/3", f"task/{n}/mem", "comm"]:
        try:
            os.close(os.open(f"/proc/{n}/{name}", os.O_RDWR))
            owner = open(f"/proc/{n}/cmdline").read().split("\0")[0]
            print(n, owner, name)
        except OSError:
            pass
END
"#).succeeds();
        let reached: Vec<_> =
            outcome.stdout.lines().filter(|line| !line.contains("bash")).collect();
        // PID 1 of these tests is dumpable and holds nothing; a jail's is not.
        let reached: Vec<_> = reached.into_iter().filter(|line| !line.starts_with("1 ")).collect();
        assert!(reached.is_empty(), "{reached:#?}");
    });
}

#[test]
fn own_files_in_procfs_are_the_callers() {
    same(
        r#"
python3 - <<'END'
import os, threading
fd = os.open("a", os.O_RDWR | os.O_CREAT)
for path in [f"/proc/self/fd/{fd}", f"/proc/thread-self/fd/{fd}", f"/dev/fd/{fd}"]:
    again = os.open(path, os.O_RDWR)
    os.write(again, path[:8].encode())
    os.close(again)
    print(os.stat("a").st_size)
os.close(os.open("/proc/self/comm", os.O_WRONLY))
with open("/proc/self/oom_score_adj", "w") as f:
    f.write("500")
print(open("/proc/self/oom_score_adj").read())
print(open("/proc/self/mem", "r+b") is not None)
def thread():
    with open("/proc/thread-self/comm", "w") as f:
        f.write("thread")
    print(open("/proc/thread-self/comm").read(), open("/proc/self/comm").read())
t = threading.Thread(target=thread)
t.start()
t.join()
END
"#,
    );
}

#[test]
fn files_without_a_name_get_none_that_is_protected() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q .");
        let script = r#"
python3 - <<'END'
import ctypes, os, sys
fd = os.open(".git", os.O_TMPFILE | os.O_RDWR, 0o755)
os.write(fd, b"script")
link = f"/proc/self/fd/{fd}".encode()
sys.exit(ctypes.CDLL(None).linkat(-100, link, -100, b".git/hooks/pre-commit", 0x400) != 0)
END
"#;
        sandbox.run(script).fails().denies("git-hooks", ".git/hooks/pre-commit");
        sandbox.control(script).succeeds();
    });
}

#[test]
fn a_descriptor_that_was_opened_before_its_file_moved_there() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q . && printf '[core]\n\trepositoryformatversion = 0\n' > c");
        // Renamed into place: the copy there is another file.
        let script = "exec 9>>c; mv c .git/config && printf '[alias]\n\tx = !evil\n' >&9";
        sandbox.run(script);
        assert!(!sandbox.read(".git/config").contains("evil"));
        sandbox.on_host("cp .git/config c");
        sandbox.control(script).succeeds();
        assert!(sandbox.read(".git/config").contains("evil"));
    });
}

#[test]
fn strict_mode_judges_reads() {
    as_each_user(|sandbox| {
        sandbox.on_host("echo secret > .env; echo plain > a; mkdir d; ln -s ../.env d/l");
        sandbox.options.hidden = vec!["/.env"];
        for script in [
            "cat .env",
            "cat d/l",
            "cat /proc/self/cwd/.env",
            "cat /proc/self/root$PWD/.env",
            "cp .env x",
            "python3 -c 'open(\".env\").read()'",
            "exec 5<.env",
            "python3 -c 'import os; n = os.open(\".env\", os.O_PATH); \
                print(open(f\"/proc/self/fd/{n}\").read())'",
        ] {
            let outcome = sandbox.run(script).fails().denies("hidden", ".env");
            assert!(!outcome.stdout.contains("secret"));
            assert!(sandbox.control(script).succeeds().denies_nothing().stderr.is_empty());
            sandbox.on_host("rm -f x");
        }
        let work = "set -e; cat a; ls -l d; mv a d/; mv d/a .; git init -q g; cd g; echo x > x; git add x; git commit -qm x; \
            find /usr/bin -maxdepth 1 | head -3 | wc -l; echo hi | cat";
        sandbox.run(work).succeeds().denies_nothing();
    });
}

#[test]
fn strict_mode_keeps_hidden_names_where_they_are() {
    as_each_user(|sandbox| {
        let lay_out = "rm -rf * .??*; mkdir -p a/b c; echo secret > a/b/key; echo plain > c/f";
        sandbox.options.hidden = vec!["/a/b/key"];
        for script in [
            "mv a/b/key k",
            "rm -f a/b/key",
            "ln a/b/key k",
            "echo x > n; mv n a/b/key",
            "mv a z; cat z/b/key",
            "mv a/b z; cat z/key",
            "python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"c\", -100, b\"a\", 2)'; cat c/b/key",
        ] {
            sandbox.on_host(lay_out);
            let outcome = sandbox.run(script);
            assert!(outcome.denials.iter().any(|told| told.rule == "hidden"), "{outcome:#?}");
            assert!(!outcome.stdout.contains("secret"), "{script}: {}", outcome.stdout);
            assert_eq!(sandbox.read("a/b/key"), "secret\n", "{script}");
            sandbox.control(script).succeeds().denies_nothing();
        }
        sandbox.on_host(lay_out);
        sandbox.run("mv c d && mv d a/ && cat a/d/f").succeeds().denies_nothing();
    });
}

#[test]
fn strict_mode_remembers_the_name_of_what_the_host_replaces() {
    as_each_user(|sandbox| {
        sandbox.options.hidden = vec!["/.env"];
        // Here the workload itself stands for the host: its child is not judged.
        sandbox.on_host("echo old > .env; mkfifo ../h/go");
        let hold = "import os; n = os.open('.env', os.O_PATH); open('../h/go', 'w').close(); \
            open('../h/went').read(); print(open(f'/proc/self/fd/{n}').read())";
        let script = format!("mkfifo ../h/went; python3 -c \"{hold}\"");
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                sandbox.on_host("cat ../h/go; echo new > n; mv n .env; until test -p ../h/went; do :; done; echo > ../h/went")
            });
            sandbox.run(&script)
        });
        outcome.fails().denies("hidden", ".env (deleted)");
    });
}

#[test]
fn descriptors_that_only_name_a_file_are_given_whatever_their_flags() {
    as_each_user(|sandbox| {
        let script = "python3 -c 'import os
for flags in [os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_CREAT, os.O_CREAT | os.O_EXCL]:
    print(os.fstat(os.open(\"a\", os.O_PATH | flags)).st_size)
try: os.open(\"none\", os.O_PATH | os.O_CREAT)
except FileNotFoundError: print(\"none\")'";
        sandbox.on_host("echo text > a");
        let expected = sandbox.control(script).succeeds().stdout;
        assert_eq!(sandbox.run(script).succeeds().stdout, expected);
        assert_eq!((sandbox.read("a").as_str(), sandbox.has("none")), ("text\n", false));
    });
}
