//! A run's groups: made, entered, read, killed and removed.

use super::events::Events;
use super::files::{open_dir, read_file, write_file};
use super::layout::{Controller, Layout};
use super::plan::{Limits, LimitsError, Plan, Role, Unenforced, Write, added, plan};
use super::wait::{self, Deadline};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, flock, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A step on a group failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("a limit makes no sense")]
    Limits(#[from] LimitsError),
    #[error("{name:?} is no name for a cgroup")]
    Name { name: String },
    #[error("cannot open the cgroup {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot create the cgroup {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {value:?} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("cannot wait for the processes in {}", path.display())]
    Wait { path: PathBuf, source: io::Error },
    #[error("cannot remove the cgroup {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("the cgroup {} still holds processes after {} ms", path.display(), waited.as_millis())]
    Busy { path: PathBuf, waited: Duration },
    #[error("there is no cgroup v2 tree to freeze processes with")]
    NoFreezer,
}

/// One directory of a group.
#[derive(Debug)]
pub(super) struct Node {
    parent: OwnedFd,
    pub(super) dir: OwnedFd,
    pub(super) path: PathBuf,
    name: String,
    /// The controllers of a v1 tree; `None` on v2.
    pub(super) v1: Option<Vec<Controller>>,
}

impl Node {
    pub(super) fn read(&self, file: &str) -> Result<String, CgroupError> {
        read_file(&self.dir, file)
            .map_err(|error| CgroupError::Read { path: self.path.join(file), source: error.into() })
    }

    fn write(&self, file: &str, value: &str) -> Result<(), CgroupError> {
        write_file(&self.dir, file, value).map_err(|error| CgroupError::Write {
            path: self.path.join(file),
            value: value.to_owned(),
            source: error.into(),
        })
    }

    /// The processes directly in this group, as our pid namespace knows them.
    pub(super) fn tasks(&self) -> Result<Vec<Pid>, CgroupError> {
        let list = self.read("cgroup.procs")?;
        // A process of another pid namespace is listed as 0.
        Ok(list.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
    }

    /// Removes the directory once its processes are gone.
    fn remove(&self, deadline: &Deadline) -> Result<(), CgroupError> {
        loop {
            match unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::BUSY) if deadline.has_passed() => {
                    let waited = deadline.allowed();
                    return Err(CgroupError::Busy { path: self.path.clone(), waited });
                }
                Err(Errno::BUSY) => wait::until_fewer(self, deadline)?,
                Err(error) => {
                    let source = error.into();
                    return Err(CgroupError::Remove { path: self.path.clone(), source });
                }
            }
        }
    }
}

/// Where this process went so that its v2 cgroup could hand on controllers.
#[derive(Debug)]
struct Aside {
    parent: OwnedFd,
    path: PathBuf,
    leaf: String,
    enabled: Vec<Controller>,
}

/// The cgroups of one run. Dropping it removes them if they are empty.
#[derive(Debug)]
pub struct Group {
    nodes: Vec<Node>,
    aside: Option<Aside>,
}

impl Group {
    /// Makes the group `name` (see [`super::run_name`]) with `limits`.
    ///
    /// A limit that this host does not let us set is reported, not an error;
    /// whether the run may go on without it is for the caller to decide.
    ///
    /// # Errors
    ///
    /// For limits that make no sense, and when a step fails that the layout
    /// promised. Nothing is left behind then.
    pub fn create(
        layout: &Layout,
        name: &str,
        limits: &Limits,
    ) -> Result<(Self, Vec<Unenforced>), CgroupError> {
        limits.check()?;
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) {
            return Err(CgroupError::Name { name: name.to_owned() });
        }
        let Plan { writes, mut unenforced } = plan(layout, name, limits);
        let mut group = Self { nodes: Vec::new(), aside: None };
        for write in writes {
            group.apply(write, &mut unenforced)?;
        }
        Ok((group, unenforced))
    }

    /// Opens what there is of the group `name`, whoever made it: `None` if nothing
    /// is. Dropping it removes what is empty by then.
    ///
    /// # Errors
    ///
    /// When a directory of it cannot be opened.
    pub fn find(layout: &Layout, name: &str) -> Result<Option<Self>, CgroupError> {
        let everywhere = Limits { memory_bytes: Some(u64::MAX), pids: Some(1), cpus: Some(1.0) };
        let plans = [plan(layout, name, &everywhere), plan(layout, name, &Limits::default())];
        let mut group = Self { nodes: Vec::new(), aside: None };
        for write in plans.into_iter().flat_map(|plan| plan.writes) {
            let Write::Create { parent, name, role } = write else { continue };
            let path = parent.join(&name);
            if group.nodes.iter().any(|node| node.path == path) {
                continue;
            }
            let parent = open(&parent)?;
            match open_dir(&parent, &name) {
                Ok(dir) => group.nodes.push(Node { parent, dir, path, name, v1: role.v1() }),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(CgroupError::Open { path, source: error.into() }),
            }
        }
        Ok((!group.nodes.is_empty()).then_some(group))
    }

    fn apply(&mut self, write: Write, unenforced: &mut Vec<Unenforced>) -> Result<(), CgroupError> {
        match write {
            Write::StepAside { dir, leaf } => self.step_aside(dir, leaf),
            Write::Enable { dir, controllers } => self.enable(&dir, controllers),
            Write::Create { parent, name, role } => {
                self.nodes.push(create_node(&parent, name, role)?);
                Ok(())
            }
            Write::Set { file, value, limit } => {
                let node = self.nodes.last().expect("a plan creates before it sets");
                let done = write_file(&node.dir, file, &value);
                if let (Err(error), Some(limit)) = (done, limit) {
                    let path = node.path.join(file);
                    let missing = Unenforced::by_write(limit, &path, &value, &error.into());
                    unenforced.push(missing);
                }
                Ok(())
            }
        }
    }

    fn step_aside(&mut self, dir: PathBuf, leaf: String) -> Result<(), CgroupError> {
        let node = create_node(&dir, leaf, Role::Unified)?;
        let moved = node.write("cgroup.procs", "0");
        let Node { parent, name, .. } = node;
        self.aside = Some(Aside { parent, path: dir, leaf: name, enabled: Vec::new() });
        moved
    }

    fn enable(&mut self, dir: &Path, controllers: Vec<Controller>) -> Result<(), CgroupError> {
        let parent = open(dir)?;
        let value = added(&controllers);
        let file = "cgroup.subtree_control";
        write_file(&parent, file, &value).map_err(|error| CgroupError::Write {
            path: dir.join(file),
            value,
            source: error.into(),
        })?;
        if let Some(aside) = &mut self.aside {
            aside.enabled = controllers;
        }
        Ok(())
    }

    /// The v2 directory for `CLONE_INTO_CGROUP` (clone3(2), Linux 5.7).
    pub fn join_fd(&self) -> Option<BorrowedFd<'_>> {
        self.nodes.iter().find(|node| node.v1.is_none()).map(|node| node.dir.as_fd())
    }

    /// The same by its path, for whoever has it cloned elsewhere.
    #[must_use]
    pub fn join_path(&self) -> Option<&Path> {
        self.nodes.iter().find(|node| node.v1.is_none()).map(|node| node.path.as_path())
    }

    /// Whether [`Self::attach`] has anything to do. The first attach after a
    /// while costs 8 ms: the kernel waits for a grace period.
    pub fn needs_attach(&self) -> bool {
        self.nodes.iter().any(|node| node.v1.is_some())
    }

    /// Every directory of the group, for whoever removes it when we cannot.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.path.clone()).collect()
    }

    /// Moves `pid` into the v1 directories.
    ///
    /// # Errors
    ///
    /// When the process is gone (`ESRCH`) or may not be moved.
    pub fn attach(&self, pid: Pid) -> Result<(), CgroupError> {
        let legacy = self.nodes.iter().filter(|node| node.v1.is_some());
        move_into(legacy, pid)
    }

    /// Moves `pid` into all directories, for kernels whose clone cannot.
    ///
    /// # Errors
    ///
    /// As [`Self::attach`].
    pub fn attach_everywhere(&self, pid: Pid) -> Result<(), CgroupError> {
        move_into(self.nodes.iter(), pid)
    }

    /// What happened in the group so far. The figures stay readable after the
    /// last process is gone, until the group is removed.
    ///
    /// # Errors
    ///
    /// When a file that exists cannot be read.
    pub fn events(&self) -> Result<Events, CgroupError> {
        Events::read(&self.nodes)
    }

    /// Stops all processes of the group where they are, and waits until they
    /// stand. They still die of `SIGKILL`.
    ///
    /// # Errors
    ///
    /// Without a v2 tree, or when they do not stand in time.
    pub fn freeze(&self, within: Duration) -> Result<(), CgroupError> {
        let node = self.unified()?;
        node.write("cgroup.freeze", "1")?;
        wait::until_event(node, "frozen", 1, &Deadline::after(within))
    }

    /// Says whether its processes stand still.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        let events = self.unified().and_then(|node| node.read("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
    }

    /// Lets frozen processes go on.
    ///
    /// # Errors
    ///
    /// Without a v2 tree.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        self.unified()?.write("cgroup.freeze", "0")
    }

    fn unified(&self) -> Result<&Node, CgroupError> {
        self.nodes.iter().find(|node| node.v1.is_none()).ok_or(CgroupError::NoFreezer)
    }

    /// Kills every process of the group, those included that are being made.
    /// Returns before they are gone; [`Self::remove`] waits for that.
    ///
    /// # Errors
    ///
    /// When the task list cannot be read or a process may not be killed.
    pub fn kill(&self) -> Result<(), CgroupError> {
        for node in &self.nodes {
            if node.v1.is_none() {
                // Since Linux 5.14.
                match write_file(&node.dir, "cgroup.kill", "1") {
                    Ok(()) => continue,
                    Err(Errno::NOENT) => {}
                    Err(error) => {
                        let path = node.path.join("cgroup.kill");
                        let value = "1".to_owned();
                        return Err(CgroupError::Write { path, value, source: error.into() });
                    }
                }
            }
            kill_by_list(node)?;
        }
        Ok(())
    }

    /// Kills what is left and removes the group.
    ///
    /// # Errors
    ///
    /// When processes are still there at the deadline, as they are while they
    /// hang in the kernel.
    pub fn remove(mut self, within: Duration) -> Result<(), CgroupError> {
        self.kill()?;
        let deadline = Deadline::after(within);
        let mut outcome = Ok(());
        for node in std::mem::take(&mut self.nodes) {
            let removed = node.remove(&deadline);
            outcome = outcome.and(removed);
        }
        self.step_back();
        outcome
    }

    /// Undoes a step aside. Only a courtesy: where it fails the leaf goes with
    /// the scope, or with the next sweep of stale groups.
    fn step_back(&mut self) {
        let Some(aside) = self.aside.take() else { return };
        let withdrawn: Vec<_> =
            aside.enabled.iter().map(|controller| format!("-{}", controller.name())).collect();
        // Withdrawing the controllers would strip the limits of other groups.
        if has_other_groups(&aside) {
            return;
        }
        let steps = write_file(&aside.parent, "cgroup.subtree_control", &withdrawn.join(" "))
            .and_then(|()| write_file(&aside.parent, "cgroup.procs", "0"))
            .and_then(|()| unlinkat(&aside.parent, &aside.leaf, AtFlags::REMOVEDIR));
        steps.ok();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for node in &self.nodes {
            // Nobody is left to tell; a sweep finds what stays behind.
            unlinkat(&node.parent, &node.name, AtFlags::REMOVEDIR).ok();
        }
        self.step_back();
    }
}

fn has_other_groups(aside: &Aside) -> bool {
    let Ok(entries) = std::fs::read_dir(&aside.path) else { return true };
    let mut groups = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| *entry.file_name() != *aside.leaf);
    groups.next().is_some()
}

fn open(dir: &Path) -> Result<OwnedFd, CgroupError> {
    open_dir(CWD, dir)
        .map_err(|error| CgroupError::Open { path: dir.to_owned(), source: error.into() })
}

fn create_node(parent: &Path, name: String, role: Role) -> Result<Node, CgroupError> {
    let path = parent.join(&name);
    let parent = open(parent)?;
    mkdirat(&parent, &name, Mode::from_raw_mode(0o755))
        .map_err(|error| CgroupError::Create { path: path.clone(), source: error.into() })?;
    let dir = match open_dir(&parent, &name) {
        Ok(dir) => dir,
        Err(error) => {
            unlinkat(&parent, &name, AtFlags::REMOVEDIR).ok();
            return Err(CgroupError::Open { path, source: error.into() });
        }
    };
    // For those who sweep in another pid namespace, to whom we look gone.
    flock(&dir, FlockOperation::NonBlockingLockShared).ok();
    Ok(Node { parent, dir, path, name, v1: role.v1() })
}

impl Role {
    fn v1(self) -> Option<Vec<Controller>> {
        match self {
            Self::Unified => None,
            Self::Legacy(controllers) => Some(controllers),
        }
    }
}

fn move_into<'a>(nodes: impl Iterator<Item = &'a Node>, pid: Pid) -> Result<(), CgroupError> {
    let pid = pid.as_raw_nonzero().to_string();
    for node in nodes {
        node.write("cgroup.procs", &pid)?;
    }
    Ok(())
}

/// Sweeps until no process is seen that was not sent the signal: one that has
/// been sent it can fork no more.
fn kill_by_list(node: &Node) -> Result<(), CgroupError> {
    let mut sent = BTreeSet::new();
    loop {
        let new: Vec<_> =
            node.tasks()?.into_iter().filter(|pid| !sent.contains(&pid.as_raw_nonzero())).collect();
        if new.is_empty() {
            return Ok(());
        }
        for pid in new {
            sent.insert(pid.as_raw_nonzero());
            kill_member(node, pid)?;
        }
    }
}

/// Kills `pid` if it is still in the group: by now the number may be another
/// process's, so it is pinned first and looked up again.
fn kill_member(node: &Node, pid: Pid) -> Result<(), CgroupError> {
    let pinned = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pinned) => pinned,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => {
            return Err(CgroupError::Wait { path: node.path.clone(), source: error.into() });
        }
    };
    if !node.tasks()?.contains(&pid) {
        return Ok(());
    }
    match pidfd_send_signal(pinned, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(CgroupError::Wait { path: node.path.clone(), source: error.into() }),
    }
}
