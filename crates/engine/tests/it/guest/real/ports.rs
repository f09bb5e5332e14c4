//! Ports of a real sandbox.

use super::{assert_refused, sh, with_sandbox};
use atoll_protocol::ports::Wait;
use atoll_protocol::problem::Code;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SERVER: &str = "python3 -c \"
import socket
server = socket.create_server(('127.0.0.1', 8080))
while True:
    peer = server.accept()[0]
    words = peer.recv(100)
    peer.sendall(words.upper())
    peer.close()
\"";

#[test]
fn a_server_inside_is_waited_for_and_talked_to() {
    with_sandbox("ports::a_server_inside_is_waited_for_and_talked_to", |real| async move {
        let guest = &real.guest;
        assert_refused(guest.connect(8080).await.map(|_| ()), Code::NotFound);
        let wait = |timeout_ms| Wait { port: 8080, timeout_ms };
        assert_refused(guest.wait_for_port(wait(1)).await, Code::TimedOut);
        let _server = guest.start(sh(SERVER)).await.unwrap();
        guest.wait_for_port(wait(15_000)).await.unwrap();
        let ports = guest.ports().await.unwrap();
        assert_eq!(ports.iter().map(|one| one.port).collect::<Vec<_>>(), [8080]);
        for _ in 0..20 {
            let mut stream = guest.connect(8080).await.unwrap();
            stream.write_all(b"words").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "WORDS");
        }
    });
}
