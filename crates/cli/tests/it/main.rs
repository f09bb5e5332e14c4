//! The program from outside. One test binary: a module per subject.

#[cfg(test)]
mod doctor;
#[cfg(test)]
mod gateway;
// The attribute tells clippy that helpers are tests too.
#[cfg(test)]
mod manual;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod program;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod review;
#[cfg(test)]
mod run;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod supervise;

#[cfg(test)]
use atoll_testkit::run::{Project, User};

/// Runs `test` with an empty project for each user there can be.
#[cfg(test)]
fn each(mut test: impl FnMut(&Project)) {
    for user in User::all() {
        test(&Project::new(user, env!("CARGO_BIN_EXE_atoll")));
    }
}
