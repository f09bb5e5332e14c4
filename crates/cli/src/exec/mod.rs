//! A command of a sandbox, as if it ran here: `atoll exec` and `atoll shell`.
//!
//! | to know | read |
//! |---|---|
//! | how it is followed, and again where the connection breaks | [`follow`] |
//! | how what it prints gets to our own streams | [`output`] |
//! | where its input comes from, and how it is fed | [`input`] |
//! | how our terminal is the command's | [`screen`] |
//! | which keys leave it | [`detach`] |
//! | what becomes of signals | [`signal`] |
//! | with what this ends | [`ending`] |
//! | what was refused meanwhile | [`hints`] |
//! | what it printed, without it | [`logs`] |
//!
//! What it prints is told as events, of which the request that starts it is the first to
//! hear: from then on the command waits for us before anything is dropped. A terminal is
//! a WebSocket, on which keys have the shortest way.

mod detach;
mod ending;
mod follow;
mod hints;
mod input;
pub(crate) mod logs;
mod output;
mod screen;
mod session;
mod signal;

pub(crate) use detach::NAME as DETACH_KEYS;
pub(crate) use ending::{Ending, refused};
pub(crate) use follow::Begin;
pub(crate) use screen::Screen;
pub(crate) use session::{Job, run};
