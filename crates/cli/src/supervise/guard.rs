//! A small process that cleans up when the launcher dies by any means, `SIGKILL`
//! included.
//!
//! It holds the reading end of a pipe whose writing end only the launcher has. At
//! the end of file the launcher is dead, and the guard does its duties and exits;
//! a launcher that ends well says so first, and nothing is done twice. It leads a
//! session of its own with all signals blocked, so neither a key on the terminal
//! nor a signal to the launcher's process group reaches it, and it holds no other
//! descriptor than the pipe and the terminal: nobody waits for an end of file
//! because of it.

use super::terminal::{NOTE_RAW, NOTE_RESTORED, Terminal, same_input};
use atoll_sys::helper::{Helper, fork_helper, wait_for_helper};
use atoll_sys::process::{SignalSet, exit_now, set_signal_mask};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, Termios};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NOTE_DONE: u8 = b'D';

/// Something outside of the jail that must not be left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleanup {
    /// Kills everything in these control groups (v2 or v1) and removes them with
    /// their subgroups.
    KillAndRemoveCgroup { dirs: Vec<PathBuf> },
    /// Removes a directory with all that is in it. Links are not followed.
    RemoveDir(PathBuf),
}

/// A cleanup that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    #[error("cannot remove the cgroup {}", path.display())]
    Cgroup { path: PathBuf, source: io::Error },
    #[error("cannot remove {}", path.display())]
    Dir { path: PathBuf, source: io::Error },
}

/// A guard could not be started.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("cannot make the guard's pipe")]
    Pipe(#[source] io::Error),
    #[error("cannot start the guard")]
    Fork(#[source] io::Error),
}

/// The launcher's hold on its guard. Dropping it is like dying.
#[derive(Debug)]
pub struct Guard {
    pipe: OwnedFd,
    pid: i32,
}

impl Guard {
    /// Starts a guard for the terminal and the cleanups; `None` when there is
    /// nothing to guard.
    ///
    /// # Errors
    ///
    /// When descriptors or processes run out.
    ///
    /// # Panics
    ///
    /// If the process has more than one thread.
    pub fn start(
        terminal: Option<&mut Terminal>,
        cleanups: Vec<Cleanup>,
    ) -> Result<Option<Self>, GuardError> {
        if terminal.is_none() && cleanups.is_empty() {
            return Ok(None);
        }
        let (notes, pipe) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| GuardError::Pipe(error.into()))?;
        let told = rustix::io::fcntl_dupfd_cloexec(&pipe, 3);
        let told = told.map_err(|error| GuardError::Pipe(error.into()))?;
        match fork_helper().map_err(GuardError::Fork)? {
            Helper::Child => watch(&notes, terminal.as_deref(), &cleanups),
            Helper::Parent(pid) => {
                if let Some(terminal) = terminal {
                    terminal.tell(told);
                }
                Ok(Some(Self { pipe, pid }))
            }
        }
    }

    /// The guard's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Tells the guard that nothing is left to do, and waits until it is gone.
    pub fn finish(self) {
        // A guard that somebody has killed cannot be told and need not be.
        rustix::io::write(&self.pipe, &[NOTE_DONE]).ok();
        wait_for_helper(self.pid).ok();
    }
}

/// The guard's whole life.
fn watch(notes: &OwnedFd, terminal: Option<&Terminal>, cleanups: &[Cleanup]) -> ! {
    // Nothing here can be told to anybody: each step is tried and the next goes on.
    set_signal_mask(SignalSet::ALL).ok();
    rustix::process::setsid().ok();
    rustix::thread::set_name(c"atoll-guard").ok();
    // The current directory would keep a mount busy.
    rustix::process::chdir("/").ok();
    let modes = terminal.and_then(|terminal| {
        let saved = terminal.saved()?;
        Some((terminal.fd(), saved, terminal.raw_form(saved)))
    });
    let mut keep = vec![notes.as_fd()];
    keep.extend(modes.as_ref().map(|(fd, ..)| *fd));
    close_others(&keep);
    let mut is_raw = false;
    loop {
        let mut note = [0];
        match rustix::io::read(notes, &mut note) {
            Ok(0) => break,
            Ok(_) if note[0] == NOTE_DONE => exit_now(0),
            Ok(_) if note[0] == NOTE_RAW => is_raw = true,
            Ok(_) if note[0] == NOTE_RESTORED => is_raw = false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    if is_raw && let Some((fd, saved, raw)) = &modes {
        restore(*fd, saved, raw);
    }
    for cleanup in cleanups {
        cleanup.perform().ok();
    }
    exit_now(0)
}

/// Restores the terminal if it still has the launcher's modes: the shell may have
/// been faster and have set its own.
///
/// The terminal is not the guard's controlling one, so no `SIGTTOU` is in the way.
fn restore(fd: BorrowedFd<'_>, saved: &Termios, raw: &Termios) {
    if rustix::termios::tcgetattr(fd).is_ok_and(|now| same_input(raw, &now)) {
        rustix::termios::tcsetattr(fd, OptionalActions::Now, saved).ok();
    }
}

/// Closes every descriptor but these.
fn close_others(keep: &[BorrowedFd<'_>]) {
    use std::os::fd::AsRawFd as _;
    let mut numbers: Vec<u32> =
        keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    numbers.sort_unstable();
    let mut first = 0;
    for number in numbers {
        if let Some(last) = number.checked_sub(1)
            && first <= last
        {
            atoll_sys::fd::close_between(first, last).ok();
        }
        first = number + 1;
    }
    atoll_sys::fd::close_from(first).ok();
}

impl Cleanup {
    /// Does it. What is gone already is no failure.
    ///
    /// # Errors
    ///
    /// When something is left after some seconds.
    pub fn perform(&self) -> Result<(), CleanupError> {
        match self {
            Self::KillAndRemoveCgroup { dirs } => {
                let results: Vec<_> = dirs.iter().map(|dir| remove_cgroup(dir)).collect();
                results.into_iter().collect()
            }
            Self::RemoveDir(path) => {
                remove_dir(path).map_err(|source| CleanupError::Dir { path: path.clone(), source })
            }
        }
    }
}

/// Kills and removes until the group is gone: processes leave it some time after
/// they were killed.
fn remove_cgroup(dir: &Path) -> Result<(), CleanupError> {
    retry(|| {
        kill_members(dir);
        match remove_group_tree(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    })
    .map_err(|source| CleanupError::Cgroup { path: dir.to_owned(), source })
}

/// Kills by `cgroup.kill` where there is one (v2, Linux 5.14), else one by one.
fn kill_members(dir: &Path) {
    if std::fs::OpenOptions::new()
        .write(true)
        .open(dir.join("cgroup.kill"))
        .and_then(|mut file| io::Write::write_all(&mut file, b"1"))
        .is_ok()
    {
        return;
    }
    for group in subgroups(dir).into_iter().chain([dir.to_owned()]) {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

fn remove_group_tree(dir: &Path) -> io::Result<()> {
    for group in subgroups(dir) {
        match std::fs::remove_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::remove_dir(dir)
}

/// The groups below `dir`, each before the one that it is in.
fn subgroups(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(subgroups(&entry.path()));
            found.push(entry.path());
        }
    }
    found
}

/// Removes a tree; a directory that its owner may not enter (overlayfs makes such
/// a one) is opened up. The last processes of a jail may still be dying, so what
/// they hold or add is tried again.
fn remove_dir(path: &Path) -> io::Result<()> {
    let mut opened = false;
    retry(|| match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !opened => {
            opened = true;
            open_up(path);
            std::fs::remove_dir_all(path)
        }
        result => result,
    })
}

/// Tries again, for some seconds, what fails only because of a process that has
/// not quite gone.
fn retry(mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        match act() {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ResourceBusy | io::ErrorKind::DirectoryNotEmpty
                ) && Instant::now() < until => {}
            result => return result,
        }
        pause_for(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn open_up(dir: &Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).ok();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// There is nothing to wait on for the moment at which a group can be removed.
fn pause_for(time: Duration) {
    if let Ok(time) = rustix::event::Timespec::try_from(time) {
        rustix::event::poll(&mut [], Some(&time)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_a_closed_directory_is_removed_and_a_link_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let kept = base.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "").unwrap();
        let run = base.path().join("run");
        std::fs::create_dir_all(run.join("work/work")).unwrap();
        std::os::unix::fs::symlink(&kept, run.join("link")).unwrap();
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(run.join("work/work"), closed).unwrap();
        Cleanup::RemoveDir(run.clone()).perform().unwrap();
        assert!(!run.exists());
        assert!(kept.join("file").exists());
        Cleanup::RemoveDir(run).perform().unwrap();
    }

    #[test]
    fn a_group_that_is_gone_is_no_failure() {
        let dirs = vec![PathBuf::from("/sys/fs/cgroup/no-such-group-of-atoll")];
        Cleanup::KillAndRemoveCgroup { dirs }.perform().unwrap();
    }
}
