//! The judge of live workspaces, with real programs as its callers.

mod behaviour;
mod config;
mod cost;
mod escapes;
mod filter;
mod git;
mod harness;
mod race;
mod semantics;
mod socket;
mod tools;
