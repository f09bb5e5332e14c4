//! What is to be told to who started the gateway.

use crate::control::{BYTES_MAX, Told};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How much may wait to be told. What tells of refusals is dropped beyond it; all else is bounded
/// by other means.
const WAITING_MAX: usize = 4096;

/// Where messages are left.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    messages: UnboundedSender<Told>,
    waiting: Arc<AtomicUsize>,
}

/// Where they are taken from.
#[derive(Debug)]
pub(super) struct Letters {
    messages: UnboundedReceiver<Told>,
    waiting: Arc<AtomicUsize>,
}

/// A new one.
pub(super) fn outbox() -> (Outbox, Letters) {
    let (sender, receiver) = unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Outbox { messages: sender, waiting: waiting.clone() }, Letters { messages: receiver, waiting })
}

impl Outbox {
    /// Tells something.
    pub(super) fn tell(&self, told: Told) {
        let is_sparable = matches!(told, Told::Denied { .. } | Told::Reached { .. });
        if is_sparable && self.waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            return;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Nobody takes any more: then nobody is there, and we end.
        self.messages.send(told).ok();
    }
}

impl Letters {
    /// The next one, as it is sent.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let told = self.messages.recv().await?;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match serde_json::to_vec(&told) {
                Ok(bytes) if bytes.len() <= BYTES_MAX => return Some(bytes),
                // All of its parts are bounded, so that there is none.
                Ok(_) | Err(_) => {}
            }
        }
    }
}
