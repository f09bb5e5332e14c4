//! The judge of live workspaces, with real programs as its callers.

mod filter;
mod git;
mod harness;
mod semantics;
