//! `atoll run` from outside, by root and by an ordinary user.

mod basics;
mod hidden;
mod masks;

use atoll_testkit::run::{Project, User};

/// Runs `test` with an empty project for each user there can be.
fn each(test: impl Fn(&Project)) {
    for user in User::all() {
        test(&Project::new(user, env!("CARGO_BIN_EXE_atoll")));
    }
}
