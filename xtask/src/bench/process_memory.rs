//! Memory of processes.

use crate::descendants::descendants;
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// Memory of all that this process has started, with the share of each in what they have in
/// common, in KiB: proc_pid_smaps_rollup(5).
pub(super) fn kib() -> Result<u64> {
    let mut sum = 0;
    for process in descendants(std::process::id())? {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid));
        let Ok(text) = text else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        sum += kib.with_context(|| format!("no memory of {}", process.pid))?;
    }
    ensure!(sum > 0, "no process runs");
    Ok(sum)
}
