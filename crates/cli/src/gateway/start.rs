//! Starting a gateway, and ending it.

use super::host;
use super::role::ROLE;
use crate::env;
use crate::error::CliError;
use atoll_api::policy::UpstreamProxy;
use atoll_egress::control::{AskError, Order, Starter};
use atoll_engine::gateway::Program;
use std::os::fd::BorrowedFd;
use std::process::{Child, Command};

/// A gateway, which ends with this.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// `None` when it is about to end.
    starter: Option<Starter>,
    child: Child,
}

/// What starts it: this very program, also after an update has put another one in its place.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(ROLE).env_clear().current_dir("/");
    if let Some(path) = env::SSL_CERT_FILE.path() {
        command.env(env::SSL_CERT_FILE.name, path);
    }
    command
}

/// How a server starts one, and what it is told first: to go through `proxy`, if there is one.
///
/// # Errors
///
/// The user named DNS servers that are none.
pub(crate) fn program(proxy: Option<UpstreamProxy>) -> Result<Program, CliError> {
    host::resolver()?;
    let begin = move || {
        // It was understood a moment ago, and the environment is as it was.
        let resolver = host::resolver().unwrap_or_default();
        vec![Order::Resolve(resolver), Order::Reach(host::via(proxy.as_ref()))]
    };
    Ok(Program { command: Box::new(command), begin: Box::new(begin) })
}

impl Gateway {
    /// Starts one in the caller's own network. It tells when it is ready, and again whenever it
    /// had to be started again; until it is told everything then, it serves nobody.
    ///
    /// # Errors
    ///
    /// The program could not be run.
    pub(crate) fn start() -> Result<Self, AskError> {
        let (starter, child) = Starter::spawn(command()).map_err(AskError::Io)?;
        Ok(Self { starter: Some(starter), child })
    }

    /// One that is told everything by the test that has the other end.
    #[cfg(test)]
    pub(super) fn of(starter: Starter) -> Self {
        let child = Command::new("true").spawn().unwrap();
        Self { starter: Some(starter), child }
    }

    /// Gives it an order.
    ///
    /// # Errors
    ///
    /// As [`Starter::order`].
    pub(crate) fn order(
        &self,
        order: &Order,
        listeners: &[BorrowedFd<'_>],
    ) -> Result<(), AskError> {
        self.starter().order(order, listeners)
    }

    /// The socket that it tells on.
    pub(crate) fn starter(&self) -> &Starter {
        self.starter.as_ref().expect("it is there until the end")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It ends when nobody holds the other end of its socket. What it does then is nobody's
        // any more, so it is not waited for; and killed first, it is not started again.
        self.child.kill().ok();
        drop(self.starter.take());
        self.child.wait().ok();
    }
}
