//! Threads that change what a call means while it is judged.

use super::harness::{Sandbox, as_each_user};

const RACE: &str = include_str!("race.py");

/// How long the race with the judge runs.
fn seconds() -> String {
    std::env::var("ATOLL_RACE_SECONDS").unwrap_or_else(|_| "5".to_owned())
}

fn hits(sandbox: &Sandbox) -> usize {
    let planted = sandbox.on_host("find . -path '*/.git/hooks/*' -name evil; find $B/h -name evil");
    planted.lines().count()
}

fn race(seconds: &str) -> String {
    format!("python3 - {seconds} <<'END'\n{RACE}\nEND\n")
}

#[test]
fn nothing_lands_where_it_must_not() {
    as_each_user(|sandbox| {
        let prepare =
            "rm -rf ./* .git; git init -q . && mkdir -p plain/hooks gx/hooks one two/.git/hooks";
        sandbox.on_host(prepare);
        let outcome = sandbox.run(&race(&seconds())).succeeds();
        eprintln!("{}", outcome.stdout);
        assert_eq!(hits(sandbox), 0, "{outcome:#?}");
        assert!(!outcome.denials.is_empty(), "the race never met a rule");
        sandbox.on_host(prepare);
        sandbox.control(&race("1")).succeeds();
        assert!(hits(sandbox) > 0, "the control never hit");
    });
}
