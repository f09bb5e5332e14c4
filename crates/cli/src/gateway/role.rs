//! What the gateway's processes do, until who started it is gone.
//!
//! There are two: one serves, enclosed; the other one does nothing but start it again if it is
//! killed. Who started them may be in another network by then, and could not.

use super::host;
use crate::error::EXIT_OURS;
use crate::status::Status;
use atoll_egress::gateway::{self, Setup};
use atoll_sys::clone::{Fork, fork_into};
use atoll_sys::process::{End, exit_now, wait_for};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;

/// The word that asks for the role.
pub(crate) const ROLE: &str = "__gateway";

/// How often it is started again. What is killed as often as that has a reason that another start
/// does not remove, and then nothing is reached.
const STARTS_MAX: u32 = 100;

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
    for _ in 0..STARTS_MAX {
        match fork_into(0, None)? {
            Fork::Child => exit_now(match serve(control) {
                Ok(()) => 0,
                Err(_) => EXIT_OURS.into(),
            }),
            Fork::Parent { pid, .. } => match wait_for(pid)?.end {
                End::Exited(0) => return Ok(()),
                End::Exited(_) => break,
                End::Signalled(_) | End::Stopped(_) => {}
            },
        }
    }
    Err(io::Error::other("it ends again and again"))
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
