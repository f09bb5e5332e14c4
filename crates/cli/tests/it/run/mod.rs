//! `atoll run` from outside, by root and by an ordinary user.

mod basics;
mod descriptors;
mod devices;
mod environment;
mod files_links;
mod files_names;
mod files_odd;
mod files_repositories;
mod files_review;
mod hidden;
mod kernel;
mod masks;
mod namespaces;
mod network;
mod probe;
mod procfs;
mod secrets;

use atoll_testkit::run::{Project, User};
use atoll_testkit::skip::is_installed;

/// Runs `test` with an empty project for each user there can be.
fn each(test: impl Fn(&Project)) {
    for user in User::all() {
        test(&Project::new(user, env!("CARGO_BIN_EXE_atoll")));
    }
}
