//! The resident process: waits for orders and forks a maker for each.

use crate::maker;
use crate::order::{BYTES_MAX, Order};
use atoll_guest::workload::now_us;
use atoll_sys::clone::{Fork, fork_into};
use atoll_sys::process::{self, SignalSet};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// [`run`] with standard input as the socket, as [`crate::client::Spawner::start`]
/// gives it; the standard descriptors lead nowhere from then on. What standard output
/// was stays open until this process and all makers have ended.
///
/// # Errors
///
/// As [`run`].
pub fn from_standard_input() -> io::Result<()> {
    let orders = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let held = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    atoll_guest::init::leave_standard_descriptors();
    let ended = run(&orders);
    drop(held);
    ended
}

/// Lives as the resident process of the server at the other end of `orders`, a
/// socket of datagrams, and returns when that is gone. The process must have
/// one thread.
///
/// # Errors
///
/// Out of descriptors or memory at the start.
pub fn run(orders: &OwnedFd) -> io::Result<()> {
    // A guest's ids and modes are as they are said, whatever started the server.
    process::set_signal_mask(SignalSet::ALL)?;
    let signals = process::signal_descriptor(SignalSet::ALL)?;
    let mut buffer = vec![0; BYTES_MAX];
    maker::prepare();
    loop {
        let mut waiting =
            [PollFd::new(orders, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        if poll(&mut waiting, None).is_err() {
            continue;
        }
        let (has_order, has_signal) =
            (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if has_signal {
            while let Ok(Some(_)) = process::read_signal(signals.as_fd()) {}
            while let Ok(Some(_)) = process::collect(-1) {}
        }
        if !has_order {
            continue;
        }
        match atoll_sys::scm::receive(orders.as_fd(), &mut buffer) {
            Ok((length, Some(reply))) => obey(&buffer[..length], &reply),
            // An order that nobody waits for is none.
            Ok((1.., None)) => {}
            Ok((0, None)) | Err(_) => return Ok(()),
        }
    }
}

/// Forks a maker for an order. Where that fails the server sees that no answer
/// comes, for the other end of `reply` is closed.
fn obey(bytes: &[u8], reply: &OwnedFd) {
    let begun_us = now_us();
    if let Ok(Fork::Child) = fork_into(0, None) {
        // Only our server writes here; it is of another version, if it is ill.
        if let Ok(order) = serde_json::from_slice::<Order>(bytes) {
            maker::make(&order, reply, begun_us);
        }
        process::exit_now(0);
    }
}
