//! Signals that reach us while a command runs elsewhere: they are the command's.

use super::follow::Follower;
use atoll_api::exec::{CancelExec, SignalExec, Target};
use rustix::process::Signal;
use std::io::Write as _;
use std::time::Duration;
use tokio::time::timeout;

/// Those that are passed on, or mean the terminal.
pub(super) const WANTED: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Those that are wanted as well where there is a terminal.
pub(super) const OF_TERMINALS: [Signal; 3] = [Signal::TSTP, Signal::WINCH, Signal::CONT];

/// The number of SIGHUP.
const HANG_UP: u8 = 1;

/// How long one that ends us may take to be passed on.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Passes a signal on, and does not wait for it.
pub(super) fn pass_on(follower: &Follower, signal: u8) {
    let Some(wanted) = request(signal, Target::Group) else { return };
    let (client, sandbox) = (follower.client.clone(), follower.sandbox.clone());
    let exec = follower.exec;
    tokio::spawn(async move {
        if let Err(error) = client.signal_exec(&sandbox, &exec, &wanted).await
            // One that has ended needs none.
            && error.code() != Some(atoll_api::error::ErrorCode::WrongState)
            && error.code() != Some(atoll_api::error::ErrorCode::Conflict)
        {
            writeln!(std::io::stderr(), "atoll: {} was not passed on: {error}", wanted.signal).ok();
        }
    });
}

/// Tells a command that its terminal is gone.
pub(super) async fn hang_up(follower: &Follower) {
    let Some(wanted) = request(HANG_UP, Target::Session) else {
        return;
    };
    let said = follower.client.signal_exec(&follower.sandbox, &follower.exec, &wanted);
    // Who cannot be reached cannot be told.
    timeout(LAST_WORD, said).await.ok();
}

/// Ends a command of which it is not known yet whether it was started.
pub(super) async fn take_back(follower: &Follower) {
    let wanted = CancelExec { signal: None, grace_ms: Some(0) };
    let said = follower.client.cancel_exec(&follower.sandbox, &follower.exec, &wanted);
    timeout(LAST_WORD, said).await.ok();
}

fn request(signal: u8, target: Target) -> Option<SignalExec> {
    let signal = atoll_api::exec::Signal::from_number(signal.into())?;
    Some(SignalExec { signal, target })
}
