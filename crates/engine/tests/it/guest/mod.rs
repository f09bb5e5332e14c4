//! The host's client of a guest.

mod arbitrary;
mod content;
mod ends;
mod offsets;
mod play;
mod questions;
mod real;
mod silence;
mod sockets;
