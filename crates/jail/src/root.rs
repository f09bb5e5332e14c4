//! The root inside: another user than the workload's, with just the rights that
//! installing software takes, over the sandbox's own files and processes.
//!
//! Its capabilities are of the sandbox's user namespace, so they hold for files whose
//! owner and group are ids of the sandbox, and for nothing of the host. What they could
//! be used for beyond that is refused behind the same walls as for everybody: mounts,
//! namespaces, other processes' memory, the kernel's settings.
//!
//! PID 1 is the workload's user with these rights in reserve: none but `CAP_KILL` counts
//! in itself. It was never exec'd inside and is not dumpable, so its memory belongs to
//! the user namespace outside, and no capability of this one reaches it.
//!
//! Source: capabilities(7), user_namespaces(7).

use crate::confine::ConfineError;
use atoll_sys::caps;
use rustix::process::{Gid, Uid};
use std::io;

/// To own, read and change every file of the sandbox, to be any user of it, to signal them.
pub const RIGHTS: u64 = 1 << caps::CHOWN
    | 1 << caps::DAC_OVERRIDE
    | 1 << caps::FOWNER
    | 1 << caps::FSETID
    | 1 << caps::KILL
    | 1 << caps::SETGID
    | 1 << caps::SETUID;

/// Has PID 1 keep what it needs to start commands of both users.
///
/// # Errors
///
/// The call that failed.
pub fn keep_in_reserve() -> Result<(), ConfineError> {
    // Without the first it could not end what root started.
    permit(RESERVE, 1 << caps::KILL)
}

/// The last empties the bounding set of those who are not root.
const RESERVE: u64 = RIGHTS | 1 << caps::SETPCAP;

/// Has a child of PID 1 give up every right there is, for good; the caller then drops
/// what is permitted.
///
/// # Errors
///
/// The call that failed.
pub fn renounce() -> Result<(), ConfineError> {
    permit(RESERVE, 1 << caps::SETPCAP)?;
    caps::keep_in_bounding_set(0).map_err(failed("prctl(PR_CAPBSET_DROP)"))
}

/// Has a child of PID 1 become root.
pub(crate) fn become_root() -> Result<(), ConfineError> {
    permit(RESERVE, RIGHTS)?;
    let call = |call| move |error: rustix::io::Errno| failed(call)(error.into());
    rustix::thread::set_thread_groups(&[]).map_err(call("setgroups"))?;
    let (root, group) = (Uid::ROOT, Gid::ROOT);
    rustix::thread::set_thread_res_gid(group, group, group).map_err(call("setresgid"))?;
    rustix::thread::set_thread_res_uid(root, root, root).map_err(call("setresuid"))?;
    permit(RIGHTS, RIGHTS)
}

fn permit(permitted: u64, effective: u64) -> Result<(), ConfineError> {
    caps::keep_permitted(permitted, effective).map_err(failed("capset"))
}

fn failed(call: &'static str) -> impl Fn(io::Error) -> ConfineError {
    move |source| ConfineError::Call { call, source }
}
