//! System calls from inside and, as the control, from outside (`examples/probe.rs`).

use atoll_testkit::run::{Project, Ran};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What `probe` prints for a call that succeeds.
pub(super) const OK: &str = "ok";

/// The probe as it was built.
fn built() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_atoll")).with_file_name("examples/probe");
    assert!(path.exists(), "{} is not built: build the examples", path.display());
    path
}

/// Puts the probe into the project, where both sides can run it.
pub(super) fn place(project: &Project) {
    let to = project.root().join("probe");
    std::fs::copy(built(), &to).unwrap();
    project.user.give(&to);
}

fn arguments(calls: &[&str]) -> Vec<String> {
    calls.join(" , ").split(' ').map(str::to_owned).collect()
}

fn answers(calls: &[&str], ran: &Ran) -> Vec<String> {
    let answers: Vec<String> = ran.stdout().lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), calls.len(), "{}", ran.text());
    answers
}

/// Makes the calls without a sandbox, as the user.
pub(super) fn outside(project: &Project, calls: &[&str]) -> Vec<String> {
    let mut command = project.bare(project.root().join("probe").as_os_str());
    let ran = Ran(command.args(arguments(calls)).output().unwrap());
    answers(calls, &ran)
}

/// Makes the calls in a sandbox; gives the run too.
pub(super) fn inside(project: &Project, flags: &[&str], calls: &[&str]) -> (Vec<String>, Ran) {
    let mut command = project.atoll(&["run", "--json"]);
    command.args(flags).args([OsStr::new("--"), OsStr::new("./probe")]).args(arguments(calls));
    let ran = Ran(command.output().unwrap());
    (answers(calls, &ran), ran)
}

/// The refusals in a result, as "rule operation".
pub(super) fn refusals(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let denials = json["denials"].as_array().unwrap();
    let word = |denial: &serde_json::Value, name: &str| {
        denial["refusal"][name].as_str().unwrap_or_default().to_owned()
    };
    denials.iter().map(|it| [word(it, "rule"), word(it, "operation")].join(" ")).collect()
}
