//! Hidden files stay hidden while the host works on them.

use super::each;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Says "ready", waits for a line, then tries to read `.env` until it cannot,
/// and says how that ended.
const READER: &str = "cat .env 2>/dev/null; echo ready; read go; \
    i=0; while [ $i -lt 2000 ] && cat .env >/dev/null 2>&1; do i=$((i+1)); done; \
    if cat .env 2>/dev/null; then echo readable; else echo hidden; fi";

fn after_a_save_by_rename(project: &atoll_testkit::run::Project) -> String {
    let mut run = project.atoll(&["run", "--timeout", "60s", "--", "sh", "-c", READER]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ready" {}
    let saved = project.write(".env.new", "new secret\n");
    std::fs::rename(saved, project.root().join(".env")).unwrap();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    drop(stdin);
    let told: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(run.wait().unwrap().success());
    told.join("\n")
}

#[test]
fn a_mask_comes_back_after_an_editor_saved_by_rename() {
    each(|project| {
        project.write(".env", "old secret\n");
        // The control: without a rule the new content is there to be read.
        assert_eq!(after_a_save_by_rename(project), "new secret\nreadable");
        project.write(".atollignore", ".env\n");
        assert_eq!(after_a_save_by_rename(project), "hidden");
        assert_eq!(project.read(".env"), "new secret\n");
    });
}

#[test]
fn masks_are_no_trace_on_the_host() {
    each(|project| {
        project.write(".env", "secret\n");
        project.write("keys/one", "secret\n");
        project.write(".atollignore", ".env\nkeys/\n");
        let before = project.bare_sh("ls -laR; cat .env keys/one");
        let run = project.run_sh(&[], "cat .env; ls keys; chmod 777 .env keys; rm -rf .env keys");
        assert_ne!(run.code(), Some(0), "{}", run.text());
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert_eq!(project.bare_sh("ls -laR; cat .env keys/one").stdout(), before.stdout());
    });
}
