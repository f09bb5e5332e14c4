//! The policy of one command: finds the project and the policy files, reads them,
//! looks their paths up on this machine and merges them.

mod flags;
mod home;
mod load;
mod project;
mod read;
pub(crate) mod show;
mod view;

pub(crate) use flags::PolicyFlags;
pub(crate) use load::{Loaded, load};
