//! The life of sandboxes that outlive one command: what may follow on what, what
//! happens when nobody asks, who may change a sandbox, and what is remembered.
//!
//! | to know | read |
//! |---|---|
//! | what may follow on what | [`state`] |
//! | what happens when nobody asks | [`lifecycle`] |
//! | what a tier has to provide | [`backend`] |
//! | what survives the server | [`records`] |
//! | what a start does with what it finds | [`reconcile`] |
//! | who changes a sandbox, and how | `owner` |
//! | what a person has to decide | [`approvals`] |
//! | which images there are, and how they come here | [`images`] |
//! | what is in object storage | [`archives`] |
//! | what is secret | [`secrets`] |
//! | what can be gone back to | [`snapshots`] |
//! | how templates are built, and which there are | [`templates`] |
//! | what may be reached | [`network`], [`gateway`] |
//! | what sandboxes have used | [`usage`] |
//! | what is told to who looks back later | [`audit`] |
//! | what can be asked | [`Engine`] |
//! | what a sandbox that runs can be asked, in the API's words | [`inside`] |
//! | the same in the guest's words, every byte of its answers doubted | [`guest`] |
//!
//! What makes a sandbox is behind [`backend::Backend`]; this crate makes none.

pub mod approvals;
pub mod archives;
pub mod audit;
pub mod backend;
pub mod budgets;
pub mod clock;
mod config;
mod denials;
mod directory;
mod engine;
pub mod error;
pub mod exposure;
pub mod gateway;
pub mod guest;
pub mod images;
pub mod inside;
pub mod lifecycle;
pub mod network;
mod oversight;
mod owner;
pub mod pieces;
pub mod pools;
pub mod reconcile;
pub mod records;
pub mod secrets;
mod services;
pub mod snapshots;
pub mod state;
pub mod templates;
mod told;
pub mod usage;
pub mod volumes;
mod workspace;

pub use config::Config;
pub use engine::{Beside, Engine, FORKS_AT_ONCE, Got, Outward};
pub use inside::{Inside, Wake};
pub use workspace::Archive;
