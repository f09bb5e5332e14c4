//! The gateway: this program once more, in another role, started by whoever has sandboxes.
//!
//! [`role`] is what its processes do, [`start`] the side of who starts it, [`host`] what of this
//! machine it works with, and [`attached`] a gateway for one sandbox alone, with a [`desk`] for what
//! it asks.

pub(crate) mod attached;
pub(crate) mod desk;
pub(crate) mod host;
mod restarts;
pub(crate) mod role;
mod start;

pub(crate) use attached::Attached;
pub(crate) use start::{Gateway, program};
