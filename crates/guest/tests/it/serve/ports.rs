//! Ports of the sandbox.

use super::{Guest, code, each, sh};
use atoll_protocol::exec;
use atoll_protocol::ports::{Connect, Wait};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// A port that nobody else has.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts an echo server in the guest.
fn echo(guest: &Guest, address: &str, port: u16) -> super::Client {
    let script = format!(
        "exec python3 -u -c '
import socket
s = socket.socket(socket.AF_INET6 if \":\" in \"{address}\" else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((\"{address}\", {port})); s.listen(); print(\"ready\")
while True:
    c, _ = s.accept(); c.sendall(b\"echo \" + c.recv(100)); c.close()'"
    );
    let mut client = guest.ask(&Request::Start(sh(&script)));
    client.started();
    client.expect("ready");
    client
}

#[test]
fn a_connection_to_a_port_is_handed_over() {
    each(|guest| {
        for address in ["127.0.0.1", "::1"] {
            let port = free_port();
            let _server = echo(guest, address, port);
            let client = guest.ask(&Request::Connect(Connect { port }));
            let mut buffer = [0; 4096];
            let mut socket = None;
            // The greeting comes on its own; the socket with the answer.
            while socket.is_none() {
                let (length, fd) =
                    atoll_sys::scm::receive(client.stream.as_fd(), &mut buffer).unwrap();
                assert!(length > 0, "no socket: {}", String::from_utf8_lossy(&buffer[..100]));
                socket = fd;
            }
            let mut stream = TcpStream::from(socket.unwrap());
            stream.set_nonblocking(false).unwrap();
            stream.write_all(b"word").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text, "echo word");
        }
    });
}

#[test]
fn a_port_without_a_listener_is_not_found() {
    each(|guest| {
        let connect = Request::Connect(Connect { port: free_port() });
        assert_eq!(code(&guest.answer(&connect)), Some(Code::NotFound));
    });
}

#[test]
fn ports_are_listed_and_waited_for() {
    each(|guest| {
        let port = free_port();
        let wait = |timeout_ms| Request::WaitForPort(Wait { port, timeout_ms });
        let begin = Instant::now();
        assert_eq!(code(&guest.answer(&wait(100))), Some(Code::TimedOut));
        assert!(begin.elapsed() >= Duration::from_millis(100));
        let mut waiting = guest.ask(&wait(30_000));
        // Others are served meanwhile.
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
        let _server = echo(guest, "0.0.0.0", port);
        assert_eq!(waiting.answer(), Ok(Reply::Done));
        let Ok(Reply::Ports(ports)) = guest.answer(&Request::Ports) else { panic!() };
        assert!(ports.iter().any(|one| one.port == port && one.is_any_address), "{ports:?}");
    });
}

#[test]
fn who_waits_no_more_leaves_no_worker() {
    each(|guest| {
        let waiting =
            guest.ask(&Request::WaitForPort(Wait { port: free_port(), timeout_ms: 600_000 }));
        let processes = || match guest.answer(&Request::Guest) {
            Ok(Reply::Guest(state)) => state.processes,
            other => panic!("{other:?}"),
        };
        atoll_testkit::process::wait_until("a worker", || processes() == 1);
        drop(waiting);
        atoll_testkit::process::wait_until("its end", || processes() == 0);
        // A worker that is killed is no answer, and nobody else's loss.
        let mut waiting =
            guest.ask(&Request::WaitForPort(Wait { port: free_port(), timeout_ms: 600_000 }));
        atoll_testkit::process::wait_until("a worker", || processes() == 1);
        let kill = exec::Start {
            ..sh(
                "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -gt 1 ] && [ $p != $$ ] && kill -9 $p; done; echo killed",
            )
        };
        assert_eq!(guest.run(kill).text(), "killed\n");
        assert!(matches!(waiting.hear(), Some(super::Said::Hello(_))));
        assert_eq!(waiting.hear(), None);
    });
}
