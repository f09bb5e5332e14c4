//! The gateway as a process: its jail, and what its death does.

use super::{allowing, atoll, each};
use atoll_testkit::internet::Internet;
use atoll_testkit::process::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};

/// A run that connects whenever a line comes, and prints what it hears.
fn connecting(internet: &Internet, project: &atoll_testkit::run::Project, port: u16) -> Child {
    let (place, grant) = (format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}"));
    let program = format!(
        r#"
import socket, sys
for line in sys.stdin:
    try: print(socket.gethostbyname("a.test"), socket.create_connection(("a.test", {port}), timeout=60).recv(99).decode() or "nothing", flush=True)
    except OSError as e: print(type(e).__name__, flush=True)
"#
    );
    let mut command = atoll(internet, project, &allowing(&[&place, &grant]));
    command.args(["--", "python3", "-c", &program]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The processes below one, by name.
pub(super) fn below(parent: i32, name: &str) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let above: i32 = field("PPid:")?.parse().ok()?;
        (field("Name:")? == name && (above == parent || above_is(above, parent))).then_some(pid)
    })
}

fn above_is(pid: i32, wanted: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let above = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    above.and_then(|pid| pid.trim().parse::<i32>().ok()) == Some(wanted)
}

#[test]
fn its_death_closes_the_network_and_nothing_else_and_it_comes_again() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(|mut stream| {
            stream.write_all(b"served").ok();
        });
        let mut run = connecting(&internet, project, port);
        let launcher = i32::try_from(run.id()).unwrap();
        let (mut input, output) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
        let mut output = BufReader::new(output);
        let mut ask = || {
            input.write_all(b"\n").unwrap();
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(ask(), "11.0.0.1 served\n");
        for _ in 0..3 {
            let gateway = below(launcher, "atoll-gateway").expect("there is one");
            kill_process(Pid::from_raw(gateway).unwrap(), Signal::KILL).unwrap();
            wait_until("another gateway", || {
                below(launcher, "atoll-gateway").is_some_and(|other| other != gateway)
            });
            // Whoever connects meanwhile is waited for; names have the address that they had.
            assert_eq!(ask(), "11.0.0.1 served\n");
        }
        drop(input);
        let mut errors = String::new();
        run.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(run.wait().unwrap().success(), "{errors}");
        assert_eq!(errors, "");
        wait_until("the gateway's end", || below(launcher, "atoll-gateway").is_none());
    });
}

#[test]
fn it_is_enclosed() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(|mut stream| {
            stream.write_all(b"served").ok();
        });
        let mut run = connecting(&internet, project, port);
        let launcher = i32::try_from(run.id()).unwrap();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        let mut input = run.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "11.0.0.1 served\n");
        let gateway = below(launcher, "atoll-gateway").expect("there is one");
        let status = std::fs::read_to_string(format!("/proc/{gateway}/status")).unwrap();
        let field = |key: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(key));
            found.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(field("Seccomp:").as_deref(), Some("2"));
        assert_eq!(field("NoNewPrivs:").as_deref(), Some("1"));
        assert_eq!(field("Threads:").as_deref(), Some("1"));
        assert_eq!(field("CapEff:").as_deref(), Some("0000000000000000"));
        assert_eq!(field("CapPrm:").as_deref(), Some("0000000000000000"));
        if rustix::process::geteuid().is_root() {
            let uid = match project.user.uid() {
                Some(0) => "65532",
                _ => "54321",
            };
            assert_eq!(field("Uid:").as_deref(), Some(&*[uid; 4].join(" ")));
            if project.user.uid() == Some(0) {
                assert_eq!(field("Groups:").as_deref(), Some(""));
            }
        }
        // Nobody but the machine's root reads its memory, where the secrets are.
        let mode = std::fs::metadata(format!("/proc/{gateway}/mem")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&mode), 0);
        drop(input);
        assert!(run.wait().unwrap().success());
    });
}
