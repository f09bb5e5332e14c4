//! HTTP between a program inside and the host that it is meant for.
//!
//! [`serve`] takes one connection, whose requests are decided one by one by a [`Session`], and
//! written anew towards the host. [`proxy`] does so for programs that know they speak to a proxy,
//! and [`explain`] answers each request with why nothing is sent. Every refusal is a [`Refused`].

mod body;
mod check;
mod exchange;
mod guarded;
pub mod head;
mod headers;
mod proxy;
mod refusal;
mod relay;
mod serve;
mod session;
mod tasks;
mod upstream;

pub use proxy::{Gate, Tunnel, proxy};
pub use refusal::{DENIED, Refused, Retry};
pub use serve::{Explained, Limits, Speaks, Why, explain, serve};
pub use session::{Asked, BoxFuture, Passage, Session, Site, Told};
