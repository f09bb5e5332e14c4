//! All execs that are remembered, in the order of their start.

use super::exec::Exec;
use super::server::Limits;
use atoll_protocol::problem::{Code, Problem};

#[derive(Debug, Default)]
pub(super) struct Table {
    execs: Vec<Exec>,
}

impl Table {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Exec> {
        self.execs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Exec> {
        self.execs.iter_mut()
    }

    pub(super) fn find(&self, id: &str) -> Option<&Exec> {
        self.execs.iter().find(|exec| exec.id == id)
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut Exec> {
        self.execs.iter_mut().find(|exec| exec.id == id)
    }

    /// The same, or the problem that there is none.
    pub(super) fn get(&mut self, id: &str) -> Result<&mut Exec, Problem> {
        self.find_mut(id).ok_or_else(|| absent(id))
    }

    /// The one whose first process this is, and runs or was just collected.
    pub(super) fn of_process(&mut self, pid: i32) -> Option<&mut Exec> {
        self.execs.iter_mut().find(|exec| exec.is_running() && exec.pid() == pid)
    }

    pub(super) fn add(&mut self, exec: Exec) {
        self.execs.push(exec);
    }

    /// Forgets an exec that has ended.
    pub(super) fn forget(&mut self, id: &str) -> Result<(), Problem> {
        if self.get(id)?.ended().is_none() {
            let text = format!("exec {id} is still running, so it cannot be forgotten");
            return Err(Problem::new(Code::Conflict, text));
        }
        self.execs.retain(|exec| exec.id != id);
        Ok(())
    }

    pub(super) fn running(&self) -> usize {
        self.execs.iter().filter(|exec| exec.is_running()).count()
    }

    /// Bytes of memory that all output takes.
    pub(super) fn memory(&self) -> u64 {
        self.execs.iter().map(Exec::memory).sum()
    }

    fn promised(&self) -> u64 {
        self.execs.iter().map(Exec::promised).sum()
    }

    /// Makes room for one more, which may keep `bytes`: the oldest that have ended
    /// are forgotten, for nobody follows them by `is_followed`.
    pub(super) fn make_room(
        &mut self,
        bytes: u64,
        limits: &Limits,
        is_followed: impl Fn(&str) -> bool,
    ) -> Result<(), Problem> {
        if self.running() >= limits.running {
            let text = format!("{} execs are running, which is the limit", limits.running);
            return Err(Problem::new(Code::Limit, text));
        }
        while self.execs.len() >= limits.remembered || self.promised() + bytes > limits.kept_bytes {
            let oldest = self
                .execs
                .iter()
                .position(|exec| exec.ended().is_some() && !is_followed(&exec.id))
                .ok_or_else(|| {
                    let text = "what running execs keep of their output is at its limit";
                    Problem::new(Code::Limit, text)
                })?;
            self.execs.remove(oldest);
        }
        Ok(())
    }
}

/// There is no such exec.
pub(super) fn absent(id: &str) -> Problem {
    let text = format!("there is no exec {id:?}, or it has been forgotten");
    Problem::new(Code::NotFound, text)
}
