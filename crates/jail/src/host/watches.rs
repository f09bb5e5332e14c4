//! How much of what the caller may watch is left to a sandbox.

use crate::spec::Watches;

/// Gives half of what this kernel lets a user have, or nothing if it has no inotify.
///
/// What is watched inside counts for the caller's uid outside too, so one sandbox
/// could use up all of it. Half is 64 instances where nobody changed the kernel's
/// limit, and a program that watches takes one or two. Source: inotify(7).
#[must_use]
pub fn watches() -> Option<Watches> {
    let half = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse::<u32>().ok().map(|limit| limit / 2)
    };
    Some(Watches { instances: half("max_user_instances")?, watches: half("max_user_watches")? })
}
