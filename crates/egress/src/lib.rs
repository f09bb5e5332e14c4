//! The gateway: the only way out of a sandbox.
//!
//! What may be reached is a [`policy`]. Names are told apart by the [`stand_in`] addresses that
//! the sandbox gets for them from [`dns`]; no name is looked up for it before a connection to
//! it was allowed, and the address that is dialled then is judged by [`address`].

pub mod address;
pub mod dns;

pub mod name;
pub mod policy;
pub mod stand_in;
