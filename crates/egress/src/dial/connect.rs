//! Connecting to one of several addresses, without waiting long for one that does not answer.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

/// How long one address is waited for before the next one is tried beside it (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);

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
        if let Some(address) = waiting.next() {
            trying.push(TcpStream::connect(SocketAddr::new(*address, port)));
        }
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
            () = sleep_until(next), if !waiting.as_slice().is_empty() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

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
