//! What the judge knows of git's files.

pub mod config;
pub(super) mod keys;
pub(super) mod layout;
pub(super) mod repository;
