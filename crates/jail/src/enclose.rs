//! Walls around a process of our own that stays outside of every sandbox and talks with
//! strangers on their behalf: the gateway. It has its sockets and nothing else.

use crate::confine::{ConfineError, drop_capabilities};
use crate::seccomp;
use atoll_sys::seccomp::Listener;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr as _,
    RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The newest Landlock version whose rights are taken away.
const LANDLOCK: ABI = ABI::V6;

/// Whom it becomes where it is root: somebody who owns nothing, and no workload either.
const NOBODY: u32 = 65_532;

/// Encloses the calling process, which must have one thread, for good: no files, no programs, no
/// threads, no other processes, sockets of IPv4 and IPv6 alone, none that listens. What it has
/// open stays. Nobody can read its memory, and it leaves no core.
///
/// # Errors
///
/// The call that failed; the process must then end.
pub fn enclose() -> Result<(), ConfineError> {
    let failed = |call: &'static str| move |source| ConfineError::Call { call, source };
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none)
        .map_err(|error| failed("setrlimit(RLIMIT_CORE)")(error.into()))?;
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        atoll_sys::caps::keep_in_bounding_set(0).map_err(failed("prctl(PR_CAPBSET_DROP)"))?;
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[]).map_err(|error| failed("setgroups")(error.into()))?;
        set_thread_res_gid(gid, gid, gid).map_err(|error| failed("setresgid")(error.into()))?;
        set_thread_res_uid(uid, uid, uid).map_err(|error| failed("setresuid")(error.into()))?;
    }
    drop_capabilities(0)?;
    // After the change of user, which sets it anew.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| failed("prctl(PR_SET_DUMPABLE)")(error.into()))?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::NoLandlock);
    }
    atoll_sys::seccomp::install(&seccomp::own().instructions, Listener::None)
        .map_err(failed("seccomp"))?;
    Ok(())
}
