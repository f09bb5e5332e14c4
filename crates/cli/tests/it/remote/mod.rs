//! Commands that ask a server, through the real program on both sides.

mod apply;
mod approvals;
mod archives;
mod audit;
mod cp;
mod exec;
mod hostile;
mod look;
mod network;
mod pools;
mod sandboxes;
mod secret;
mod snapshots;
mod start;
mod templates;
mod terminal;
mod under_kill;
mod volumes;
mod work;
mod workspace;

use super::each;
use super::serve::support::{Served, socket};
use atoll_testkit::run::{Project, Ran};
use serde_json::Value;
use std::process::Command;

/// The program, told where the test's server is.
fn command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.atoll(arguments);
    command.env("ATOLL_HOST", format!("unix://{}", socket(project).display()));
    command
}

fn ask(project: &Project, arguments: &[&str]) -> Ran {
    Ran(command(project, arguments).output().unwrap())
}

/// What the program prints, which must succeed.
#[track_caller]
fn said(project: &Project, arguments: &[&str]) -> String {
    let ran = ask(project, arguments);
    assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.text());
    ran.stdout()
}

/// The JSON that it prints, line by line.
#[track_caller]
fn objects(project: &Project, arguments: &[&str]) -> Vec<Value> {
    let text = said(project, arguments);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
