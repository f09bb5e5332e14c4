//! The policy of one command: finds the project and the policy files, reads them,
//! looks their paths up on this machine and merges them.
//!
//! A command flattens [`PolicyFlags`] into its arguments and calls [`load()`], which gives
//! [`load::Loaded`]: the policy in force, its warnings, and the project, held by
//! descriptor. What is hidden in the project is asked of
//! [`load::Loaded::scan_hidden`].

mod flags;
mod home;
pub(crate) mod ignore;
pub(crate) mod load;
pub(crate) mod network;
pub(crate) mod presets;
pub(crate) mod project;
mod read;
pub(crate) mod show;

pub(crate) use flags::PolicyFlags;
pub(crate) use load::load;
