//! Helpers for tests; never linked into a program that ships.

pub mod clock;
pub mod guest;
pub mod image;
pub mod internet;
pub mod liar;
pub mod object_store;
pub mod picture;
pub mod process;
pub mod proxy;
pub mod pty;
pub mod registry;
pub mod run;
pub mod skip;
pub mod stand_in;
