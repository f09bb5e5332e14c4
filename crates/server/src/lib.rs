//! The HTTP API of the engine.
//!
//! | to know | read |
//! |---|---|
//! | what can be asked | `routes`, one file for each resource; `openapi/v1.json` |
//! | who may ask what | `access`, `keys` |
//! | what an error becomes | [`error`] |
//! | how requests are read and bounded | `extract`, `config`, `rate` |
//! | how connections begin and end | `server`, `connection` |
//! | how ports of sandboxes are reached | `preview` |
//! | what is done around each request | `request`, `drain` |
//! | how content passes through, in bounded memory | `upload`, `stream`, `gzip` |
//!
//! The server holds no state of a sandbox: the engine does.

mod access;
mod answer;
mod app;
mod config;
mod connection;
mod drain;
pub mod error;
mod extract;
mod gzip;
mod health;
mod idempotency;
mod keys;
mod metrics;
mod preview;
mod rate;
mod request;
mod routes;
mod server;
mod socket;
mod stream;
mod upload;

pub use config::Config;
pub use keys::{KeyStore, KeysError};
pub use preview::Previews;
pub use routes::openapi;
pub use server::{Parts, Server};
