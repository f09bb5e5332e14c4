//! The root inside: what it may do to its own sandbox, and that it is nobody outside.
//! Each refusal has a control that succeeds outside.

use super::{Host, OUTSIDE, OUTSIDE_ROOT, each};
use atoll_protocol::exec;
use atoll_protocol::problem::Code;
use atoll_testkit::guest::{code, sh};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::User;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

/// Runs a test as root; an ordinary user maps only itself.
fn as_root(test: impl Fn(&Host)) {
    each(|host| {
        if host.user == User::Root {
            test(host);
        }
    });
}

fn outside(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_sandbox_without_other_ids_has_no_root() {
    each(|host| {
        let mut order = host.order("one");
        order.root = None;
        let sandbox = host.spawn(&order);
        let mut start = sh("id -u");
        start.command.user = exec::User::Root;
        let refused = sandbox.socket.answer(&atoll_protocol::request::Request::Start(start));
        assert_eq!(code(&refused), Some(Code::Unsupported));
        assert_eq!(sandbox.sh("id -u"), "1000\n");
    });
}

#[test]
fn root_owns_what_it_makes_and_may_change_whatever_is_the_sandboxs() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let who = "id -u; id -g; id -G; echo $HOME; pwd; cd; pwd; stat -c %u:%g:%a . /run";
        assert_eq!(sandbox.root_sh(who), "0\n0\n0\n/root\n/home/user\n/root\n0:0:700\n0:0:1777\n");
        sandbox.sh("echo mine > file; chmod 600 file; mkdir shut; chmod 0 shut");
        let change = "cat file; echo root >> file; touch shut/x; \
                      chown 33:33 file; stat -c %u:%g file; chown 1000:0 file; stat -c %u:%g file";
        assert_eq!(sandbox.root_sh(change), "mine\n33:33\n1000:0\n");
        assert_eq!(sandbox.sh("cat file; stat -c %u:%g file"), "mine\nroot\n1000:0\n");
        // Packages have programs that run as their owner; here they do not.
        let program = "cp /usr/bin/id id; chown 0:0 id; chmod 4755 id; stat -c %a id";
        assert_eq!(sandbox.root_sh(program), "4755\n");
        assert_eq!(
            sandbox.sh("./id -u; touch own; chmod 4755 own 2>/dev/null || echo no"),
            "1000\nno\n"
        );
        // On the host they are as many strangers.
        let home = host.dir.path().join("one/home");
        let owner = |name: &str| home.join(name).metadata().unwrap().uid();
        assert_eq!((owner("own"), owner("id")), (OUTSIDE, OUTSIDE_ROOT));
    });
}

#[test]
fn root_becomes_any_user_of_the_sandbox_and_nobody_else() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let others = "setpriv --reuid 33 --regid 33 --clear-groups sh -c 'id -u; id -g'; \
                      setpriv --reuid 1000 --regid 1000 --clear-groups id -u; \
                      setpriv --reuid 5000 true 2>/dev/null || echo none";
        assert_eq!(sandbox.root_sh(others), "33\n33\n1000\nnone\n");
        let caps = "grep -h '^Cap[PEB]' /proc/self/status | cut -f2 | sort -u; \
                    grep -h NoNewPrivs /proc/self/status | cut -f2; \
                    grep -h ^Seccomp: /proc/self/status | cut -f2";
        assert_eq!(sandbox.root_sh(caps), "00000000000000fb\n1\n2\n");
        // Who leaves root has nothing of it.
        let left = format!("setpriv --reuid 1000 --regid 1000 --clear-groups sh -c \"{caps}\"");
        assert_eq!(sandbox.root_sh(&left), "0000000000000000\n00000000000000fb\n1\n2\n");
        assert_eq!(sandbox.sh(caps), "0000000000000000\n1\n2\n");
    });
}

#[test]
fn root_ends_what_others_run_and_is_ended_by_the_host() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        sandbox.sh("sleep 600 >/dev/null 2>&1 & echo $! > pid");
        assert_eq!(sandbox.root_sh("kill $(cat pid) && echo done"), "done\n");
        wait_until("its end", || sandbox.sh("pgrep -x sleep").is_empty());
        // A command of root's ends at its time with all that it started.
        let mut start = sh("setsid sleep 600 & setpriv --reuid 33 --clear-groups sleep 600");
        start.command.user = exec::User::Root;
        start.timeout_ms = Some(300);
        let ran = sandbox.socket.run(start);
        assert_eq!(ran.ended().cause, Some(exec::Cause::TimedOut));
        assert_eq!(sandbox.root_sh("pkill -u 33 sleep; pgrep -u 33 sleep"), "");
        // The user cannot end root's.
        sandbox.root_sh("sleep 600 >/dev/null 2>&1 & echo $! > /tmp/root-pid");
        assert!(sandbox.sh("kill $(cat /tmp/root-pid) || echo no").contains("no"));
    });
}

#[test]
fn a_terminal_is_roots_too() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let mut start = sh("id -u; tty; echo word > /dev/tty; : > $(tty) && echo opened");
        start.command.user = exec::User::Root;
        start.input = exec::Input::Terminal(exec::Size { rows: 10, columns: 80 });
        let ran = sandbox.socket.run(start);
        assert_eq!(ran.text(), "0\r\n/dev/pts/0\r\nword\r\nopened\r\n");
    });
}

#[test]
fn sessions_of_root_are_not_the_users() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let run = |user, script: &str| {
            let mut start = atoll_testkit::guest::command(&[script]);
            start.command.user = user;
            start.session = Some("main".into());
            let ran = sandbox.socket.run(start);
            format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
        };
        run(exec::User::Root, "X=root; cd /usr");
        run(exec::User::Workload, "X=user; cd /tmp");
        assert_eq!(run(exec::User::Root, "echo $X $PWD $(id -u)"), "root /usr 0\n");
        assert_eq!(run(exec::User::Workload, "echo $X $PWD $(id -u)"), "user /tmp 1000\n");
        // Nor may the user put something in their place.
        let plant = "echo 'echo planted' > /run/atoll/root-sessions/main; \
                     mv /run/atoll /run/other; mv /run/atoll/root-sessions /tmp; echo tried";
        assert!(sandbox.sh(&format!("({plant}) 2>/dev/null")).contains("tried"));
        assert_eq!(run(exec::User::Root, "echo $X"), "root\n");
    });
}

#[test]
fn root_makes_no_namespace_mount_or_device_and_changes_no_setting() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        // The control is the same in namespaces of its own.
        let same = |act| (act, act);
        let acts = [
            same("unshare -U true"),
            same("unshare -n true"),
            ("mount -t tmpfs none /mnt", "unshare -m mount -t tmpfs none /mnt"),
            ("mknod node c 1 3", "d=$(mktemp -d); mknod $d/n c 1 3; n=$?; rm -r $d; exit $n"),
            same("chroot / true"),
            ("hostname other", "unshare -u hostname other"),
            (
                ": > /proc/sys/user/max_user_namespaces",
                "unshare -Ur sh -c ': > /proc/sys/user/max_user_namespaces'",
            ),
            same(": > /proc/sys/kernel/domainname"),
            ("ip link set lo down", "unshare -n ip link set lo down"),
            ("umount /proc/sys", "unshare -m umount -l /proc"),
            same("test -d /sys/kernel"),
            ("touch /usr/x", "test -w /usr"),
            ("touch /etc/x", "test -w /etc"),
            ("touch /x", "test -w /"),
            same(": < /dev/kmsg"),
            ("nsenter -t 1 -m true", "nsenter -t $$ -m true"),
        ];
        for (act, control) in acts {
            let try_it =
                |script: &str| format!("({script}) >/dev/null 2>&1 && echo did || echo no");
            assert_eq!(outside(&try_it(control)), "did\n", "the control of {act}");
            assert_eq!(sandbox.root_sh(&try_it(act)), "no\n", "{act}");
        }
        assert_eq!(sandbox.root_sh("id -u"), "0\n");
    });
}

#[test]
fn root_looks_at_nothing_of_pid_1_and_does_not_stop_it() {
    as_root(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let look = "for f in environ maps mem auxv io stack; do \
                      head -c 1 /proc/$P/$f >/dev/null 2>&1 && echo read $f; done; \
                    ls /proc/$P/fd/ >/dev/null 2>&1 && echo fd; \
                    readlink /proc/$P/root /proc/$P/cwd /proc/$P/exe /proc/$P/ns/mnt | wc -l; \
                    (echo 0 > /proc/$P/oom_score_adj) 2>/dev/null && echo written";
        let seen = outside(&format!("sleep 60 & P=$!; {look}; kill $P"));
        for part in ["read environ", "read maps", "fd", "4\n", "written"] {
            assert!(seen.contains(part), "the control: {seen:?}");
        }
        assert_eq!(sandbox.root_sh(&format!("P=1; {look}")), "0\n");
        // The calls that a debugger makes: attach, read, take a descriptor.
        let calls = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
buffer = ctypes.create_string_buffer(8)
iov = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
def tell(name, result): print(name, 'did' if result >= 0 else 'no')
tell('limits', libc.syscall(302, pid, 7, 0, ctypes.addressof(buffer) and (ctypes.c_char * 16)()))
fd = os.pidfd_open(pid)
tell('getfd', libc.syscall(438, fd, 0, 0))
tell('seize', libc.syscall(101, 0x4206, pid, 0, 0))
"#;
        let control = Command::new("sleep").arg("60").spawn();
        let mut control = control.unwrap();
        let told = Command::new("python3").args(["-c", calls, &control.id().to_string()]).output();
        assert_eq!(
            String::from_utf8(told.unwrap().stdout).unwrap(),
            "limits did\ngetfd did\nseize did\n"
        );
        control.kill().unwrap();
        control.wait().unwrap();
        let mut start = atoll_testkit::guest::command(&["python3", "-c", calls, "1"]);
        start.command.user = exec::User::Root;
        assert_eq!(sandbox.socket.run(start).text(), "limits no\ngetfd no\nseize no\n");
        sandbox.root_sh("for s in 9 15 19 11 6 1 2 3 10; do kill -$s 1; done");
        assert_eq!(sandbox.sh("echo alive"), "alive\n");
    });
}

#[test]
fn root_is_nobody_to_the_host_and_to_other_sandboxes() {
    as_root(|host| {
        let (one, other) = (host.spawn(&host.order("one")), host.order("other"));
        let secret = host.dir.path().join("secret");
        std::fs::write(&secret, "words").unwrap();
        for path in [secret.display().to_string(), other.socket.to_string(), "/etc/shadow".into()] {
            assert_eq!(one.root_sh(&format!("ls {path} 2>/dev/null")), "", "{path}");
        }
        assert_eq!(outside(&format!("cat {}", secret.display())), "words");
        // No socket of any guest has a name here, or another kind of address.
        assert_eq!(
            one.root_sh("find / -xdev -type s 2>/dev/null; grep -c @ /proc/net/unix"),
            "0\n"
        );
        // A descriptor of the host is not there to be taken up either.
        let links = "for p in /proc/[0-9]*; do readlink $p/fd/* $p/cwd $p/root; done 2>/dev/null \
                     | grep -c secret";
        assert_eq!(one.root_sh(links).trim(), "0");
    });
}

#[test]
fn commands_signal_and_look_at_each_other() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        sandbox.sh("sleep 600 >/dev/null 2>&1 & echo $! > pid");
        let look = "readlink /proc/$(cat pid)/cwd; ls /proc/$(cat pid)/fd | wc -l; kill $(cat pid)";
        assert_eq!(sandbox.sh(look), "/home/user\n3\n");
        wait_until("its end", || sandbox.sh("pgrep -x sleep").is_empty());
        // By a name that is no file, too.
        let listen = "import socket; s = socket.socket(socket.AF_UNIX); s.bind(b'\\0x'); s.listen(); \
                      print('ready', flush=True); s.accept()[0].sendall(b'hello')";
        let mut client = sandbox.socket.ask(&atoll_protocol::request::Request::Start(
            atoll_testkit::guest::command(&["python3", "-c", listen]),
        ));
        client.started();
        client.expect("ready");
        let connect = "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); \
                       s.connect(b'\\\\0x'); print(s.recv(9).decode())\"";
        assert_eq!(sandbox.sh(connect), "hello\n");
    });
}
