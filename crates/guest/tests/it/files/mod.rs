//! What is asked about files, over a socket, of a worker that has a directory as
//! the sandbox's root.

mod archive;
mod client;
mod edit;
mod hostile;
mod large;
mod listing;
mod model;
mod names;
mod race;
mod remove;
mod search;
mod watch;
mod write;

use atoll_testkit::run::again_as_ordinary;
use atoll_testkit::skip::skip;
pub(crate) use client::Sandbox;

/// Runs a test as it is, and if that is as root, once more as an ordinary user.
/// `name` is that of the test in this program.
pub(crate) fn each(name: &str, test: impl FnOnce()) {
    test();
    if rustix::process::geteuid().is_root() {
        again_as_ordinary(name);
    } else if std::env::var_os("HOME").is_none_or(|home| home != "/nonexistent") {
        skip("as-root", "run by an ordinary user");
    }
}
