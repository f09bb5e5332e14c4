//! Bytes of a WebSocket, both ways.

use super::body::Cover;
use super::exchange::Upgrade;
use super::session::Session;
use bytes::{Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const PIECE: usize = 16 * 1024;

/// Sends bytes on in both directions, until both are at their ends or one breaks.
pub(super) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(client: S, upgrade: Upgrade) {
    let Upgrade { upgraded, cover, session, _in_flight } = upgrade;
    let Ok(host) = upgraded.await else { return };
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_host, mut to_host) = tokio::io::split(TokioIo::new(host));
    let sends = async {
        let mut read = BytesMut::new();
        loop {
            read.reserve(PIECE);
            if from_client.read_buf(&mut read).await? == 0 {
                return to_host.shutdown().await;
            }
            let piece = read.split();
            session.count(piece.len() as u64, 0).map_err(cut_off)?;
            to_host.write_all(&piece).await?;
        }
    };
    let receives = receive(&mut from_host, &mut to_client, cover, &session);
    // A side that breaks ends the other.
    drop(tokio::try_join!(sends, receives));
}

/// Sends on what the host says, with secrets covered.
async fn receive(
    from_host: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    mut cover: Cover,
    session: &Arc<dyn Session>,
) -> io::Result<()> {
    let mut read = BytesMut::new();
    loop {
        read.reserve(PIECE);
        let next = {
            let mut reading = pin!(from_host.read_buf(&mut read));
            poll_fn(|context| match reading.as_mut().poll(context) {
                Poll::Ready(length) => Poll::Ready(length.map(Next::Read)),
                Poll::Pending => match cover.flush() {
                    little if little.is_empty() => Poll::Pending,
                    little => Poll::Ready(Ok(Next::Waits(little))),
                },
            })
            .await?
        };
        match next {
            Next::Waits(little) => to_client.write_all(&little).await?,
            Next::Read(0) => {
                to_client.write_all(&cover.finish()).await?;
                return to_client.shutdown().await;
            }
            Next::Read(length) => {
                session.count(0, length as u64).map_err(cut_off)?;
                let piece = cover.push(read.split().freeze(), &**session);
                to_client.write_all(&piece).await?;
            }
        }
        to_client.flush().await?;
    }
}

enum Next {
    /// So many bytes.
    Read(usize),
    /// None for now, so that these, which might have begun a secret, go on.
    Waits(Bytes),
}

fn cut_off(refused: super::Refused) -> io::Error {
    io::Error::other(refused.code)
}
