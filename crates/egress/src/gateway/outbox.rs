//! What is to be told to who started the gateway.

use crate::control::{BYTES_MAX, Told};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How much may wait to be told. What tells of refusals is dropped beyond it.
const WAITING_MAX: usize = 4096;

/// The same for what tells of secrets, which is dropped last: it comes as often as requests do for
/// who reaches ever more, so that somebody who does not listen would fill the memory. All else is
/// bounded by other means.
const SECRETS_WAITING_MAX: usize = 16 * WAITING_MAX;

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
        let most = match told {
            Told::Denied { .. } | Told::Reached { .. } => WAITING_MAX,
            Told::Used { .. } | Told::Redacted { .. } => SECRETS_WAITING_MAX,
            _ => usize::MAX,
        };
        if self.waiting.load(Ordering::Relaxed) >= most {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_does_not_listen_misses_something_and_costs_nothing() {
        let (outbox, mut letters) = outbox();
        let host = || "a.test".to_owned();
        for _ in 0..2 * SECRETS_WAITING_MAX {
            outbox.tell(Told::Reached { sandbox: 1, host: host(), port: 443 });
            let secret = "TOKEN".to_owned();
            outbox.tell(Told::Used { sandbox: 1, secret, host: host(), port: 443, count: 1 });
        }
        assert_eq!(outbox.waiting.load(Ordering::Relaxed), SECRETS_WAITING_MAX);
        // Answers to orders always come.
        outbox.tell(Told::Added { sandbox: 2 });
        let mut last = None;
        for _ in 0..=SECRETS_WAITING_MAX {
            last = letters.next().await;
        }
        assert_eq!(last.as_deref(), Some(&br#"{"added":{"sandbox":2}}"#[..]));
        assert_eq!(outbox.waiting.load(Ordering::Relaxed), 0);
    }
}
