//! The HTTP API of a server, for Rust programs.
//!
//! | to know | read |
//! |---|---|
//! | where a server is | [`Endpoint`] |
//! | what can be asked | [`Client`] |
//! | how it can fail | [`ClientError`] |
//! | what is followed as it happens | [`events`], [`followed`], [`attach`], [`images`] |
//!
//! Every request has a connection of its own, which is cheap on a unix socket and cannot
//! be stale. Nothing is sent twice by itself: whether that is safe is in the error.
//! Everything that a server sends has a limit before it is kept. The environment is not
//! read: whoever calls says where the server is.

#![warn(missing_docs)]

pub mod approvals;
mod archives;
pub mod attach;
pub mod audit;
mod body;
mod client;
mod connect;
mod endpoint;
mod error;
pub mod events;
mod execs;
mod files;
pub mod followed;
pub mod images;
mod keys;
mod pools;
mod ports;
mod sandboxes;
mod secrets;
mod server;
mod snapshots;
mod sse;
pub mod templates;
mod volumes;
mod wait;

pub use approvals::ApprovalStream;
pub use body::{Download, Upload};
pub use client::Client;
pub use endpoint::{Endpoint, EndpointError};
pub use error::ClientError;
pub use sandboxes::Action;
