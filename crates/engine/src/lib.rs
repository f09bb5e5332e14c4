//! The life of sandboxes that outlive one command: what may follow on what, what
//! happens when nobody asks, who may change a sandbox, and what is remembered.
//!
//! What makes a sandbox is behind [`backend::Backend`]; this crate makes none.

pub mod backend;
pub mod clock;
pub mod lifecycle;
pub mod records;
pub mod state;
