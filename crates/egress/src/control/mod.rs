//! What the gateway and who started it say to each other.
//!
//! Each message is one datagram of JSON over a unix socket of the type SEQPACKET; listeners come
//! beside the order that adds their sandbox. Whoever holds the other end is trusted by the
//! gateway; what the gateway says is bounded, and read in doubt, since it speaks with
//! strangers on both sides.

mod order;
mod starter;
mod told;

pub use order::{
    Addition, Binding, Budgets, Decision, Help, LayerText, Order, Resolver, RuleText, Rules,
    Sensitive, Via,
};
pub use starter::{AskError, Starter};
pub use told::{Asked, Counts, Denial, Protocol, Told};

/// Longest message, in bytes: what one datagram holds with the kernel's usual buffers
/// (`net.core.wmem_default`) and room to spare.
pub const BYTES_MAX: usize = 160 << 10;
