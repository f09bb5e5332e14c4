//! What the launcher does while the command runs.
//!
//! The launcher has one thread. It watches the signals it is sent, the jail's
//! PID 1, the terminal and the clock, and ends when PID 1 is gone and all output
//! has reached its place. See [`stdio`] for which descriptor the command gets,
//! and [`Control`] for what is asked of PID 1.
//!
//! # Order of calls
//!
//! 1. [`Signals::take`], before anything is made that would have to be undone.
//! 2. [`Stdio::of`] the three standard descriptors; [`Guard::start`] if there is
//!    a terminal or something to clean up.
//! 3. Make the jail. PID 1 gets [`Stdio::streams`] and [`Stdio::setup`]; it calls
//!    [`Restore::apply`] in the child just before exec.
//! 4. [`run`].
//! 5. Perform the cleanups, then [`Guard::finish`].
//! 6. Report, then [`Outcome::pass_interrupt_on`].
//!
//! # What differs from the plain command
//!
//! - Keys typed ahead for the shell while a command has the terminal to itself
//!   are the command's, read or not.
//! - Modes that the command leaves behind (`stty -echo`) end with it.
//! - The other members of a pipeline get Ctrl-C only as the end of the command,
//!   once the command has taken the keys of a shared terminal.

mod asking;
mod control;
mod dialog;
mod event_loop;
pub mod guard;
mod pump;
mod relay;
pub mod signals;
pub mod stdio;
pub mod terminal;

pub use control::{Companion, Control, End, Lost, Message, Outcome, Place, Received};
pub(crate) use dialog::Dialog;
pub use dialog::{Answer, Choices, Question};
pub use event_loop::{Inputs, SuperviseError, run};
pub use guard::{Cleanup, Guard};
pub use signals::{Restore, Signals};
pub use stdio::{Stdio, Stream};
pub use terminal::{Setup, Terminal};
