//! Time, as the engine knows it: the one place where it is read and waited for.

use atoll_api::time::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;

/// Where the engine has its time from.
///
/// Times of a lifecycle are the wall clock's, since they hold across restarts; a
/// host whose clock is set forward ends its leases early.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Waits until [`Clock::now`] is `at` or later. Dropping it loses nothing.
    fn wait_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Waits until it is `at` or later, or for ever if there is no such time. Dropping it loses nothing.
pub(crate) async fn wait_until(clock: &dyn Clock, at: Option<Timestamp>) {
    match at {
        Some(at) => clock.wait_until(at).await,
        None => std::future::pending().await,
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Longest wait before the wall clock is looked at again: it may be set, and a
/// machine may sleep, which a wait does not see.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        jiff::Timestamp::now().into()
    }

    fn wait_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                let rest = at.since(self.now());
                if rest.is_zero() {
                    return;
                }
                #[expect(clippy::disallowed_methods, reason = "this is the clock")]
                tokio::time::sleep(rest.min(LOOK_AGAIN)).await;
            }
        })
    }
}

/// A clock that stands still until it is moved, for tests of this crate and others.
#[derive(Debug)]
pub struct ManualClock {
    face: watch::Sender<Face>,
}

#[derive(Debug)]
struct Face {
    now: Timestamp,
    /// The times that are waited for.
    awaited: Vec<Timestamp>,
}

impl Default for ManualClock {
    fn default() -> Self {
        let now = Timestamp::from_unix_us(1_800_000_000_000_000).expect("a time in 2027");
        Self { face: watch::Sender::new(Face { now, awaited: Vec::new() }) }
    }
}

impl ManualClock {
    /// Moves the clock; those who wait for a time that is reached go on.
    pub fn advance(&self, span: Duration) {
        self.face.send_modify(|face| face.now = face.now.after(span));
    }

    /// Waits until somebody waits for the time that is `span` from now, so that a test
    /// does not move the clock before the engine has looked at it.
    pub async fn awaited(&self, span: Duration) {
        let mut face = self.face.subscribe();
        let is_awaited = |face: &Face| face.awaited.contains(&face.now.after(span));
        face.wait_for(is_awaited).await.expect("the sender is borrowed");
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.face.borrow().now
    }

    fn wait_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut face = self.face.subscribe();
            self.face.send_modify(|face| face.awaited.push(at));
            let _waiting = Waiting { clock: self, at };
            face.wait_for(|face| face.now >= at).await.expect("the sender is borrowed");
        })
    }
}

/// Takes a time back when nobody waits for it any more.
struct Waiting<'a> {
    clock: &'a ManualClock,
    at: Timestamp,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.clock.face.send_modify(|face| {
            let place = face.awaited.iter().position(|&at| at == self.at);
            face.awaited.swap_remove(place.expect("it was put there"));
        });
    }
}
