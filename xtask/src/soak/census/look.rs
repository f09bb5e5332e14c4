//! Reads from the kernel what there is.

use super::{Thing, Things};
use crate::descendants::{Process, descendants};
use anyhow::{Context as _, Result};
use rustix::process::WaitOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Collects children that ended, and orphans that became ours. No child of std's may
/// be waited for at that time.
pub(in super::super) fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// A thing that its name says all about.
fn named(name: String) -> (String, Thing) {
    (name, Thing::default())
}

/// A process of the spawner's that waits for the next sandbox, and is another one each
/// time.
const MAKER: &str = "atoll-maker";

/// Descendants that stay who they are.
fn lasting() -> Result<impl Iterator<Item = Process>> {
    Ok(descendants(std::process::id())?.into_iter().filter(|process| process.name != MAKER))
}

/// Processes of the other kind: as many as before.
pub(super) fn makers() -> Result<u64> {
    let all = descendants(std::process::id())?;
    Ok(all.iter().filter(|process| process.name == MAKER).count() as u64)
}

pub(super) fn processes() -> Result<Things> {
    let thing = |one: Process| {
        let about = format!(" ({})", one.name);
        (format!("{} since {}", one.pid, one.start), Thing { about, size: 0 })
    };
    Ok(lasting()?.map(thing).collect())
}

/// Namespaces of any kind that only descendants are in. Those that no process is in
/// are found as mounts, as descriptors, or by their number.
pub(super) fn namespaces() -> Result<Things> {
    let of = |pid: u32| {
        let links = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
        links.filter_map(|link| Some(fs::read_link(link.path()).ok()?.display().to_string()))
    };
    let own: BTreeSet<String> = of(std::process::id()).collect();
    let theirs = descendants(std::process::id())?.into_iter().flat_map(|process| of(process.pid));
    Ok(theirs.filter(|name| !own.contains(name)).map(named).collect())
}

/// A line of `/proc/PID/mountinfo`: proc_pid_mountinfo(5).
struct Mount {
    id: String,
    point: PathBuf,
    kind: String,
}

fn read_mounts(process: &str) -> Result<Vec<Mount>> {
    let path = format!("/proc/{process}/mountinfo");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let parse = |line: &str| {
        let mut fields = line.split(' ');
        let id = fields.next()?.to_owned();
        let point = PathBuf::from(fields.nth(3)?);
        let kind = fields.skip_while(|field| *field != "-").nth(1)?.to_owned();
        Some(Mount { id, point, kind })
    };
    Ok(text.lines().filter_map(parse).collect())
}

pub(super) fn mounts(process: &str) -> Result<Things> {
    let thing = |one: Mount| {
        let about = format!(" ({})", one.kind);
        (format!("{} {}", one.id, one.point.display()), Thing { about, size: 0 })
    };
    Ok(read_mounts(process)?.into_iter().map(thing).collect())
}

/// Control groups below every hierarchy, v1 and v2. Others on the machine make groups
/// as well: ours are called so, or lie in the group that this process is in, and hold
/// nobody or one of ours.
pub(super) fn groups() -> Result<Things> {
    let ours: BTreeSet<u32> =
        descendants(std::process::id())?.iter().map(|process| process.pid).collect();
    let is_others = |group: &Path| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let mut processes = text.lines().filter_map(|line| line.parse().ok()).peekable();
        processes.peek().is_some() && !processes.any(|pid| ours.contains(&pid))
    };
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own: Vec<&str> = own
        .lines()
        .filter_map(|line| line.rsplit(':').next())
        .filter(|path| *path != "/")
        .collect();
    let mut all = BTreeSet::new();
    for mount in read_mounts("self")?.iter().filter(|mount| mount.kind.starts_with("cgroup")) {
        let mut found = BTreeMap::new();
        list(&mount.point, &mut found, &|path| path.is_dir());
        all.extend(found.into_keys().filter(|path| {
            let below = path.strip_prefix(&mount.point).unwrap_or(path);
            let is_called_so = below.to_string_lossy().contains("atoll");
            (is_called_so && !is_others(path))
                || own.iter().any(|own| below.starts_with(own.trim_start_matches('/')))
        }));
    }
    Ok(all.into_iter().map(|path| named(path.display().to_string())).collect())
}

/// Largest files of the past: a hundred thousand events, and what SQLite writes ahead.
const HISTORY_MAX: u64 = 64 << 20;

/// Everything below these directories. What holds the past may grow, within bounds.
pub(super) fn files(trees: &[PathBuf], history: &[PathBuf]) -> Things {
    let mut found = BTreeMap::new();
    for tree in trees {
        list(tree, &mut found, &|_| true);
    }
    let is_history =
        |path: &str| history.iter().any(|history| path.starts_with(&*history.to_string_lossy()));
    let thing = |(path, size): (PathBuf, u64)| {
        let (name, about) = (path.display().to_string(), format!(" ({size} bytes)"));
        let is_bounded = is_history(&name) && size <= HISTORY_MAX;
        (name, Thing { about, size: if is_bounded { 0 } else { size } })
    };
    found.into_iter().map(thing).collect()
}

/// Walks a directory without following links; directories have no size here.
fn list(directory: &Path, found: &mut BTreeMap<PathBuf, u64>, keep: &dyn Fn(&Path) -> bool) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !keep(&path) {
            continue;
        }
        if metadata.is_dir() {
            list(&path, found, keep);
        }
        found.insert(path, if metadata.is_file() { metadata.len() } else { 0 });
    }
}

/// Descriptors of this process, but the one that lists them.
pub(super) fn descriptors() -> Result<Things> {
    let entries = fs::read_dir("/proc/self/fd").context("cannot list descriptors")?;
    let thing = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        Some(format!("{} {}", entry.file_name().display(), target.display()))
    };
    let listing = format!("/proc/{}/fd", std::process::id());
    let names = entries.flatten().filter_map(thing).filter(|name| !name.ends_with(&listing));
    Ok(names.map(named).collect())
}

/// What processes hold that this one started: descriptors, threads, mounts, and KiB of
/// memory. What a process ends with is gone, so a long life is what this is for.
pub(super) fn held() -> Result<Vec<(String, u64, Kind)>> {
    let mut held = Vec::new();
    for Process { pid, name, .. } in lasting()? {
        let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).map(Iterator::count);
        // It may end meanwhile.
        let (Ok(descriptors), Ok(threads)) = (count("fd"), count("task")) else { continue };
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let figures = [
            ("descriptors", descriptors as u64, Kind::Things),
            ("threads", threads as u64, Kind::Things),
            ("mounts", mounts.lines().count() as u64, Kind::Things),
            ("KiB of memory", parse_memory(&rollup).unwrap_or(0), Kind::Memory),
        ];
        held.extend(
            figures.map(|(what, value, kind)| (format!("{what} of {name} {pid}"), value, kind)),
        );
    }
    Ok(held)
}

/// What a count is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Things,
    Memory,
}

/// A process's own part of its memory: proc_pid_smaps_rollup(5).
fn parse_memory(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// System V's: queues, semaphores, shared memory.
pub(super) fn ipc_objects() -> Things {
    let mut found = Things::new();
    for kind in ["msg", "sem", "shm"] {
        let text = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        // Key and identifier, after a heading.
        found.extend(text.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split_whitespace().take(2).collect();
            named(format!("{kind} {}", fields.join(" ")))
        }));
    }
    found
}

/// What the kernel counts for the whole machine.
pub(super) fn shared_counts() -> Vec<(String, u64)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut counts = Vec::new();
    if let Ok(terminals) = read("/proc/sys/kernel/pty/nr").trim().parse() {
        counts.push(("terminals".to_owned(), terminals));
    }
    // Groups that are removed live on in the kernel for what they were charged for.
    for line in read("/sys/fs/cgroup/cgroup.stat")
        .lines()
        .chain(read("/sys/fs/cgroup/unified/cgroup.stat").lines())
    {
        if let Some(Ok(dying)) = line.strip_prefix("nr_dying_descendants ").map(str::parse) {
            counts.push(("removed groups".to_owned(), dying));
        }
    }
    counts.extend(parse_key_users(&read("/proc/key-users")));
    shrink_slabs();
    counts.extend(parse_slabs(&read("/proc/slabinfo")));
    counts
}

/// Has the kernel count what is used: what each processor keeps of free objects counts as
/// used otherwise, which came to 143 of 144. Where root may not, it stays so.
fn shrink_slabs() {
    for entry in fs::read_dir("/sys/kernel/slab").into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().ends_with(b"_namespace") {
            fs::write(entry.path().join("shrink"), "1").unwrap_or_default();
        }
    }
}

/// Lines like `54321:     2 2/2 2/200 30/20000`, of which the third field is what there
/// is: proc_key-users(5).
fn parse_key_users(text: &str) -> Vec<(String, u64)> {
    let parse = |line: &str| {
        let (uid, rest) = line.split_once(':')?;
        let keys = rest.split_whitespace().nth(2)?.split('/').next()?.parse().ok()?;
        Some((format!("keys of user {}", uid.trim()), keys))
    };
    text.lines().filter_map(parse).collect()
}

/// Namespaces in the kernel's memory, where root may ask: slabinfo(5).
fn parse_slabs(text: &str) -> Vec<(String, u64)> {
    let parse = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next().filter(|name| name.ends_with("_namespace"))?;
        Some((format!("{name} objects"), fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_slabs_are_read() {
        let keys = "    0:     9 8/8 3/1000000 48/25000000\n54321:     2 2/2 2/200 30/20000\n";
        let expected = [("keys of user 0".to_owned(), 3), ("keys of user 54321".to_owned(), 2)];
        assert_eq!(parse_key_users(keys), expected);
        let slabs = "slabinfo - version: 2.1\nnet_namespace         21     56   4288    7\n\
                     kmalloc-8k 3 4\n";
        assert_eq!(parse_slabs(slabs), [("net_namespace objects".to_owned(), 21)]);
    }
}
