//! A layer as it comes, for who unpacks it on a thread of its own.
//!
//! A connection that breaks is taken up where it broke, so who unpacks notices nothing.

use super::http::next;
use super::{Session, Shared};
use crate::images::{ImageError, pause};
use atoll_store::layer::source_failed;
use atoll_store::oci::Descriptor;
use bytes::Bytes;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// Pieces that wait to be unpacked.
const PIECES: usize = 16;

/// How often it is begun again without having come further.
const TRIES: u32 = 4;

/// How long to wait before that, doubled each time.
const BACK_OFF: Duration = Duration::from_millis(250);

type Count = Box<dyn Fn(u64) + Send>;

/// Reads a layer from its registry. Nothing is fetched before the first read.
pub(in crate::images) struct Feed {
    begin: Option<(Arc<Session>, Descriptor, Handle, watch::Receiver<()>)>,
    pieces: Option<mpsc::Receiver<Option<Bytes>>>,
    current: Bytes,
    failure: Shared<ImageError>,
    count: Count,
}

impl Feed {
    /// It ends before its end when the sender of `wanted` is gone.
    pub(in crate::images) fn new(
        session: Arc<Session>,
        layer: Descriptor,
        runtime: Handle,
        wanted: watch::Receiver<()>,
        count: Count,
    ) -> Self {
        let (pieces, current, failure) = Default::default();
        Self { begin: Some((session, layer, runtime, wanted)), pieces, current, failure, count }
    }

    /// Why it ended before its end, if it did.
    pub(in crate::images) fn failure(&self) -> Shared<ImageError> {
        self.failure.clone()
    }

    fn more(&mut self) -> io::Result<Option<Bytes>> {
        if let Some((session, layer, runtime, mut wanted)) = self.begin.take() {
            let (sender, receiver) = mpsc::channel(PIECES);
            let failure = self.failure.clone();
            runtime.spawn(async move {
                tokio::select! {
                    fetched = fetch(&session, &layer, &sender) => {
                        fetched.unwrap_or_else(|error| note(&failure, error));
                    }
                    // Nothing is ever sent there: its sender is gone.
                    _ = wanted.changed() => {}
                }
            });
            self.pieces = Some(receiver);
        }
        let Some(pieces) = &mut self.pieces else { return Ok(None) };
        match pieces.blocking_recv() {
            Some(Some(bytes)) => Ok(Some(bytes)),
            // It is whole.
            Some(None) => {
                self.pieces = None;
                Ok(None)
            }
            None => Err(source_failed(io::ErrorKind::ConnectionAborted.into())),
        }
    }
}

fn note(failure: &Mutex<Option<ImageError>>, error: ImageError) {
    if let Ok(mut failure) = failure.lock() {
        failure.get_or_insert(error);
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.more()? {
                Some(bytes) => {
                    (self.count)(bytes.len() as u64);
                    self.current = bytes;
                }
                None => return Ok(0),
            }
        }
        let count = self.current.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

/// Fetches a layer, again from where it broke off if need be.
async fn fetch(
    session: &Session,
    layer: &Descriptor,
    pieces: &mpsc::Sender<Option<Bytes>>,
) -> Result<(), ImageError> {
    let mut done = 0;
    let mut tries = 0;
    while done < layer.size || layer.size == 0 {
        let before = done;
        let broken = match session.layer(&layer.digest, done).await {
            Ok((answer, begins)) => {
                let mut body = answer.body;
                let mut at = begins;
                loop {
                    let data = match next(&mut body).await {
                        Ok(Some(data)) => data,
                        Ok(None) => break "it ended too early".to_owned(),
                        Err(reason) => break reason,
                    };
                    let end = at + data.len() as u64;
                    // What came before the connection broke is not taken twice.
                    let known = usize::try_from(done.saturating_sub(at)).unwrap_or(usize::MAX);
                    at = end;
                    if end > layer.size {
                        return Err(too_long(session, layer));
                    }
                    if known < data.len() {
                        done = end;
                        if pieces.send(Some(data.slice(known..))).await.is_err() {
                            // Nobody wants it any more.
                            return Ok(());
                        }
                    }
                    if done == layer.size {
                        break String::new();
                    }
                }
            }
            Err(error @ ImageError::Unreachable { .. }) if tries + 1 >= TRIES => return Err(error),
            Err(ImageError::Unreachable { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        if done == layer.size {
            break;
        }
        tries = if done > before { 1 } else { tries + 1 };
        if tries >= TRIES {
            return Err(session.unreachable(broken));
        }
        pause(BACK_OFF * 2_u32.pow(tries - 1)).await;
    }
    pieces.send(None).await.ok();
    Ok(())
}

fn too_long(session: &Session, layer: &Descriptor) -> ImageError {
    let reason = format!(
        "layer {} from {} is longer than the {} bytes that its manifest says",
        layer.digest, session.registry, layer.size
    );
    ImageError::Damaged { reason }
}
