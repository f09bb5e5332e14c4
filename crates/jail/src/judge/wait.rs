//! Waiting for calls.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use atoll_sys::notify::Listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::serve::ServeError;

/// Calls answered in one go, before whoever waits looks at its other business.
pub(super) const ANSWERED_AT_ONCE: usize = 64;

pub(super) enum Wake {
    Call,
    HungUp,
    Control,
    Time,
}

pub(super) fn wait(
    listener: &Listener,
    control: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<Wake, ServeError> {
    let timeout = timeout.map(|limit| Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let calls = PollFd::new(listener, PollFlags::IN);
    let mut both = [calls.clone(), calls];
    let polled = match &control {
        None => &mut both[..1],
        Some(control) => {
            both[1] = PollFd::new(control, PollFlags::IN);
            &mut both[..]
        }
    };
    match poll(polled, timeout.as_ref()) {
        Ok(0) => return Ok(Wake::Time),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Wake::Time),
        Err(source) => return Err(ServeError::Wait { source }),
    }
    if control.is_some() && !polled[1].revents().is_empty() {
        return Ok(Wake::Control);
    }
    let found = polled[0].revents();
    if found.contains(PollFlags::IN) {
        return Ok(Wake::Call);
    }
    Ok(if found.is_empty() { Wake::Time } else { Wake::HungUp })
}
