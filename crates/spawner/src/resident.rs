//! The resident process: has a maker for each order, forked before it comes.

use crate::maker;
use crate::order::{BYTES_MAX, Order};
use crate::pool::{Pool, Waiting};
use atoll_guest::workload::now_us;
use atoll_sys::clone::{Fork, fork_into};
use atoll_sys::process::{self, SignalSet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};
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
/// A maker waits for the next order, so that an order does not wait for a fork; whoever
/// takes one says so, and another one waits.
///
/// # Errors
///
/// Out of descriptors or memory at the start.
pub fn run(orders: &OwnedFd) -> io::Result<()> {
    // A guest's ids and modes are as they are said, whatever started the server.
    process::set_signal_mask(SignalSet::ALL)?;
    let signals = process::signal_descriptor(SignalSet::ALL)?;
    let (taken, takes) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    maker::prepare();
    let mut pool = Pool::new()?;
    let mut waiting = wait_for_order(orders, &takes, &mut pool);
    loop {
        // While nobody waits, an order that comes is ours to see.
        let at_orders = if waiting.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut sources = [
            PollFd::new(orders, at_orders),
            PollFd::new(&taken, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
        ];
        if poll(&mut sources, None).is_err() {
            continue;
        }
        let [at_orders, _, at_signals] = sources.map(|source| source.revents());
        if at_orders.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(());
        }
        let mut is_quiet = false;
        if !at_signals.is_empty() {
            while let Ok(Some(_)) = process::read_signal(signals.as_fd()) {}
            while let Ok(Some(ended)) = process::collect(-1) {
                waiting = waiting.filter(|pid| *pid != ended.pid);
                pool.collected(ended.pid);
                is_quiet = true;
            }
        }
        // Who has ended has said before that it took one: it must not be read as the next
        // one's word.
        let mut said = [0; 16];
        if let Ok(length @ 1..) = rustix::io::read(&taken, &mut said) {
            waiting = None;
            if said[..length].contains(&WITH_CAPTURE) {
                pool.want();
            }
        }
        let is_ordered = waiting.is_none() && at_orders.contains(PollFlags::IN);
        // The next one is forked when an order has been carried out, so that it takes no
        // processor away from that; or when there is another order already.
        if waiting.is_none() && (is_quiet || is_ordered) {
            waiting = wait_for_order(orders, &takes, &mut pool);
        }
        if is_quiet && !is_ordered {
            pool.fill();
        }
        if waiting.is_none() && is_ordered {
            refuse(orders);
        }
    }
}

/// What a maker says when it has taken an order.
const WITHOUT_CAPTURE: u8 = 0;
const WITH_CAPTURE: u8 = 1;

/// Forks a maker that waits for an order; its process, unless there can be none.
fn wait_for_order(orders: &OwnedFd, takes: &OwnedFd, pool: &mut Pool) -> Option<i32> {
    let resident = rustix::process::getpid();
    match fork_into(0, None) {
        Ok(Fork::Child) => {
            take_order(orders, takes, pool.in_maker(), resident);
            process::exit_now(0)
        }
        Ok(Fork::Parent { pid, .. }) => Some(pid),
        Err(_) => None,
    }
}

/// The maker: takes one order, and carries it out.
fn take_order(orders: &OwnedFd, takes: &OwnedFd, pool: &Waiting, resident: Pid) {
    // Nobody would know of one that the resident process does not see take something.
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if bound.is_err() || rustix::process::getppid() != Some(resident) {
        return;
    }
    // Names are for people who look at processes.
    rustix::thread::set_name(c"atoll-maker").ok();
    let mut buffer = vec![0; BYTES_MAX];
    let received = atoll_sys::scm::receive_all(orders.as_fd(), &mut buffer);
    let begun_us = now_us();
    // What is made from here on outlives the resident process.
    if rustix::process::set_parent_process_death_signal(None).is_err() {
        return;
    }
    // Where this is not said, our end says it.
    let has_taken = |word| {
        rustix::io::write(takes, &[word]).ok();
    };
    // An order that nobody waits for is none; and only our server writes here: it is of
    // another version, if it is ill.
    if let Ok((length @ 1.., fds)) = received
        && let mut fds = fds.into_iter()
        && let Some(reply) = fds.next()
        && let Ok(mut order) = serde_json::from_slice::<Order>(&buffer[..length])
        && order.take_beside(fds.next()).is_ok()
    {
        let word = if order.capture.is_some() { WITH_CAPTURE } else { WITHOUT_CAPTURE };
        maker::make(&order, &reply, pool, begun_us, || has_taken(word));
    }
}

/// Takes an order that nobody can carry out. The server sees that no answer comes, for
/// the other end of the socket that came along is closed.
fn refuse(orders: &OwnedFd) {
    let mut buffer = vec![0; BYTES_MAX];
    drop(atoll_sys::scm::receive(orders.as_fd(), &mut buffer));
}
