//! Names of run groups: who owns one can be read off its name.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "atoll-run-";
/// Tail of the leaf into which a process steps aside on v2.
pub(super) const ASIDE: &str = ".self";

/// The process that made a group. The start time guards against a pid that
/// has been given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// In clock ticks since boot.
    pub(super) start: u64,
}

/// A name for a new group of this process: `atoll-run-PID-STARTTIME`, with a
/// count behind from the second one on.
///
/// # Errors
///
/// When `/proc/self/stat` cannot be read.
pub fn run_name() -> io::Result<String> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let start = start_time(&std::fs::read_to_string("/proc/self/stat")?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat is cut"))?;
    Ok(match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{pid}-{start}"),
        count => format!("{PREFIX}{pid}-{start}-{count}"),
    })
}

/// Reads the owner off a group's name; `None` when the group is not ours.
pub(super) fn owner(name: &str) -> Option<Owner> {
    let name = name.strip_suffix(ASIDE).unwrap_or(name);
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = number(parts.next()?)?;
    let start = number(parts.next()?)?;
    if let Some(count) = parts.next() {
        number(count)?;
    }
    if parts.next().is_some() {
        return None;
    }
    Some(Owner { pid: u32::try_from(pid).ok()?, start })
}

/// Digits only: `parse` alone would take a plus sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Field 22 of `/proc/PID/stat`. The command's name before it may hold spaces
/// and parentheses, so fields count from the last one of those.
///
/// Source: proc_pid_stat(5).
pub(super) fn start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_name_leads_back_to_us() {
        let name = run_name().unwrap();
        assert_eq!(owner(&name).unwrap().pid, std::process::id());
        assert_ne!(run_name().unwrap(), name);
        assert_eq!(owner(&format!("{name}{ASIDE}")), owner(&name));
    }

    #[test]
    fn foreign_names_have_no_owner() {
        assert_eq!(owner("atoll-run-7-99"), Some(Owner { pid: 7, start: 99 }));
        assert_eq!(owner("atoll-run-7-99-2"), Some(Owner { pid: 7, start: 99 }));
        for name in ["", "atoll-run-", "atoll-run-7", "atoll-run-7-", "atoll-run-7-9-x"] {
            assert_eq!(owner(name), None, "{name}");
        }
        for name in ["atoll-run-+7-99", "atoll-run-7-99-2-1", "user.slice", "x-atoll-run-7-99"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn a_command_name_cannot_forge_the_start_time() {
        let stat = "7 (a) S 1 2) R 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(start_time(stat), Some(4242));
        assert_eq!(start_time("7 (a) R 1"), None);
    }
}
