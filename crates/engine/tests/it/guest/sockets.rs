//! What a guest hands over as a connection to a port.

use super::play::{asked, assert_malformed, hasty, hello, reply};
use crate::support::live;
use atoll_engine::guest::{Guest, GuestError, PortStream};
use atoll_protocol::request::Reply;
use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixListener;
use tokio::time::timeout;

/// Connects to `port` through a guest that hands `sockets` over, one with each part of
/// its answer.
async fn handed(port: u16, sockets: Vec<OwnedFd>) -> Result<PortStream, GuestError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("guest");
    let listener = UnixListener::bind(&path).unwrap();
    let player = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        asked(&mut stream).await;
        stream.write_all(&hello()).await.unwrap();
        let answer = reply(&Reply::Connected).split_off(hello().len());
        let mut rest = answer.as_slice();
        for socket in &sockets {
            stream.writable().await.unwrap();
            let send = || atoll_sys::scm::send(stream.as_fd(), &rest[..1], Some(socket.as_fd()));
            stream.try_io(Interest::WRITABLE, send).unwrap();
            rest = &rest[1..];
        }
        stream.write_all(rest).await.ok();
        (stream, sockets)
    });
    let connected = Guest::with_settings(&path, hasty()).connect(port).await;
    drop(player.await.unwrap());
    connected
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_connection_to_that_port_is_taken_and_works() {
    live(async {
        let (listener, port) = listener();
        let ours = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut stream = handed(port, vec![ours.into()]).await.unwrap();
        assert_eq!(stream.peer(), listener.local_addr().unwrap());
        stream.write_all(b"question").await.unwrap();
        let mut question = [0; 8];
        std::io::Read::read_exact(&mut server, &mut question).unwrap();
        assert_eq!(&question, b"question");
        std::io::Write::write_all(&mut server, b"answer").unwrap();
        drop(server);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn a_server_that_has_said_all_before_is_heard() {
    live(async {
        let (listener, port) = listener();
        let ours = TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut listener.accept().unwrap().0, b"all").unwrap();
        let mut stream = handed(port, vec![ours.into()]).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "all");
    });
}

#[test]
fn what_is_no_connection_to_that_port_is_refused() {
    live(async {
        let (listener, port) = listener();
        let (other, other_port) = self::listener();
        let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
        let place = elsewhere.local_addr().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(("127.0.0.1", port)).unwrap();
        let connected = TcpStream::connect(("127.0.0.1", other_port)).unwrap();
        let refused: [(&str, u16, OwnedFd); 6] = [
            ("no TCP", port, File::open("/dev/null").unwrap().into()),
            ("no TCP", port, UnixStream::pair().unwrap().0.into()),
            ("no TCP", port, udp.into()),
            ("listens", other_port, other.try_clone().unwrap().into()),
            ("elsewhere", port, connected.into()),
            ("elsewhere", place.port(), TcpStream::connect(place).unwrap().into()),
        ];
        for (what, port, socket) in refused {
            assert_malformed(handed(port, vec![socket]).await, what);
        }
        assert_malformed(handed(port, Vec::new()).await, "no socket");
        let two = || TcpStream::connect(("127.0.0.1", port)).unwrap().into();
        assert_malformed(handed(port, vec![two(), two()]).await, "more than one");
        drop(listener);
    });
}

#[test]
fn one_that_is_not_connected_is_none() {
    live(async {
        use rustix::net::{AddressFamily, SocketType, socket};
        let alone = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let lost = handed(80, vec![alone]).await;
        assert!(matches!(lost, Err(GuestError::Lost { .. })), "{lost:?}");
    });
}

/// Whoever has a copy can have the descriptor block; we must not wait for it.
#[test]
fn a_copy_that_is_made_to_block_blocks_nobody() {
    live(async {
        let (listener, port) = listener();
        let ours = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let copy = ours.try_clone().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut stream = handed(port, vec![ours.into()]).await.unwrap();
        copy.set_nonblocking(false).unwrap();
        let mut buffer = [0; 9];
        let soon = Duration::from_millis(100);
        assert!(timeout(soon, stream.read(&mut buffer)).await.is_err());
        // A full connection the same.
        let filled = timeout(soon, stream.write_all(&vec![7; 64 << 20])).await;
        assert!(filled.is_err());
        std::io::Write::write_all(&mut server, b"late").unwrap();
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 4);
        // There was something to read a moment ago, so now the kernel is asked.
        assert!(timeout(soon, stream.read(&mut buffer)).await.is_err());
        // Nor does its end wait for what was not taken.
        rustix::net::sockopt::set_socket_linger(&copy, Some(Duration::from_secs(60))).unwrap();
        drop(copy);
        drop(stream);
    });
}

#[test]
fn ports_are_limited_and_their_places_come_back() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let listener = UnixListener::bind(&path).unwrap();
        let (server, port) = self::listener();
        let player = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                asked(&mut stream).await;
                let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
                stream.writable().await.unwrap();
                let words = reply(&Reply::Connected);
                let send = || atoll_sys::scm::send(stream.as_fd(), &words, Some(socket.as_fd()));
                stream.try_io(Interest::WRITABLE, send).unwrap();
            }
        });
        let guest = Guest::with_settings(&path, hasty());
        let first = guest.connect(port).await.unwrap();
        let second = guest.connect(port).await.unwrap();
        let refused = guest.connect(port).await;
        assert!(matches!(refused, Err(GuestError::Busy { connections_max: 2 })), "{refused:?}");
        drop(first);
        // It is closed a moment later, by another thread.
        while let Err(GuestError::Busy { .. }) = guest.connect(port).await {
            tokio::task::yield_now().await;
        }
        player.abort();
        drop((second, server));
    });
}

#[test]
fn descriptors_that_nobody_asked_for_do_not_stay() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let listener = UnixListener::bind(&path).unwrap();
        let player = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            asked(&mut stream).await;
            let words = reply(&Reply::Done);
            let (kept, handed) = UnixStream::pair().unwrap();
            stream.writable().await.unwrap();
            let send = || atoll_sys::scm::send(stream.as_fd(), &words[..1], Some(handed.as_fd()));
            // A kernel that refuses it has not taken the byte either.
            let sent = usize::from(stream.try_io(Interest::WRITABLE, send).is_ok());
            drop(handed);
            stream.write_all(&words[sent..]).await.unwrap();
            kept
        });
        Guest::with_settings(&path, hasty()).forget("one").await.unwrap();
        // Nobody has the other end any more.
        let mut kept = player.await.unwrap();
        kept.set_nonblocking(true).unwrap();
        assert_eq!(std::io::Read::read(&mut kept, &mut [0]).unwrap(), 0);
    });
}
