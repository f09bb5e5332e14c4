//! The small process beside the server that makes sandboxes.
//!
//! A server has threads and secrets and must not be copied, so it never clones
//! itself. At its start it runs a [`resident`] process, which has one thread and
//! nothing to hide. That one forks makers ahead, one at a time; each takes an [`order`],
//! makes the network namespace or takes one that is captured already, clones the guest into a jail and ends:
//!
//! ```text
//!     server ──order──> resident ──fork──> maker ──clone──> guest (PID 1)
//!        ^                                   │                │
//!        └──────────── its pidfd ────────────┘     its socket │
//!        └────────────────── operations ──────────────────────┘
//! ```
//!
//! The guest belongs to nobody then: it outlives the maker, the resident process and the
//! server, and whoever may open its socket finds it again ([`client::find`]).

pub mod client;
mod guest;
mod maker;
pub mod order;
mod pool;
pub mod resident;
mod view;
