//! Processes of a test's own, and waiting for them.

use std::time::{Duration, Instant};

/// How long any one wait may take; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `holds` does. For what gives no event to wait on.
///
/// # Panics
///
/// If it does not hold in time; `what` says what was waited for.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        rustix::event::poll(&mut [], Some(&soon)).expect("wait a moment");
    }
}

/// A word that no other process has among its arguments.
#[must_use]
pub fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes with `marker` in an argument, zombies excluded.
///
/// # Panics
///
/// If there is no procfs.
#[must_use]
pub fn processes(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("procfs").flatten() {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&arguments).contains(marker)
            && let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
        {
            found.push(pid);
        }
    }
    found
}

/// Waits until the processes with `marker` in an argument are as wanted, and
/// gives them.
///
/// # Panics
///
/// If they do not become so in time.
pub fn left(marker: &str, wanted: impl Fn(&[i32]) -> bool) -> Vec<i32> {
    let mut found = Vec::new();
    wait_until(&format!("processes with {marker}"), || {
        found = processes(marker);
        wanted(&found)
    });
    found
}
