//! The process that makes sandboxes: this program once more, in another role.
//!
//! It is started through procfs, so that it is this very program, also after an update
//! has put another one in its place.

use crate::error::EXIT_OURS;
use crate::status::Status;
use std::process::Command;

/// The word that asks for the role.
pub(crate) const ROLE: &str = "__spawner";

/// What starts it.
pub(super) fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    // What makes sandboxes has nothing that could get into one.
    command.arg(ROLE).env_clear().current_dir("/");
    command
}

/// Is it, until its server is gone.
pub(crate) fn run() -> Status {
    // Nobody is there to tell; the server sees that nothing answers.
    match atoll_spawner::resident::from_standard_input() {
        Ok(()) => Status::SUCCESS,
        Err(_) => Status::from(EXIT_OURS),
    }
}
