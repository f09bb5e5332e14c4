//! TCP, and the first key.

use super::support::{command, exchange, log, state};
use super::{Answer, Served, each};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

/// Where the server of a project listens, which chose its own port.
pub(crate) fn addresses(project: &Project) -> Vec<SocketAddr> {
    let log = log(project);
    let words = log.split_whitespace().filter_map(|word| word.strip_prefix("address="));
    words.map(|address| address.parse().unwrap()).collect()
}

fn ask(address: SocketAddr, key: Option<&str>) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let header = key.map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
    exchange(&mut stream, "GET", "/v1/sandboxes", &header, None).unwrap()
}

#[test]
fn the_first_key_is_in_a_private_file_and_there_is_no_second() {
    each(|project| {
        let flags = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0"];
        let mut served = Served::start(project, &flags);
        let path = state(project).join("first-key");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let key = std::fs::read_to_string(&path).unwrap();
        let listening = addresses(project);
        assert_eq!(listening.len(), 2, "{}", log(project));
        for address in listening {
            assert_eq!(ask(address, Some(key.trim())).status, 200);
            assert_eq!(ask(address, None).status, 401);
            assert_eq!(ask(address, Some("e2b_0123456789abcdef")).status, 401);
        }
        assert!(!log(project).contains(key.trim()), "a key is in the log");
        assert!(served.end().success());

        std::fs::remove_file(&path).unwrap();
        served.again();
        assert!(!path.exists(), "there is a key already");
        let address = *addresses(project).last().unwrap();
        assert_eq!(ask(address, Some(key.trim())).status, 200);
    });
}

#[test]
fn the_first_key_is_printed_if_asked_for() {
    each(|project| {
        let mut command = command(project, &["--listen", "127.0.0.1:0", "--print-key"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut key = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut key).unwrap();
        wait_until("the server", || !addresses(project).is_empty());
        let answer = ask(addresses(project)[0], Some(key.trim()));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!state(project).join("first-key").exists());
    });
}

#[test]
fn without_tcp_there_is_no_key() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.ask("GET", "/v1/keys", None).body["keys"], serde_json::json!([]));
        assert!(!state(project).join("first-key").exists());
    });
}
