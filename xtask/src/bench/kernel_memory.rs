//! Memory of the kernel that processes bring about.
//!
//! Cgroups of version 1 count it for a group; where there are none, what the whole machine
//! says must do.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Counts for what is started by [`KernelMemory::with`].
pub(super) struct KernelMemory {
    /// The group, and the one that this process is in.
    group: Option<(PathBuf, PathBuf)>,
}

impl KernelMemory {
    pub(super) fn new(name: &str) -> Result<Self> {
        let Some(own) = own_group().filter(|own| own.join("memory.kmem.usage_in_bytes").exists())
        else {
            return Ok(Self { group: None });
        };
        let group = own.join(format!("{name}-{}", std::process::id()));
        match fs::create_dir(&group) {
            Ok(()) => Ok(Self { group: Some((group, own)) }),
            // Of somebody else's.
            Err(_) => Ok(Self { group: None }),
        }
    }

    /// What is started by this is counted.
    pub(super) fn with<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        let enter = |group: &Path| {
            fs::write(group.join("cgroup.procs"), std::process::id().to_string())
                .with_context(|| format!("cannot enter {}", group.display()))
        };
        let Some((group, own)) = &self.group else { return start() };
        enter(group)?;
        let started = start();
        enter(own)?;
        started
    }

    pub(super) fn kib(&self) -> Result<u64> {
        match &self.group {
            Some((group, _)) => {
                let text = fs::read_to_string(group.join("memory.kmem.usage_in_bytes"))?;
                Ok(text.trim().parse::<u64>()? / 1024)
            }
            None => whole(&fs::read_to_string("/proc/meminfo")?),
        }
    }
}

impl Drop for KernelMemory {
    fn drop(&mut self) {
        if let Some((group, _)) = &self.group {
            // Its processes have just ended, or the kernel does not know it yet.
            for _ in 0..200 {
                if fs::remove_dir(group).is_ok() || crate::served::pause().is_err() {
                    return;
                }
            }
        }
    }
}

/// The group of version 1's memory controller that this process is in.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == "memory").then_some(path)
    })?;
    let own = Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'));
    own.is_dir().then_some(own)
}

/// What the kernel has for itself: proc_meminfo(5).
fn whole(meminfo: &str) -> Result<u64> {
    let kinds = ["Slab", "KernelStack", "PageTables", "Percpu"];
    let of = |kind: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.with_context(|| format!("/proc/meminfo does not tell {kind}"))
    };
    kinds.into_iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_is_added_up() {
        let text = "MemTotal: 9 kB\nSlab:   100 kB\nKernelStack: 20 kB\nPageTables: 3 kB\n\
                    SlabX: 7 kB\nPercpu:  4000 kB\n";
        assert_eq!(whole(text).unwrap(), 4123);
        assert!(whole("Slab: 1 kB").is_err());
    }
}
