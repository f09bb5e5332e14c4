//! Everything that an exec started and that has not left its session.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;

/// How often a session is looked through for processes that were made meanwhile.
const ROUNDS_MAX: u32 = 50;

/// Kills every process of the session that `leader` leads or led.
///
/// Processes may be made while others are killed, so it looks again until it
/// finds none. One that makes them faster than that needs the limit on
/// processes that every sandbox has.
pub(super) fn kill(leader: i32) {
    signal_group(leader, Signal::KILL);
    for _ in 0..ROUNDS_MAX {
        if !signal(leader, Signal::KILL) {
            return;
        }
    }
}

/// Sends a signal to every process of a session; says whether there was one.
pub(super) fn signal(leader: i32, signal: Signal) -> bool {
    let mut found = false;
    for pid in others().filter(|pid| session_of(*pid) == Some(leader)) {
        // It may have ended since.
        found |= kill_process(pid, signal).is_ok();
    }
    found
}

/// Sends a signal to a process group, which may be gone.
pub(super) fn signal_group(group: i32, signal: Signal) -> bool {
    Pid::from_raw(group).is_some_and(|group| kill_process_group(group, signal).is_ok())
}

/// The processes that can be seen.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// The session of a process that has not ended: one that waits to be collected
/// takes no signal.
fn session_of(pid: Pid) -> Option<i32> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_stat(&stat)
}

/// Field 6 of proc_pid_stat(5), unless field 3 says that it is dead. The name in
/// field 2 may have anything in it, parentheses too.
fn parse_stat(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(2)?.parse().ok()
}

/// Every process but the calling one.
pub(super) fn others() -> impl Iterator<Item = Pid> {
    let own = rustix::process::getpid();
    processes().filter(move |pid| *pid != own)
}

/// Sends a signal to everybody else.
pub(super) fn signal_others(signal: Signal) {
    for pid in others() {
        // It may have ended since.
        kill_process(pid, signal).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_behind_any_name() {
        assert_eq!(parse_stat(b"12 (a b) c) S 1 12 34 0 -1 4194560"), Some(34));
        assert_eq!(parse_stat(b"12 (x) Z 1 12 34 0"), None);
        assert_eq!(parse_stat(b"12 (x"), None);
        assert_eq!(parse_stat(b"12 (x) S 1"), None);
    }
}
