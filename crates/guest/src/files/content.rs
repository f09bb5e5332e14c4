//! What the host sends after a request: frames `Body`, up to `End`.

use super::{Failure, Lost};
use crate::channel::Channel;
use atoll_protocol::frame::Kind;
use atoll_protocol::problem::Problem;

/// What one frame brings.
pub(super) enum Part<'a> {
    /// The next bytes; of a heartbeat none.
    Bytes(&'a [u8]),
    End,
}

/// Waits for the next frame. `misplaced` says what is wrong with one of another kind.
pub(super) fn next(
    channel: &mut Channel,
    misplaced: impl FnOnce(Kind) -> Problem,
) -> Result<Part<'_>, Failure> {
    let frame = channel.receive().map_err(|error| Failure::Lost(Lost::Receive(error)))?;
    let Some(frame) = frame else { return Err(Failure::Lost(Lost::Gone)) };
    match frame.kind {
        Kind::Body => Ok(Part::Bytes(frame.payload)),
        Kind::Heartbeat => Ok(Part::Bytes(&[])),
        Kind::End => Ok(Part::End),
        kind @ (Kind::Hello
        | Kind::Request
        | Kind::Reply
        | Kind::Problem
        | Kind::Stdout
        | Kind::Stderr
        | Kind::Event) => Err(misplaced(kind).into()),
    }
}
