//! What a group went through.

use super::files::{keyed, read_file};
use super::group::{CgroupError, Node};
use super::layout::Controller;
use rustix::io::Errno;

/// Figures of a group since it was made; `None` where nothing counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// Processes that were killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Forks that failed at the pids limit.
    pub pids_hits: Option<u64>,
    /// The most memory that was charged at once.
    pub memory_peak_bytes: Option<u64>,
    pub cpu_usage_us: Option<u64>,
    /// Memory that is charged now.
    pub memory_bytes: Option<u64>,
}

impl Events {
    pub(super) fn read(nodes: &[Node]) -> Result<Self, CgroupError> {
        let mut events = Self::default();
        for node in nodes {
            let seen = match &node.v1 {
                None => Self::unified(node)?,
                Some(controllers) => Self::legacy(node, controllers)?,
            };
            events = events.or(seen);
        }
        Ok(events)
    }

    fn or(self, other: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.or(other.oom_kills),
            pids_hits: self.pids_hits.or(other.pids_hits),
            memory_peak_bytes: self.memory_peak_bytes.or(other.memory_peak_bytes),
            cpu_usage_us: self.cpu_usage_us.or(other.cpu_usage_us),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
        }
    }

    /// Source: cgroup-v2.rst. `memory.peak` is there since Linux 5.19;
    /// `cpu.stat` counts even where the cpu controller is not handed on.
    fn unified(node: &Node) -> Result<Self, CgroupError> {
        Ok(Self {
            oom_kills: optional(node, "memory.events")?.and_then(|text| keyed(&text, "oom_kill")),
            pids_hits: optional(node, "pids.events")?.and_then(|text| keyed(&text, "max")),
            memory_peak_bytes: optional(node, "memory.peak")?.and_then(|text| number(&text)),
            cpu_usage_us: optional(node, "cpu.stat")?.and_then(|text| keyed(&text, "usage_usec")),
            memory_bytes: optional(node, "memory.current")?.and_then(|text| number(&text)),
        })
    }

    /// Sources: cgroup-v1/memory.rst, pids.rst, cpuacct.rst.
    fn legacy(node: &Node, controllers: &[Controller]) -> Result<Self, CgroupError> {
        let mut events = Self::default();
        if controllers.contains(&Controller::Memory) {
            events.oom_kills =
                optional(node, "memory.oom_control")?.and_then(|text| keyed(&text, "oom_kill"));
            events.memory_peak_bytes =
                optional(node, "memory.max_usage_in_bytes")?.and_then(|text| number(&text));
            events.memory_bytes =
                optional(node, "memory.usage_in_bytes")?.and_then(|text| number(&text));
        }
        if controllers.contains(&Controller::Pids) {
            events.pids_hits = optional(node, "pids.events")?.and_then(|text| keyed(&text, "max"));
        }
        if controllers.contains(&Controller::Cpuacct) {
            let nanoseconds = optional(node, "cpuacct.usage")?.and_then(|text| number(&text));
            events.cpu_usage_us = nanoseconds.map(|nanoseconds| nanoseconds / 1_000);
        }
        Ok(events)
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A file that this kernel or this group may lack.
fn optional(node: &Node, file: &str) -> Result<Option<String>, CgroupError> {
    match read_file(&node.dir, file) {
        Ok(text) => Ok(Some(text)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(CgroupError::Read { path: node.path.join(file), source: error.into() }),
    }
}
