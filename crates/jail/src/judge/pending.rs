//! Opens that would block, tried again until they no longer do.

use std::num::NonZeroU32;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use atoll_sys::notify::{Listener, Notification};
use rustix::io::Errno;

use super::caller::{Caller, Signals};
use super::footing::Footing;
use super::open::{Waiting, is_program};
use super::reply::reply;
use super::state::Answer;

/// How often an open that would block is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(5);
/// Opens that wait at the same time; each holds two descriptors.
pub(super) const MAX_WAITING: usize = 256;

/// An open that waits.
pub(super) struct Pending {
    pub(super) id: u64,
    thread: NonZeroU32,
    cloexec: bool,
    waiting: Waiting,
    next: Instant,
}

impl Pending {
    pub(super) fn new(
        notification: &Notification,
        thread: NonZeroU32,
        waiting: Waiting,
        cloexec: bool,
    ) -> Self {
        Self { id: notification.id, thread, cloexec, waiting, next: Instant::now() }
    }
}

/// Tries again what would block, and wakes callers that a signal waits for.
pub(super) fn retry(pending: &mut Vec<Pending>, footing: &Footing, listener: &mut Listener) {
    if pending.is_empty() {
        return;
    }
    let now = Instant::now();
    let mut kept = Vec::with_capacity(pending.len());
    for mut waiting in std::mem::take(pending) {
        if waiting.next > now {
            kept.push(waiting);
            continue;
        }
        let caller = Caller { footing, listener, id: waiting.id, thread: waiting.thread };
        if !caller.is_waiting() {
            continue;
        }
        let interrupted = || caller.signals().is_ok_and(Signals::would_interrupt);
        let answer = match waiting.waiting.attempt(footing) {
            Ok(Some(file)) => Ok(file),
            Ok(None) if interrupted() => Err(Errno::INTR),
            Ok(None) => {
                waiting.next = now + RETRY;
                kept.push(waiting);
                continue;
            }
            Err(error) => Err(error),
        };
        let answer = answer.map(|file| Answer::File {
            is_program: is_program(file.as_fd(), waiting.waiting.flags()),
            file,
            cloexec: waiting.cloexec,
        });
        reply(listener, waiting.id, answer);
    }
    *pending = kept;
}
