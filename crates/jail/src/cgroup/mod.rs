//! Control groups: memory, process and cpu limits of one run, and the means to
//! freeze, kill and account for it as a whole.
//!
//! Hosts differ. [`Layout`] says what this one offers to this process,
//! [`plan()`] turns a layout and limits into a list of writes without touching
//! anything, [`Group`] carries the list out. A limit that cannot be enforced is
//! never dropped in silence: it comes back as an [`Unenforced`].
//!
//! - *v2* (one tree): limits, freeze, kill and events all come from it.
//! - *v1* (a tree per controller): limits only; killing goes by the task list.
//! - *hybrid* (v1 controllers beside a v2 tree without any): limits from v1,
//!   freeze and kill from v2. A frozen v1 group does not even die of `SIGKILL`
//!   before it is thawed; v2 has no such trap.
//!
//! Sources: the kernel's `Documentation/admin-guide/cgroup-v2.rst` and
//! `cgroup-v1/`, cgroups(7).

mod events;
mod files;
mod group;
mod layout;
mod mounts;
mod name;
mod plan;
mod stale;
mod wait;

pub use events::Events;
pub use group::{CgroupError, Group};
pub use layout::{Access, Controller, Kind, Layout, LayoutError, Legacy, Occupants, Place};
pub use name::run_name;
pub use plan::{Limit, Limits, LimitsError, Plan, Role, Unenforced, Write, plan};
pub use stale::{Swept, remove_stale};
