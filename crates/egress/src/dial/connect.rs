//! Connecting to one of several addresses, without waiting long for one that does not answer.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

/// How long one address is waited for before the next one is tried beside it (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

/// Most addresses that are tried at once: names may have many, none of which answers, and each
/// takes a descriptor.
const AT_ONCE_MAX: usize = 4;

/// How long all of them may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects to the first of `addresses` that answers.
///
/// # Errors
///
/// What the last one failed with; `TimedOut` where none answers.
pub(super) async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let all = race(addresses, port);
    timeout(PATIENCE, all).await.unwrap_or_else(|elapsed| Err(elapsed.into()))
}

async fn race(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter();
    let mut trying = FuturesUnordered::new();
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if trying.len() < AT_ONCE_MAX
            && let Some(address) = waiting.next()
        {
            trying.push(TcpStream::connect(SocketAddr::new(*address, port)));
        }
        let may_try = trying.len() < AT_ONCE_MAX && !waiting.as_slice().is_empty();
        let next = Instant::now() + HEAD_START;
        tokio::select! {
            tried = trying.next() => match tried {
                Some(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Some(Err(error)) => failed = error,
                None => return Err(failed),
            },
            () = sleep_until(next), if may_try => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Sockets that wait for an answer to their SYN.
    fn connecting(port: u16) -> usize {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let to = format!(":{port:04X} 02 ");
        table.lines().filter(|line| line.contains(&to)).count()
    }

    #[tokio::test]
    async fn not_all_of_many_are_tried_at_once() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
        // Nobody accepts there, so that the queue is full soon.
        let flags = SocketFlags::NONBLOCK;
        let silent = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        bind(&silent, &SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        listen(&silent, 0).unwrap();
        let port = SocketAddr::try_from(rustix::net::getsockname(&silent).unwrap()).unwrap().port();
        let mut fill = Vec::new();
        while connecting(port) == 0 {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).ok();
            fill.push(socket);
        }
        let addresses: Vec<IpAddr> = (1..=32).map(|n| IpAddr::from([127, 1, 0, n])).collect();
        let already = connecting(port);
        let long = HEAD_START * 8;
        assert!(
            timeout(long, async {
                tokio::join!(connect(&addresses, port), async {
                    loop {
                        assert!(connecting(port) <= already + AT_ONCE_MAX);
                        sleep_until(Instant::now() + HEAD_START / 5).await;
                    }
                })
            })
            .await
            .is_err()
        );
    }

    #[tokio::test]
    async fn the_first_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let addresses = ["127.0.0.9", "127.0.0.1"].map(|text| text.parse().unwrap());
        let stream = connect(&addresses, port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        drop(listener);
        let error = connect(&addresses, port).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[], port).await.is_err());
    }
}
