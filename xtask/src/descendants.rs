//! The processes that this one started, and those that they did.

use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs;

/// A process by its number, as it can be told from another with the same one.
pub(crate) struct Process {
    pub(crate) pid: u32,
    parent: u32,
    pub(crate) name: String,
    pub(crate) start: u64,
}

/// All that descends from a process, which adopts what its descendants leave if it is a
/// subreaper.
pub(crate) fn descendants(of: u32) -> Result<Vec<Process>> {
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot list /proc")?.flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(process) = parse_stat(&text) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child);
        }
    }
    Ok(found)
}

/// Reads `/proc/PID/stat`: proc_pid_stat(5). The name may hold anything. One that ended
/// and waits to be collected is none any more.
fn parse_stat(text: &str) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    if fields[0] == "Z" {
        return None;
    }
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let fields = "S 41 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 77123 2 3";
        let process = parse_stat(&format!("43 (a) (b c) S) {fields}")).unwrap();
        assert_eq!((process.pid, process.parent, process.start), (43, 41, 77123));
        assert_eq!(process.name, "a) (b c) S");
        assert!(parse_stat(&format!("43 (a) {}", fields.replacen('S', "Z", 1))).is_none());
        assert!(parse_stat("43 (a").is_none());
    }
}
