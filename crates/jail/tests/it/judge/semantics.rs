//! Calls answer as if nobody performed them for the caller.

use super::harness::{Outcome, Sandbox, as_each_user};

const SCRIPT: &str = concat!("python3 - <<'END'\n", include_str!("semantics.py"), "\nEND\n");

fn checks(outcome: &Outcome) -> u32 {
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("checks: "));
    line.unwrap_or_else(|| panic!("{outcome:#?}")).parse().unwrap()
}

/// The lines of a script that prints something else with the judge than without;
/// it makes at least `least` checks.
pub(super) fn differences(sandbox: &Sandbox, script: &str, least: u32) -> Vec<String> {
    let free = sandbox.control(script).succeeds();
    sandbox.on_host("chmod -R u+w . && rm -rf ./*");
    let judged = sandbox.run(script).succeeds().denies_nothing();
    assert!(checks(&free) >= least, "{free:#?}");
    assert_eq!(checks(&judged), checks(&free));
    let lines = free.stdout.lines().zip(judged.stdout.lines());
    let different = lines.filter(|(free, judged)| free != judged);
    different.map(|(free, judged)| format!("without: {free}, with: {judged}")).collect()
}

#[test]
fn every_call_answers_as_it_does_without_the_judge() {
    as_each_user(|sandbox| assert_eq!(differences(sandbox, SCRIPT, 58), Vec::<String>::new()));
}
