//! Calls answer as if nobody performed them for the caller.

use super::harness::{Outcome, as_each_user};

const SCRIPT: &str = concat!("python3 - <<'END'\n", include_str!("semantics.py"), "\nEND\n");

fn checks(outcome: &Outcome) -> u32 {
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("checks: "));
    line.unwrap_or_else(|| panic!("{outcome:#?}")).parse().unwrap()
}

#[test]
fn every_call_answers_as_it_does_without_the_judge() {
    as_each_user(|sandbox| {
        let free = sandbox.control(SCRIPT).succeeds();
        sandbox.on_host("chmod -R u+w . && rm -rf ./*");
        let judged = sandbox.run(SCRIPT).succeeds().denies_nothing();
        assert!(checks(&free) >= 58);
        let lines = free.stdout.lines().zip(judged.stdout.lines());
        let different: Vec<_> = lines.filter(|(free, judged)| free != judged).collect();
        assert!(different.is_empty(), "without and with: {different:#?}");
        assert_eq!(checks(&judged), checks(&free));
    });
}
