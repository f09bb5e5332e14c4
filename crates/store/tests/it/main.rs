//! Tests of the store over real overlay mounts and real file systems.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;
mod changes;
mod conflicts;
mod hostile;
mod image;
mod import;
mod kill;
mod layer;
mod links;
mod secret;
mod session;
mod support;
mod tree;
