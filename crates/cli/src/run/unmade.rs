//! Why there is no sandbox, and what would help: asked after a failure only.

use crate::error::CliError;
use atoll_jail::features::{Facts, Fix, Needs, Probes, explain, require};
use std::ffi::OsStr;
use std::path::Path;

/// Puts the cause and the fix of a step that failed under `error`, as far as they
/// are known; `errno` is 0 where the step failed for another reason.
pub(crate) fn explained(error: CliError, step: &str, errno: i32) -> CliError {
    let own_path = std::env::current_exe().unwrap_or_default();
    let facts = Facts::read(Path::new("/"), &own_path);
    // `fsconfig(CREATE)` is explained as `fsconfig`.
    let step = step.split('(').next().unwrap_or(step);
    let fix = match errno {
        0 if step == "landlock" => lacking(&facts),
        // Not the kernel's refusal: something else went wrong.
        0 => None,
        errno => explain(step, errno, &facts).or_else(|| lacking(&facts)),
    };
    let error = match fix {
        None => error,
        Some(Fix { cause, command: None }) => error.hint(cause),
        Some(Fix { cause, command: Some(command) }) => {
            error.hint(cause).hint(format!("to change that: {command}"))
        }
    };
    error.hint("`atoll doctor` says what this machine lacks and how to fix it")
}

/// Tries all that a run builds on, since the step alone tells nothing.
fn lacking(facts: &Facts) -> Option<Fix> {
    let needs = Needs { judge: true, overlay: false, landlock: true };
    let missing = require(&needs, facts, &Probes::run(OsStr::new(""))).err()?;
    let fix = missing.fix.clone();
    Some(fix.unwrap_or_else(|| Fix { cause: missing.to_string(), command: None }))
}
