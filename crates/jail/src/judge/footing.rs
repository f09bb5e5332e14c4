//! What the judge itself stands on: descriptors that no path can change.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// `PROC_SUPER_MAGIC` of statfs(2).
const PROC_MAGIC: i64 = 0x9fa0;

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

pub(super) struct Footing {
    pub(super) root: OwnedFd,
    pub(super) proc: OwnedFd,
    /// Our own `/proc/self/fd`. It is also our working directory, so that
    /// calls which only take a path can name a descriptor by its number.
    own_fds: OwnedFd,
    pub(super) pid: u32,
    privilege: Privilege,
}

#[derive(Debug, thiserror::Error)]
pub enum FootingError {
    #[error("could not open {path}")]
    Open { path: &'static str, source: Errno },
    #[error("/proc is not a procfs")]
    NotProc,
    #[error("could not enter the supervisor's own descriptor directory")]
    Enter { source: Errno },
}

impl Footing {
    pub(super) fn new() -> Result<Self, FootingError> {
        let directory = PATH_ONLY | OFlags::DIRECTORY;
        let root = open(c"/", directory, Mode::empty())
            .map_err(|source| FootingError::Open { path: "/", source })?;
        let proc = open(c"/proc", directory | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|source| FootingError::Open { path: "/proc", source })?;
        if !is_proc(proc.as_fd()) {
            return Err(FootingError::NotProc);
        }
        let own_fds = openat(&proc, c"self/fd", directory, Mode::empty())
            .map_err(|source| FootingError::Open { path: "/proc/self/fd", source })?;
        Ok(Self {
            root,
            proc,
            own_fds,
            pid: std::process::id(),
            privilege: Privilege { is_needed: Cell::new(false) },
        })
    }

    /// Makes `/proc/self/fd` the working directory of this process.
    pub(super) fn enter(&self) -> Result<(), FootingError> {
        rustix::process::fchdir(&self.own_fds).map_err(|source| FootingError::Enter { source })
    }

    /// Puts the capability aside until it is needed. Without it there is nothing
    /// to put aside.
    pub(super) fn lower(&self) {
        let _absent = set_privilege(false);
    }

    /// Raises it, for a process that gives up all it has right after.
    pub(super) fn raise(&self) {
        let _absent = set_privilege(true);
    }

    /// The path by which the kernel knows `file`, or something that does not
    /// begin with `/` for what has none.
    pub(super) fn path_of(&self, file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
        Ok(readlinkat(&self.own_fds, number(file).as_c_str(), Vec::new())?.into_bytes())
    }

    /// Opens again what `file` refers to, with other flags.
    pub(super) fn reopen(&self, file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.own_fds, number(file).as_c_str(), flags, Mode::empty())
    }

    /// Runs `work` with `directory` as the working directory of this process.
    pub(super) fn work_in<T>(
        &self,
        directory: BorrowedFd<'_>,
        work: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        rustix::process::fchdir(directory)?;
        let done = work();
        // Elsewhere a descriptor's number would be a name in the caller's directory.
        self.enter().expect("a process may always enter its own descriptor directory");
        done
    }

    pub(super) fn own_fds(&self) -> BorrowedFd<'_> {
        self.own_fds.as_fd()
    }

    /// Runs `work`, and once more with `CAP_SYS_PTRACE` if the kernel refuses.
    ///
    /// The capability is off otherwise: paths of callers lead through procfs,
    /// and with it on they would reach processes that the caller may not trace.
    pub(super) fn as_tracer<T>(&self, work: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        if !self.privilege.is_needed.get() {
            match work() {
                Err(Errno::PERM | Errno::ACCESS) => {}
                done => return done,
            }
        }
        let raised = set_privilege(true);
        let done = work();
        if raised.is_ok() {
            set_privilege(false)?;
        }
        done
    }

    /// As [`Self::as_tracer`]; where the kernel always refuses first (Yama), the
    /// refusals are soon spared.
    pub(super) fn read_memory<T>(&self, work: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        if self.privilege.is_needed.get() {
            return self.as_tracer(work);
        }
        match work() {
            Err(Errno::PERM) => {
                self.privilege.is_needed.set(true);
                let done = self.as_tracer(work);
                self.privilege.is_needed.set(yama_restricts());
                done
            }
            done => done,
        }
    }
}

struct Privilege {
    /// Memory of ordinary callers is closed without the capability.
    is_needed: Cell<bool>,
}

/// Whether even memory of same-user processes needs the capability
/// (Documentation/admin-guide/LSM/Yama.rst).
fn yama_restricts() -> bool {
    std::fs::read("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|text| !text.starts_with(b"0"))
}

/// Sets which capabilities this thread has: at most the one, and it can be
/// raised again.
fn set_privilege(is_on: bool) -> Result<(), Errno> {
    let permitted = CapabilitySet::SYS_PTRACE;
    let effective = if is_on { permitted } else { CapabilitySet::empty() };
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}

pub(super) fn is_proc(file: BorrowedFd<'_>) -> bool {
    #[expect(clippy::useless_conversion, reason = "the field's type differs between systems")]
    rustix::fs::fstatfs(file).is_ok_and(|fs| i64::try_from(fs.f_type) == Ok(PROC_MAGIC))
}

/// A descriptor's number as text, without the heap.
pub(super) struct Number([u8; 12]);

impl Number {
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

pub(super) fn number(file: BorrowedFd<'_>) -> Number {
    let mut text = [0; 12];
    let mut digits = [0; 12];
    let mut rest = file.as_raw_fd().unsigned_abs();
    let mut count = 0;
    loop {
        digits[count] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        count += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    for (to, from) in text.iter_mut().zip(digits[..count].iter().rev()) {
        *to = *from;
    }
    Number(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_looks_like_procfs_is_none() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("self/fd")).unwrap();
        let at = |path: &std::path::Path| open(path, PATH_ONLY, Mode::empty()).unwrap();
        assert!(!is_proc(at(top.path()).as_fd()));
        assert!(!is_proc(at(std::path::Path::new("/")).as_fd()));
        assert!(is_proc(at(std::path::Path::new("/proc")).as_fd()));
        assert!(is_proc(at(std::path::Path::new("/proc/self/fd")).as_fd()));
    }
}
