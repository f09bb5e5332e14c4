//! The gateway: the only way out of a sandbox.
//!
//! What may be reached is a [`policy`]. Names are told apart by the [`stand_in`] addresses that
//! the sandbox gets for them from [`dns`]; no name is looked up for it before a connection to
//! it was allowed, and the address that is dialled then is judged by [`address`]. Connections are
//! told apart by their first bytes, and opened where rules need it, by [`tls`]; requests are served
//! by [`http`], which puts each [`secret`] where it belongs. What is not opened goes by a [`relay`].
//! The process that does all this is the [`gateway`]; who started it gives it orders by [`control`].

pub mod address;
pub mod control;
pub mod dial;
pub mod dns;
pub mod gateway;
pub mod host;
pub mod http;
pub mod name;
pub mod policy;
pub mod relay;
pub mod secret;
pub mod stand_in;
pub mod tls;
