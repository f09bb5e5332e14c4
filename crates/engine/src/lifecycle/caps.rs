//! Caps: the most that a request may ask for.
//!
//! What is above one is refused with the cap named, never lowered: a caller that
//! got less than it asked for would find out in the middle of its work.

use atoll_api::sandbox::{Lifecycle, Limits};

/// The most that may be asked for; nothing means that there is no cap.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caps {
    /// Caps of the times.
    pub lifecycle: Lifecycle,
    /// Caps of the limits.
    pub limits: Limits,
}

/// What holds where a request says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    /// Times.
    pub lifecycle: Lifecycle,
    /// Limits.
    pub limits: Limits,
}

/// A request asks for more than a cap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {asked}, and the cap {cap_name} is {cap}")]
pub struct CapExceeded {
    /// The field of the request, its unit last.
    pub field: &'static str,
    /// What it asks for.
    pub asked: u64,
    /// The name of the cap.
    pub cap_name: &'static str,
    /// The most that it allows.
    pub cap: u64,
}

impl Caps {
    /// Fills in the defaults and holds the times against the caps.
    ///
    /// Where nothing is said and there is no default, the cap holds, since
    /// "for ever" would be above it.
    ///
    /// # Errors
    /// Names the first cap that is exceeded.
    pub fn lifecycle(
        &self,
        asked: Lifecycle,
        defaults: Lifecycle,
    ) -> Result<Lifecycle, CapExceeded> {
        let caps = &self.lifecycle;
        Ok(Lifecycle {
            lease_ms: within(
                ("lifecycle.lease_ms", "lease_ms_max"),
                (asked.lease_ms, defaults.lease_ms, caps.lease_ms),
            )?,
            idle_stop_ms: within(
                ("lifecycle.idle_stop_ms", "idle_stop_ms_max"),
                (asked.idle_stop_ms, defaults.idle_stop_ms, caps.idle_stop_ms),
            )?,
            archive_after_ms: within(
                ("lifecycle.archive_after_ms", "archive_after_ms_max"),
                (asked.archive_after_ms, defaults.archive_after_ms, caps.archive_after_ms),
            )?,
            delete_after_ms: within(
                ("lifecycle.delete_after_ms", "delete_after_ms_max"),
                (asked.delete_after_ms, defaults.delete_after_ms, caps.delete_after_ms),
            )?,
            max_lifetime_ms: within(
                ("lifecycle.max_lifetime_ms", "max_lifetime_ms_max"),
                (asked.max_lifetime_ms, defaults.max_lifetime_ms, caps.max_lifetime_ms),
            )?,
        })
    }

    /// Fills in the defaults and holds the limits against the caps.
    ///
    /// # Errors
    /// Names the first cap that is exceeded.
    pub fn limits(&self, asked: Limits, defaults: Limits) -> Result<Limits, CapExceeded> {
        let caps = &self.limits;
        Ok(Limits {
            memory_bytes: within(
                ("limits.memory_bytes", "memory_bytes_max"),
                (asked.memory_bytes, defaults.memory_bytes, caps.memory_bytes),
            )?,
            cpus_milli: within(
                ("limits.cpus_milli", "cpus_milli_max"),
                (asked.cpus_milli, defaults.cpus_milli, caps.cpus_milli),
            )?,
            pids: within(("limits.pids", "pids_max"), (asked.pids, defaults.pids, caps.pids))?,
            disk_bytes: within(
                ("limits.disk_bytes", "disk_bytes_max"),
                (asked.disk_bytes, defaults.disk_bytes, caps.disk_bytes),
            )?,
        })
    }
}

/// One value: what was asked for, else the default, else the cap.
fn within(
    (field, cap_name): (&'static str, &'static str),
    (asked, default, cap): (Option<u64>, Option<u64>, Option<u64>),
) -> Result<Option<u64>, CapExceeded> {
    match (asked.or(default), cap) {
        (Some(asked), Some(cap)) if asked > cap => Err(CapExceeded { field, asked, cap_name, cap }),
        (wanted, cap) => Ok(wanted.or(cap)),
    }
}
