//! What a run reaches through the gateway, and what it does not: by root and by an ordinary user,
//! in an internet of the test's own.

mod asking;
mod attacks;
mod names;
mod passing;
mod process;
mod requests;
mod secrets;
mod ways;
mod work_database;
mod work_git;
mod work_hints;
mod work_http;
mod work_java;
mod work_node;
mod work_python;
mod work_rust;

use super::each;
use atoll_testkit::internet::Internet;
use atoll_testkit::run::{Project, Ran};
use std::path::PathBuf;
use std::process::Command;

/// `atoll run FLAGS` in an internet, up to the command.
fn atoll(internet: &Internet, project: &Project, flags: &[&str]) -> Command {
    let roots = project.outside().join("authority.pem");
    std::fs::write(&roots, internet.certificate()).unwrap();
    let mut command = project.atoll(&["run"]);
    command.args(flags).env("ATOLL_DNS", internet.dns()).env("SSL_CERT_FILE", roots);
    command.env("ATOLL_STATE", state(project));
    command
}

/// Where secrets of the test are kept.
fn state(project: &Project) -> PathBuf {
    project.home().join("state")
}

/// Runs a script of the shell with these flags.
fn run_sh(internet: &Internet, project: &Project, flags: &[&str], script: &str) -> Ran {
    let mut command = atoll(internet, project, flags);
    Ran(command.args(["--", "sh", "-c", script]).output().unwrap())
}

/// Runs a program of Python's with these flags.
fn run_python(internet: &Internet, project: &Project, flags: &[&str], program: &str) -> Ran {
    let mut command = atoll(internet, project, flags);
    Ran(command.args(["--", "python3", "-c", program]).output().unwrap())
}

/// Flags that allow each of these rules.
fn allowing<'a>(rules: &[&'a str]) -> Vec<&'a str> {
    rules.iter().flat_map(|rule| ["--allow-host", rule]).collect()
}

/// What there is to say of the network at the end of a run.
fn told(ran: &Ran) -> Vec<String> {
    let of_network = |line: &&str| line.starts_with("atoll: network: ");
    ran.stderr().lines().filter(of_network).map(str::to_owned).collect()
}
