//! Plans a jail (pure: spec to steps) and applies it.

pub mod apply;
pub mod cgroup;
pub mod confine;
pub mod enclose;
pub mod enter;
pub mod features;
pub mod host;
pub mod judge;
mod listing;
pub mod mountinfo;
pub mod overlay;
pub mod paths;
pub mod plan;
pub mod root;
pub mod seccomp;
pub mod spec;
pub mod tell;
#[cfg(test)]
mod testing;
pub mod tree;
