//! The jail on a real kernel.

// The attribute tells clippy that helpers are tests too.
#[cfg(test)]
mod cgroup;
#[cfg(test)]
mod judge;
