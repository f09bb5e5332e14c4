//! The gateway as a process: one thread that serves all sandboxes of whoever started it.
//!
//! | to know | read |
//! |---|---|
//! | what it is told, and what it tells | [`crate::control`] |
//! | how orders are carried out | `orders` |
//! | what is known of a sandbox | `sandbox` |
//! | how connections and questions come in | `listen`, `names` |
//! | what becomes of a connection | `connection`, `proxy` |
//! | what becomes of a request, and which secrets go along | `session`, `bindings` |
//! | how a person is asked | `approvals` |
//! | what is refused, and how it is told | `refusal`, `explain`, `denials` |
//! | how much was used, and which secrets | `counts`, `uses` |
//! | what leads programs inside here | `inside`, `addresses` |
//!
//! Nothing of a sandbox's is trusted: not the address that it sends from, nor what it says about
//! itself. Which sandbox it is, is told by the listener that a connection came to.

mod addresses;
mod approvals;
mod bindings;
mod connection;
mod counts;
mod denials;
mod explain;
mod inside;
mod listen;
mod names;
mod orders;
mod outbox;
mod proxy;
mod refusal;
mod sandbox;
mod session;
mod uses;

pub use addresses::{DNS, EXPLAIN, LISTENER_PORT, OWN, OWN_6, PROXY_PORT, STAND_INS};
pub use inside::{ports, proxy_variables};

use std::io;
use std::os::fd::OwnedFd;
use tokio::runtime::LocalOptions;

/// What the process has before it is put into its jail.
#[derive(Debug)]
pub struct Setup {
    /// The other end of a [`crate::control::Starter`].
    pub control: OwnedFd,
    /// Certificates of the authorities that hosts are to be known by, in PEM.
    pub roots: Vec<u8>,
}

/// Serves until nobody holds the other end of the control socket any more. `confine` puts the
/// process into its jail, when all is there that needs more.
///
/// # Errors
///
/// The runtime could not be made, or what `confine` gives.
pub fn run(setup: Setup, confine: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // Not a set of local tasks in another runtime: each wake-up of one of those by a socket is a
    // system call more.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default())?;
    // In a static program the library reads random bytes from a file, which it keeps open.
    getrandom::fill(&mut [0]).map_err(io::Error::other)?;
    // Nor is there a way to make a timer from within.
    let acceptor = atoll_sys::accept::Acceptor::new()?;
    confine()?;
    runtime.block_on(orders::serve(setup, acceptor))
}
