//! HTTP between a program inside and the host that it is meant for.
//!
//! Each request is decided by a [`Session`]. Every refusal is a [`Refused`].

mod refusal;
mod session;

pub use refusal::{DENIED, Refused, Retry};
pub use session::{Asked, BoxFuture, Passage, Session, Site, Told};
