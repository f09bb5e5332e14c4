//! `atoll run` from outside, by root and by an ordinary user.

mod attacks;
mod basics;
mod descriptors;
mod devices;
mod environment;
mod explained;
mod files_links;
mod files_names;
mod files_odd;
mod files_repositories;
mod files_review;
mod grants;
mod hidden;
mod image;
mod kernel;
mod limits;
mod masks;
mod namespaces;
mod nested;
mod network;
mod output;
mod probe;
mod processes;
mod procfs;
mod refusals;
mod review_rename;
mod secrets;
mod terminal;
mod toolchains;
mod work_browser;
mod work_database;
mod work_debug;
mod work_git;
mod work_node;
mod work_python;
mod work_rust;
mod work_sockets;
mod work_system;

use atoll_testkit::run::{Project, Ran, User};
use atoll_testkit::skip::is_installed;
use std::time::{Duration, Instant};

/// Runs `test` with an empty project for each user there can be.
fn each(test: impl Fn(&Project)) {
    for user in User::all() {
        test(&Project::new(user, env!("CARGO_BIN_EXE_atoll")));
    }
}

/// Runs `test` with an empty project for each user there can be, live and under
/// review; it gets the flags for that.
fn each_way(test: impl Fn(&Project, &[&str])) {
    for mode in ["live", "review"] {
        each(|project| test(project, &["--workspace", mode]));
    }
}

/// Runs a script inside and, in an empty directory beside, without a sandbox;
/// both must succeed and say the same.
fn same_as_bare(project: &Project, flags: &[&str], script: &str) -> Ran {
    let run = project.run_sh(flags, script);
    assert_eq!(run.code(), Some(0), "{}", run.text());
    let beside = project.outside();
    let bare = project.bare_sh(&format!("cd {}; {script}", beside.display()));
    assert_eq!(bare.code(), Some(0), "{}", bare.text());
    assert_eq!(run.stdout(), bare.stdout(), "{}", run.text());
    run
}

/// Waits until `holds` does. For what gives no event to wait on.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        rustix::event::poll(&mut [], Some(&soon)).unwrap();
    }
}

/// A word that no other process has among its arguments.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until the processes with `marker` in an argument are as wanted, and
/// gives them.
fn left(marker: &str, wanted: impl Fn(&[i32]) -> bool) -> Vec<i32> {
    let mut found = Vec::new();
    wait_until(&format!("processes with {marker}"), || {
        found.clear();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&arguments).contains(marker)
                && let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            {
                found.push(pid);
            }
        }
        wanted(&found)
    });
    found
}
