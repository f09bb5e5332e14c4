//! A process for one connection, which may wait and may fail alone.

use super::connection::Connection;
use super::launch::Walls;
use super::ports;
use crate::channel::Channel;
use crate::files::{self, Root};
use atoll_protocol::frame::{Decoder, Kind};
use atoll_protocol::ports::Wait;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Reply, Request};
use atoll_sys::clone::{Fork, fork_into};
use atoll_sys::process::{self, SignalSet};
use rustix::event::Timespec;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// What a worker does.
pub(super) enum Work {
    Request(Request),
    /// Connects to a port that does not answer at once.
    Connect {
        port: u16,
    },
    /// Waits for a port, as which sockets of ours with these inodes do not count.
    WaitForPort {
        wait: Wait,
        own: Vec<u64>,
    },
}

/// How often is looked for a port that is waited for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Starts a worker for `connection`, behind the walls of every command; gives its
/// process.
pub(super) fn start(
    connection: &mut Connection,
    work: Work,
    walls: &mut dyn Walls,
) -> io::Result<i32> {
    let fd = rustix::io::fcntl_dupfd_cloexec(connection.as_fd(), 3)?;
    let decoder = std::mem::take(&mut connection.decoder);
    match fork_into(0, None)? {
        Fork::Parent { pid, .. } => Ok(pid),
        Fork::Child => {
            let done = be_worker(fd, decoder, work, walls);
            process::exit_now(i32::from(done.is_err()))
        }
    }
}

fn be_worker(fd: OwnedFd, decoder: Decoder, work: Work, walls: &mut dyn Walls) -> io::Result<()> {
    process::set_signal_mask(SignalSet::default())?;
    // Some of the descriptors that are closed then may be the walls' own.
    let raised = walls.raise_around_worker();
    let fd = keep_only(fd)?;
    rustix::io::ioctl_fionbio(&fd, false)?;
    let mut channel = Channel::new(fd, decoder);
    if let Err(failure) = raised {
        return channel.send_problem(&Problem::new(Code::Failed, failure.text));
    }
    match work {
        Work::Connect { port } => connect(&mut channel, port),
        Work::WaitForPort { wait, own } => wait_for_port(&mut channel, &wait, &own),
        Work::Request(request) => {
            let root = Root::of_process()?;
            // Whatever came of it, the host has been told or is gone.
            files::serve(request, &mut channel, &root);
            Ok(())
        }
    }
}

/// Closes every descriptor but the connection: through a copy of ours another
/// connection would stay open.
fn keep_only(fd: OwnedFd) -> io::Result<OwnedFd> {
    const FIRST: u32 = 3;
    atoll_sys::fd::make_standard(fd.as_fd(), 0)?;
    atoll_sys::fd::close_from(FIRST)?;
    // Its number is closed, or will be another's.
    std::mem::forget(fd);
    let fd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    crate::init::leave_standard_descriptors();
    Ok(fd)
}

fn connect(channel: &mut Channel, port: u16) -> io::Result<()> {
    match ports::connect_and_wait(port) {
        Ok(socket) => channel.send_with(Kind::Reply, &Reply::Connected, socket.as_fd()),
        Err(problem) => channel.send_problem(&problem),
    }
}

/// Looks until something listens, the time is over or nobody waits any more.
fn wait_for_port(channel: &mut Channel, wait: &Wait, own: &[u64]) -> io::Result<()> {
    let deadline = Instant::now().checked_add(Duration::from_millis(wait.timeout_ms));
    loop {
        match ports::listening(own) {
            Ok(found) if found.iter().any(|one| one.port == wait.port) => {
                return channel.send(Kind::Reply, &Reply::Done);
            }
            Ok(_) => {}
            Err(problem) => return channel.send_problem(&problem),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let text =
                format!("nothing listens on port {} after {} ms", wait.port, wait.timeout_ms);
            return channel.send_problem(&Problem::new(Code::TimedOut, text));
        }
        // The kernel tells nobody of a new listener.
        if channel.waits_for_end(&LOOK)? {
            return Ok(());
        }
    }
}
