//! What a command cannot do; each with a control that succeeds outside.

use super::{each, octets};
use atoll_protocol::files;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::Request;
use atoll_testkit::guest::code;
use std::process::Command;

fn outside(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_host_is_not_there() {
    each(|host| {
        let secret = host.dir.path().join("secret");
        std::fs::write(&secret, "words").unwrap();
        host.user.give(&secret);
        let order = host.order("one");
        let sandbox = host.spawn(&order);
        let read = format!("cat {} 2>/dev/null; echo", secret.display());
        assert_eq!(outside(&read).trim(), "words");
        assert_eq!(sandbox.sh(&read).trim(), "");
        // Nor the guest's own socket.
        let find = format!("ls {} 2>/dev/null; echo", order.socket);
        assert_eq!(outside(&find).trim(), order.socket.to_string());
        assert_eq!(sandbox.sh(&find).trim(), "");
        assert_eq!(sandbox.sh("touch /usr/x 2>/dev/null || echo no").trim(), "no");
    });
}

#[test]
fn no_capability_no_namespace_and_no_look_at_pid_1() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let caps = "grep -h '^Cap[PEB]' /proc/self/status | cut -f2 | sort -u; \
                    grep -h NoNewPrivs /proc/self/status | cut -f2; \
                    grep -h ^Seccomp: /proc/self/status | cut -f2";
        assert_eq!(sandbox.sh(caps), "0000000000000000\n1\n2\n");
        let nested = "unshare -U true 2>/dev/null && echo made || echo refused";
        assert_eq!(outside(nested).trim(), "made");
        assert_eq!(sandbox.sh(nested).trim(), "refused");
        let look = "cat /proc/$P/environ >/dev/null 2>&1 && echo read || echo refused; \
                    ls /proc/$P/fd >/dev/null 2>&1 && echo read || echo refused";
        assert_eq!(outside(&format!("P=$$; {look}")), "read\nread\n");
        assert_eq!(sandbox.sh(&format!("P=1; {look}")), "refused\nrefused\n");
        assert_eq!(sandbox.sh("kill -9 1 2>/dev/null; echo alive").trim(), "alive");
        assert_eq!(sandbox.sh("echo alive").trim(), "alive");
    });
}

#[test]
fn files_for_the_host_are_those_that_commands_see() {
    each(|host| {
        let secret = host.dir.path().join("secret");
        std::fs::write(&secret, "words").unwrap();
        host.user.give(&secret);
        let sandbox = host.spawn(&host.order("one"));
        sandbox.sh(&format!(
            "ln -s {0} planted; ln -s /proc/1/root{0} deep; echo mine > file",
            secret.display()
        ));
        let read = |path: &str| {
            let path = Octets::try_from(path).unwrap();
            let read = files::Read { path, offset: 0, length: None };
            let mut client = sandbox.socket.ask(&Request::Read(read));
            client.answer()
        };
        read("/home/user/file").unwrap();
        assert_eq!(code(&read("/home/user/planted")), Some(Code::NotFound));
        assert!(read("/home/user/deep").is_err());
        assert!(read(&octets(&secret).to_string()).is_err());
        assert!(read("/etc/shadow").is_err());
        // What a worker writes belongs to the sandbox's user.
        let path = Octets::try_from("/home/user/new").unwrap();
        let write = files::Write {
            path,
            existing: files::Existing::Replace,
            mode: None,
            make_parents: false,
        };
        let mut client = sandbox.socket.ask(&Request::Write(write));
        client.feed(b"new");
        client.end();
        client.answer().unwrap();
        assert_eq!(sandbox.sh("stat -c %u new; cat new"), "1000\nnew");
    });
}
