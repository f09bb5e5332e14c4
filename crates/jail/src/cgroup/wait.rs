//! Waiting for processes to leave a group, by descriptors that tell.

use super::files::keyed;
use super::group::{CgroupError, Node};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use rustix::process::{PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often to look again when nothing tells: v1 has no event for the moment
/// between the death of the last process and its release of the group.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Processes waited for at once.
const WATCHED_MAX: usize = 128;

/// A point in time, with the wait that led to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    end: Instant,
    allowed: Duration,
}

impl Deadline {
    pub(super) fn after(allowed: Duration) -> Self {
        Self { end: Instant::now() + allowed, allowed }
    }

    pub(super) fn has_passed(&self) -> bool {
        self.left().is_zero()
    }

    pub(super) const fn allowed(&self) -> Duration {
        self.allowed
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Waits until `node` has lost a process, or until the deadline.
pub(super) fn until_fewer(node: &Node, deadline: &Deadline) -> Result<(), CgroupError> {
    if node.v1.is_none() {
        return match until_event(node, "populated", 0, deadline) {
            // Unpopulated and still busy: the kernel is about to let go.
            Ok(()) => idle(node, deadline),
            Err(CgroupError::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        };
    }
    let watched: Vec<OwnedFd> = node
        .tasks()?
        .into_iter()
        .take(WATCHED_MAX)
        .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .collect();
    if watched.is_empty() {
        return idle(node, deadline);
    }
    let mut watched: Vec<_> =
        watched.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
    wait(node, &mut watched, deadline.left())
}

/// Waits until the line `key` of `cgroup.events` is `value`.
///
/// Source: cgroup-v2.rst: a change of the file raises `POLLPRI`.
pub(super) fn until_event(
    node: &Node,
    key: &str,
    value: u64,
    deadline: &Deadline,
) -> Result<(), CgroupError> {
    let path = || node.path.join("cgroup.events");
    let read_error = |error: Errno| CgroupError::Read { path: path(), source: error.into() };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&node.dir, "cgroup.events", flags, Mode::empty()).map_err(read_error)?;
    loop {
        let mut text = [0; 256];
        let count = pread(&file, &mut text, 0).map_err(read_error)?;
        let text = String::from_utf8_lossy(text.get(..count).unwrap_or_default());
        if keyed(&text, key) == Some(value) {
            return Ok(());
        }
        if deadline.has_passed() {
            let waited = deadline.allowed();
            return Err(CgroupError::Busy { path: node.path.clone(), waited });
        }
        wait(node, &mut [PollFd::new(&file, PollFlags::PRI)], deadline.left())?;
    }
}

fn idle(node: &Node, deadline: &Deadline) -> Result<(), CgroupError> {
    wait(node, &mut [], deadline.left().min(LOOK_AGAIN))
}

fn wait(node: &Node, watched: &mut [PollFd<'_>], time: Duration) -> Result<(), CgroupError> {
    let time = Timespec::try_from(time).ok();
    match poll(watched, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(CgroupError::Wait { path: node.path.clone(), source: error.into() }),
    }
}
