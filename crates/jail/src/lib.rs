//! Plans a jail (pure: spec to steps) and applies it.

pub mod cgroup;
pub mod features;
pub mod judge;
