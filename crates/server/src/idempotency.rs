//! Requests that are sent again: one idempotency key of one caller makes one sandbox.
//!
//! That a request came true is written down with the sandbox, in one step, and is known to
//! later servers for a day. A server that dies before has made nothing that stays, so that
//! the request makes it anew. A creation under a key is carried through also when its caller goes away, since the
//! caller will ask for it again. One that failed is forgotten, so that it can be tried again.

use crate::access::Caller;
use crate::app::App;
use crate::error::Failure;
use crate::upload::Fault;
use atoll_api::error::ErrorCode;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, Sandbox};
use atoll_api::time::Timestamp;
use atoll_engine::Beside;
use atoll_engine::records::{CameTrue, ONCE_KEPT_FOR, Once};
use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The header that carries a key.
pub(crate) const HEADER: &str = "idempotency-key";
/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 255;

/// A key, and whose it is, as a digest: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct IdempotencyKey(String);

impl IdempotencyKey {
    fn new(caller: Caller, text: &str) -> Self {
        let whose = match caller {
            Caller::Local { uid } => format!("user {uid}"),
            Caller::Key { id, .. } => format!("key {id}"),
        };
        Self(hex(Sha256::digest(format!("{whose} {text}"))))
    }

    /// The key of one of several sandboxes that are asked for together.
    pub(crate) fn numbered(&self, number: usize) -> Self {
        Self(hex(Sha256::digest(format!("{} {number}", self.0))))
    }

    /// Reads the key of a request, if it has one.
    pub(crate) fn of(caller: Caller, headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let Some(value) = headers.get(HEADER) else { return Ok(None) };
        let is_plain = |b: &u8| b.is_ascii_graphic();
        match value.to_str() {
            Ok(text)
                if (1..=KEY_BYTES_MAX).contains(&text.len())
                    && text.as_bytes().iter().all(is_plain) =>
            {
                Ok(Some(Self::new(caller, text)))
            }
            _ => Err(Failure::field(
                "Idempotency-Key",
                format!("an idempotency key has 1 to {KEY_BYTES_MAX} printable characters"),
            )),
        }
    }
}

fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What tells one request from others. What comes behind it is not looked at.
fn digest(request: &CreateSandbox) -> String {
    let text = serde_json::to_vec(request).expect("a request has string keys only");
    hex(Sha256::digest(text))
}

type Outcome = Option<Result<SandboxId, Failure>>;

#[derive(Clone)]
struct Entry {
    digest: String,
    at: Timestamp,
    outcome: watch::Receiver<Outcome>,
}

/// What was asked for under which key.
pub(crate) struct Remembered {
    keys_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<IdempotencyKey, Entry>,
    /// The oldest first; keys that were forgotten meanwhile are in it too.
    order: VecDeque<IdempotencyKey>,
}

/// What a key comes to.
enum Claim {
    /// It is new: whoever got this makes the sandbox.
    New(watch::Sender<Outcome>, watch::Receiver<Outcome>),
    /// It was used before.
    Known(watch::Receiver<Outcome>),
}

/// A sandbox, and whether it was made by an earlier request.
pub(crate) struct Created {
    pub(crate) sandbox: Sandbox,
    pub(crate) is_replayed: bool,
}

impl Remembered {
    /// Begins with what came true before.
    pub(crate) fn new(keys_max: usize, before: &[CameTrue]) -> Self {
        let mut entries = Entries::default();
        for CameTrue { once, id, at } in &before[before.len().saturating_sub(keys_max)..] {
            let key = IdempotencyKey(once.key.clone());
            let outcome = watch::Sender::new(Some(Ok(*id))).subscribe();
            entries.put(key, Entry { digest: once.digest.clone(), at: *at, outcome });
        }
        Self { keys_max, entries: Mutex::new(entries) }
    }

    fn claim(&self, key: &IdempotencyKey, digest: &str, now: Timestamp) -> Result<Claim, Failure> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.drop_old(now);
        if let Some(entry) = entries.by_key.get(key) {
            if entry.digest != digest {
                let message = "another request was sent under this idempotency key";
                let next_step = "choose another key, or send what was sent before";
                let mut failure = Failure::new(ErrorCode::Conflict, message, next_step);
                failure.error.details.field = Some("Idempotency-Key".to_owned());
                return Err(failure);
            }
            return Ok(Claim::Known(entry.outcome.clone()));
        }
        entries.make_room(self.keys_max)?;
        let (sender, outcome) = watch::channel(None);
        let entry = Entry { digest: digest.to_owned(), at: now, outcome: outcome.clone() };
        entries.put(key.clone(), entry);
        Ok(Claim::New(sender, outcome))
    }

    fn forget(&self, key: &IdempotencyKey) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_key.remove(key);
        entries.order.retain(|other| other != key);
    }
}

impl Entries {
    fn put(&mut self, key: IdempotencyKey, entry: Entry) {
        self.by_key.insert(key.clone(), entry);
        self.order.push_back(key);
    }

    /// Forgets what is over and was asked for too long ago.
    fn drop_old(&mut self, now: Timestamp) {
        while let Some(key) = self.order.front() {
            let is_old = self.by_key.get(key).is_none_or(|entry| {
                now.since(entry.at) >= ONCE_KEPT_FOR && entry.outcome.borrow().is_some()
            });
            if !is_old {
                return;
            }
            if let Some(key) = self.order.pop_front() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Lets the oldest key go whose creation is over.
    fn make_room(&mut self, keys_max: usize) -> Result<(), Failure> {
        if self.order.len() < keys_max {
            return Ok(());
        }
        let is_over = |key: &IdempotencyKey| {
            self.by_key.get(key).is_none_or(|entry| entry.outcome.borrow().is_some())
        };
        let place = self.order.iter().position(is_over).ok_or_else(|| {
            let value = u64::try_from(keys_max).unwrap_or(u64::MAX);
            let message = "as many creations are under way as idempotency keys are remembered";
            Failure::limit(
                ErrorCode::Capacity,
                ("idempotency_keys_max", value),
                message,
                "ask again a little later",
            )
            .after_ms(1000)
        })?;
        if let Some(key) = self.order.remove(place) {
            self.by_key.remove(&key);
        }
        Ok(())
    }
}

/// Makes a sandbox, or gives the one that an earlier request under the same key made.
pub(crate) async fn create(
    app: &Arc<App>,
    key: IdempotencyKey,
    request: CreateSandbox,
    (mut beside, fault): (Beside, Fault),
) -> Result<Created, Failure> {
    let digest = digest(&request);
    let now = app.clock.now();
    let (mut outcome, is_replayed) = match app.remembered.claim(&key, &digest, now)? {
        Claim::Known(outcome) => (outcome, true),
        Claim::New(sender, outcome) => {
            let creator = app.clone();
            beside.once = Some(Once { key: key.0.clone(), digest });
            app.spawn(async move {
                let made = creator.create(request, beside).await;
                let made = made.map(|sandbox| sandbox.id).map_err(|error| fault.or(error));
                // Forgotten before it is told, so that who asks again makes it anew.
                if made.is_err() {
                    creator.remembered.forget(&key);
                }
                sender.send_replace(Some(made));
            });
            (outcome, false)
        }
    };
    let lost = || {
        let next_step = "look at the list of sandboxes before asking again";
        Failure::new(ErrorCode::Lost, "the server ended before the creation did", next_step)
            .took_effect(atoll_api::error::TookEffect::Unknown)
    };
    let id = {
        let told = outcome.wait_for(Option::is_some).await.map_err(|_| lost())?;
        told.clone().ok_or_else(lost)??
    };
    let sandbox = app.engine.get(id)?;
    Ok(Created { sandbox, is_replayed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey::new(Caller::Local { uid: 0 }, text)
    }

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn the_oldest_that_is_over_makes_room() {
        let remembered = Remembered::new(2, &[]);
        let new = |text| match remembered.claim(&key(text), "d", NOW).unwrap() {
            Claim::New(sender, _) => Some(sender),
            Claim::Known(_) => None,
        };
        let (_under_way, over) = (new("a").unwrap(), new("b").unwrap());
        let failure = remembered.claim(&key("c"), "d", NOW).err().unwrap();
        assert_eq!(failure.error.details.limit.as_deref(), Some("idempotency_keys_max"));
        over.send_replace(Some(Ok(SandboxId::from_random([0; 10]))));
        assert!(new("c").is_some());
        assert!(new("a").is_none(), "it is under way");
        assert_eq!(remembered.entries.lock().unwrap().order.len(), 2);
    }

    #[test]
    fn keys_of_other_callers_are_other_keys() {
        let remembered = Remembered::new(10, &[]);
        let other = IdempotencyKey::new(Caller::Local { uid: 1 }, "a");
        for key in [&key("a"), &other] {
            assert!(matches!(remembered.claim(key, "d", NOW), Ok(Claim::New(..))));
        }
    }

    #[test]
    fn what_came_true_is_known_for_a_day() {
        let id = SandboxId::from_random([1; 10]);
        let once = |n| Once { key: key(n).0, digest: "d".to_owned() };
        let before = ["a", "b", "c"].map(|n| CameTrue { once: once(n), id, at: NOW });
        let remembered = Remembered::new(2, &before);
        let claim = |text, digest, now| remembered.claim(&key(text), digest, now);
        assert!(matches!(claim("c", "d", NOW), Ok(Claim::Known(outcome))
            if outcome.borrow().clone().is_some_and(|made| made.is_ok_and(|made| made == id))));
        assert!(claim("c", "other", NOW).is_err());
        // More than are remembered are not, the oldest first.
        assert!(matches!(claim("a", "d", NOW), Ok(Claim::New(..))));
        assert!(matches!(claim("c", "other", NOW.after(ONCE_KEPT_FOR)), Ok(Claim::New(..))));
    }

    #[test]
    fn what_cannot_be_a_key() {
        let read = |value: &[u8]| {
            let value = axum::http::HeaderValue::from_bytes(value).unwrap();
            let headers =
                HeaderMap::from_iter([(axum::http::HeaderName::from_static(HEADER), value)]);
            IdempotencyKey::of(Caller::Local { uid: 0 }, &headers)
        };
        assert!(read(b"a-1").unwrap().is_some());
        assert!(read(&[b'a'; 255]).unwrap().is_some());
        for value in [&b""[..], b"a b", &[0xff], &[b'a'; 256]] {
            assert!(read(value).is_err(), "{value:?}");
        }
    }
}
