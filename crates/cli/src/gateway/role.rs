//! What the gateway's processes do, until who started it is gone.
//!
//! There are two: one serves, enclosed; the other one does nothing but start it again if it is
//! killed. Who started them may be in another network by then, and could not.

use super::host;
use super::restarts::Restarts;
use crate::error::EXIT_OURS;
use crate::status::Status;
use atoll_egress::gateway::{self, Setup};
use atoll_sys::clone::{Fork, fork_into};
use atoll_sys::process::{End, exit_now, wait_for};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The word that asks for the role.
pub(crate) const ROLE: &str = "__gateway";

/// Is it.
pub(crate) fn run() -> Status {
    match keep() {
        Ok(()) => Status::SUCCESS,
        // Nobody is there to tell; who started it sees that it has ended.
        Err(_) => Status::from(EXIT_OURS),
    }
}

/// Has it served until it ends by itself.
fn keep() -> io::Result<()> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    atoll_guest::init::leave_standard_descriptors();
    let mut restarts = Restarts::default();
    loop {
        match fork_into(0, None)? {
            Fork::Child => exit_now(match serve(control) {
                Ok(()) => 0,
                Err(_) => EXIT_OURS.into(),
            }),
            Fork::Parent { pid, .. } => match wait_for(pid)?.end {
                End::Exited(0) => return Ok(()),
                End::Exited(_) => return Err(io::Error::other("it cannot serve")),
                End::Signalled(_) | End::Stopped(_) => {
                    if is_gone_within(&control, restarts.ended(Instant::now()))? {
                        return Ok(());
                    }
                }
            },
        }
    }
}

/// Whether who started it goes away in that time.
fn is_gone_within(control: &OwnedFd, time: Duration) -> io::Result<bool> {
    let until = Instant::now() + time;
    loop {
        // Orders that wait are the next one's.
        let mut end = [PollFd::new(control, PollFlags::empty())];
        let left = until.saturating_duration_since(Instant::now());
        match poll(&mut end, Timespec::try_from(left).ok().as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn serve(control: OwnedFd) -> io::Result<()> {
    // Nobody is to be served by what nobody keeps.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"atoll-gateway").ok();
    // A connection takes two, and its sandbox may have a thousand of them.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    let setup = Setup { control, roots: host::roots() };
    gateway::run(setup, || atoll_jail::enclose::enclose().map_err(io::Error::other))
}
