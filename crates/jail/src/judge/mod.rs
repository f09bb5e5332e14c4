//! The judge of what is written at once, a live workspace and granted directories:
//! a supervisor that performs name-changing calls for the workload, or refuses them.
//!
//! In a live workspace the project is the host's own directory, so mounts cannot
//! protect names in it: an editor on the host that saves by rename detaches them.
//! Instead the calls in [`TRAPS`] are answered by seccomp user notification. The
//! supervisor copies the path, resolves its directory to a descriptor, asks the
//! kernel for that descriptor's real path, decides by rule, and *performs the
//! call itself*; it never lets a call continue after looking at memory that
//! another thread can change. All calls that create, move or remove names come
//! here, one after another, so nothing changes between judging and acting but
//! what the host does.
//!
//! Rules come in classes ([`Class`]): internals of repositories that were there
//! (A), of repositories born in the session (B), files that tools on the host
//! obey (C).
//!
//! Where to look: `traps` (which calls), `call` (decoding), `walk` (paths to
//! descriptors), `survey` (what a path is), `decide` (the rules, pure), `open`,
//! `entry`, `change`, `socket`, `stand_in` (performing), `install` and `pointer` (judged
//! content), `ledger`, `told` (memory), `serve` (the loop), `wait`, `reply`, `pending` (its parts), `refuser`
//! (calls without a rule about names), `git` (formats).
//!
//! Under review the project's names are free, and only directories that are
//! granted beside it are judged. Where its copy needs help with renames of
//! directories, `moves` gives it, without any rule about names, alone or beside
//! the judge; `transfer` moves a directory.

mod call;
mod caller;
mod change;
mod decide;
mod denial;
mod entry;
mod footing;
pub mod git;
mod install;
mod ledger;
mod moves;
mod names;
mod open;
mod pending;
mod pointer;
mod refuser;
mod reply;
mod rules;
mod serve;
mod socket;
mod stand_in;
mod state;
mod survey;
mod told;
mod transfer;
mod traps;
mod wait;
mod walk;

pub use denial::{Class, Denial, Report, Rule, Sink};
pub use footing::FootingError;
pub use moves::{Moves, Moving, RENAMES};
pub use names::{Pattern, PatternError};
pub use refuser::Refuser;
pub use rules::{Config, Hidden, Root};
pub use serve::{Ended, Judge, NewError, ServeError, Serving};
pub use traps::{Condition, TRAPS, Trap};
