//! Questions for names, as datagrams and over TCP.

use super::sandbox::{Asking, Sandbox};
use crate::control::Told;
use crate::dns::{Transport, answer};
use atoll_sys::datagram;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Questions that are answered before others have their turn.
const TURN: usize = 16;

/// Failures in a row after which a socket does not work any more.
const FAILED_MAX: usize = 1000;

/// Longest question: what is longer is none of a name.
const QUESTION_BYTES_MAX: usize = 4096;

/// How long a connection may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers every question to a socket, until that does not work any more.
pub(super) async fn datagrams(socket: OwnedFd, sandbox: Arc<Sandbox>) {
    #[expect(deprecated, reason = "what is in its place is unsafe, and an OwnedFd keeps its own")]
    let registered = AsyncFd::with_interest(socket, Interest::READABLE);
    let Ok(socket) = registered else {
        return sandbox.tell(Told::Deaf { sandbox: sandbox.id() });
    };
    let mut buffer = [0; QUESTION_BYTES_MAX];
    let mut failed = 0;
    while failed < FAILED_MAX {
        let Ok(mut ready) = socket.readable().await else { break };
        for _ in 0..TURN {
            match datagram::receive(socket.as_fd(), &mut buffer) {
                Ok(received) => {
                    failed = 0;
                    let question = &buffer[..received.length];
                    let answer = answer(question, Transport::Udp, &mut Asking(&sandbox));
                    if let Some(answer) = answer {
                        // Who does not take it asks again.
                        datagram::send(socket.as_fd(), &answer, received.to, received.from).ok();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Somebody has shut it, and it would be ready for nothing for ever.
                    if ready.ready().is_read_closed() {
                        return sandbox.tell(Told::Deaf { sandbox: sandbox.id() });
                    }
                    failed = 0;
                    ready.clear_ready();
                    break;
                }
                // What came back for an answer of ours (ip(7), "Error handling").
                Err(_) => failed += 1,
            }
        }
        tokio::task::yield_now().await;
    }
    sandbox.tell(Told::Deaf { sandbox: sandbox.id() });
}

/// Answers the questions on a connection (RFC 7766).
pub(super) async fn over_tcp(sandbox: &Sandbox, mut stream: TcpStream) {
    loop {
        match timeout(PATIENCE, one(sandbox, &mut stream)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

async fn one(sandbox: &Sandbox, stream: &mut TcpStream) -> io::Result<()> {
    let length = usize::from(stream.read_u16().await?);
    if length > QUESTION_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await?;
    let Some(answer) = answer(&question, Transport::Tcp, &mut Asking(sandbox)) else {
        return Err(ErrorKind::InvalidData.into());
    };
    let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &answer[..]].concat()).await
}
