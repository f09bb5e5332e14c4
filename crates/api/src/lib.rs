//! Wire types and pure rules: the policy document, what it comes to, the names
//! that are protected whatever a policy says, and what the API asks and answers.
//! No I/O here: callers read files, resolve paths and look at the machine, and
//! hand the results in.

#![warn(missing_docs)]

pub mod approval;
pub mod archive;
pub mod audit;
pub mod budget;
pub mod denial;
pub mod error;
pub mod exec;
pub mod files;
pub mod git;
pub mod id;
pub mod ignore;
pub mod image;
pub mod key;
pub mod name;
pub mod network;
pub mod object;
pub mod octets;
pub mod policy;
pub mod pool;
pub mod ports;
pub mod protect;
pub mod sandbox;
mod schema;
pub mod secret;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod template;
pub mod time;
pub mod usage;
pub mod volume;
pub mod wait;
