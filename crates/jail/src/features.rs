//! What this host's kernel lets a jail do, and what would change that.
//!
//! Three kinds of knowledge, each of its own: [`Facts`] are read from files and
//! cost nothing; [`Probes`] try the thing itself, in a child that leaves no
//! trace; [`explain()`] turns a failed step into its probable cause and the
//! command that fixes it. [`survey`] puts them side by side for `atoll doctor`.
//!
//! None of it is on the way of a run that works: a jail that fails to start asks
//! [`explain()`] or [`require`] afterwards.

mod explain;
mod facts;
mod probes;
mod report;
mod tools;
mod writable_root;

pub use explain::{Fix, explain};
pub use facts::{AppArmor, Facts, Release};
pub use probes::{Attempt, Notify, Probes};
pub use report::{Feature, Missing, Needs, State, limits_missing, require, survey};
pub use tools::{Tool, find_tool};
pub use writable_root::writable_root;
