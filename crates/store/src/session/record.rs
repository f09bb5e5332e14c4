//! What is written down about a review session.

use crate::escape::{serde_path, serde_paths};
use crate::node::Time;
use crate::overlay::Format;
use crate::view::StandIn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The highest version that this program reads. One that reads lower ones says so.
pub(super) const VERSION: u32 = 2;

/// What it writes: the first that says all of it, so that older programs read what they can.
pub(super) const fn version(asks: bool) -> u32 {
    // One that does not know of it would apply without asking.
    if asks { VERSION } else { 1 }
}

/// A session's `record.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format. It changes when an older reader would go wrong;
    /// fields that it may ignore are added without.
    pub version: u32,
    /// The project's directory, absolute, escaped as in [`crate::escape`].
    #[serde(with = "serde_path")]
    pub project: PathBuf,
    /// Device and inode of the project's directory, so that another directory
    /// of the same name is noticed.
    pub project_dev: u64,
    pub project_ino: u64,
    /// When the session started, by the clock of file time stamps.
    pub started: Time,
    /// Owner of the project, and so of what the session makes.
    pub uid: u32,
    /// Whom what the session makes belongs to in the upper, if that is not the
    /// project's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandIn>,
    /// Which attributes the overlay writes.
    pub format: Format,
    /// Paths in the project that the session does not see.
    #[serde(with = "serde_paths")]
    pub masked: BTreeSet<PathBuf>,
    /// A person approves what is applied; where the policy of that time says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_asks: Option<String>,
    pub state: State,
}

/// Whether something still writes to the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum State {
    /// The process that runs it. It may be gone without having said so: the
    /// three together tell whether it still is the same process.
    Running {
        pid: u32,
        /// Start time in clock ticks after boot. Source: proc_pid_stat(5), field 22.
        start_ticks: u64,
        /// Source: proc_sys_kernel(5), `random/boot_id`.
        boot_id: String,
    },
    Ended,
}

impl State {
    /// The state of a session that this process runs.
    pub(super) fn running_here() -> std::io::Result<Self> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid)?.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Self::Running { pid, start_ticks, boot_id: boot_id()? })
    }

    /// The process that runs the session, if it is still there.
    pub(super) fn live_pid(&self) -> Option<u32> {
        match self {
            Self::Ended => None,
            Self::Running { pid, start_ticks: ticks, boot_id: boot } => {
                let is_same = boot_id().is_ok_and(|now| now == *boot)
                    && start_ticks(*pid).is_ok_and(|now| now == Some(*ticks));
                is_same.then_some(*pid)
            }
        }
    }
}

fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process started; nothing when there is no such process, or it is dead
/// and only waits to be reaped.
fn start_ticks(pid: u32) -> std::io::Result<Option<u64>> {
    let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // ESRCH: it ended between opening and reading.
        Err(error) if error.raw_os_error() == Some(3) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(parse_start_ticks(&String::from_utf8_lossy(&stat)))
}

fn parse_start_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may itself hold
    // anything, so that counting starts behind its last one.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_found_behind_any_name() {
        let fields = "S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(parse_start_ticks(&format!("12 (cat) {fields}")), Some(4711));
        assert_eq!(parse_start_ticks(&format!("12 (a) S 1) 2 (b) {fields}")), Some(4711));
        assert_eq!(parse_start_ticks(&format!("12 (cat) {}", fields.replacen('S', "Z", 1))), None);
        assert_eq!(parse_start_ticks("12 (cat"), None);
    }

    #[test]
    fn this_process_is_alive_and_one_of_another_time_is_not() {
        let here = State::running_here().unwrap();
        assert_eq!(here.live_pid(), Some(std::process::id()));
        let State::Running { pid, start_ticks, boot_id } = here else { unreachable!() };
        let earlier =
            State::Running { pid, start_ticks: start_ticks - 1, boot_id: boot_id.clone() };
        assert_eq!(earlier.live_pid(), None);
        let rebooted = State::Running { pid, start_ticks, boot_id: "another".into() };
        assert_eq!(rebooted.live_pid(), None);
        assert_eq!(State::Ended.live_pid(), None);
    }
}
