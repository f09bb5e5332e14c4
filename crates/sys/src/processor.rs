//! Which processor a new child runs on.
//!
//! The scheduler often leaves a new child on its parent's processor, where one of the
//! two waits for the other though another processor is idle. Where there is no other
//! processor, or the calls are refused, all is merely slower.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processor that the caller is on.
#[must_use]
pub fn current() -> usize {
    sched_getcpu()
}

/// Keeps `who` (the caller if none) off the processor `cpu`, and gives it back the
/// others that it may use. Allocates nothing.
///
/// Source: sched_setaffinity(2).
pub fn keep_off(cpu: usize, who: Option<Pid>) {
    let Ok(mut others) = sched_getaffinity(who) else { return };
    others.unset(cpu);
    if others.count() > 0 {
        sched_setaffinity(who, &others).ok();
    }
}

/// The processors that a process may use, for giving them back.
#[derive(Debug, Clone, Copy)]
pub struct Affinity(Option<CpuSet>);

impl Affinity {
    /// Those of the caller.
    #[must_use]
    pub fn of_caller() -> Self {
        Self(sched_getaffinity(None).ok())
    }

    /// Gives the caller these processors.
    ///
    /// Where all that its cpuset has are among them, that is said by asking for every
    /// processor there can be: so what the cpuset gains later is gained as well, as by
    /// a process that nobody ever restricted (cpuset(7)).
    pub fn restore(self) {
        let Some(before) = self.0 else { return };
        sched_setaffinity(None, &everything()).ok();
        if sched_getaffinity(None) != Ok(before) {
            sched_setaffinity(None, &before).ok();
        }
    }
}

fn everything() -> CpuSet {
    let mut all = CpuSet::new();
    for cpu in 0..CpuSet::MAX_CPU {
        all.set(cpu);
    }
    all
}
