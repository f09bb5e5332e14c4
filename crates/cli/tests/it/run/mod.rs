//! `atoll run` from outside, by root and by an ordinary user.

mod around;
mod attacks;
mod basics;
mod descriptors;
mod devices;
mod environment;
mod explained;
mod files_links;
mod files_names;
mod files_odd;
mod files_owners;
mod files_repositories;
mod files_review;
mod gate;
mod grants;
mod hidden;
mod image;
mod kernel;
mod landlock;
mod limits;
mod masks;
mod namespaces;
mod nested;
mod network;
mod output;
mod places;
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
mod work_hooks;
mod work_node;
mod work_python;
pub(crate) mod work_rust;
mod work_sockets;
mod work_system;
mod work_watch;

use super::each;
use atoll_testkit::process::{left, marker, wait_until};
use atoll_testkit::run::{Project, Ran};
use atoll_testkit::skip::is_installed;

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
    let mut bare = project.bare("sh");
    bare.args(["-c", script]).current_dir(beside).env("TMPDIR", project.home());
    let bare = Ran(bare.output().unwrap());
    assert_eq!(bare.code(), Some(0), "{}", bare.text());
    assert_eq!(run.stdout(), bare.stdout(), "{}", run.text());
    run
}
