//! Hidden files stay hidden while the host works on them.

use super::each;
use atoll_testkit::run::Project;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Runs `first` inside, then `meanwhile` on the host, then tries inside to read
/// `path` until it cannot, and says how that ended.
fn after(project: &Project, first: &str, meanwhile: impl FnOnce(), path: &str) -> String {
    // Without a rule it stays readable, however often somebody looks.
    let tries = if project.root().join(".atollignore").exists() { 2000 } else { 20 };
    let script = format!(
        "cat {path} 2>/dev/null; {first}; echo ready; read go; i=0; \
         while [ $i -lt {tries} ] && cat {path} >/dev/null 2>&1; do i=$((i+1)); done; \
         [ -e {path} ] || echo gone; \
         if cat {path} 2>/dev/null; then echo readable; else echo hidden; fi"
    );
    let mut run = project.atoll(&["run", "--timeout", "60s", "--", "sh", "-c", &script]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ready" {}
    meanwhile();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    drop(stdin);
    let told: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(run.wait().unwrap().success());
    told.join("\n")
}

fn on_host(project: &Project, script: &str) {
    let ran = project.bare_sh(script);
    assert_eq!(ran.code(), Some(0), "{}", ran.text());
}

#[test]
fn a_mask_comes_back_after_an_editor_saved_by_rename() {
    each(|project| {
        project.write(".env", "old secret\n");
        // The control: without a rule the new content is there to be read.
        let save = || {
            let saved = project.write(".env.new", "new secret\n");
            std::fs::rename(saved, project.root().join(".env")).unwrap();
        };
        assert_eq!(after(project, ":", save, ".env"), "new secret\nreadable");
        project.write(".atollignore", ".env\n");
        assert_eq!(after(project, ":", save, ".env"), "hidden");
        assert_eq!(project.read(".env"), "new secret\n");
    });
}

/// Ways in which the host has another directory with another secret at the end.
const MADE_AGAIN: &[(&str, &str)] = &[
    ("sub/.env", "rm -r sub; mkdir sub; echo new > sub/.env"),
    (
        "sub/.env",
        "rm -r sub; mkdir sub; echo first > sub/.env; rm -r sub; mkdir -p sub; echo new > sub/.env",
    ),
    ("sub/.env", "mkdir next; echo new > next/.env; mv sub old; mv next sub"),
    ("a/b/c/.env", "rm -r a; mkdir -p a/b/c; echo new > a/b/c/.env"),
    ("a/b/c/.env", "rm -r a/b; mkdir -p x/c; echo new > x/c/.env; mv x a/b"),
    ("keys/deep/one", "rm -r keys; mkdir -p keys/deep; echo new > keys/deep/one"),
];

#[test]
fn masks_follow_directories_that_are_made_again() {
    each(|project| {
        for (path, again) in MADE_AGAIN {
            for rule in ["", ".env\nkeys/\n"] {
                on_host(project, "rm -rf sub a keys old next x .atollignore");
                project.write(path, "old\n");
                if !rule.is_empty() {
                    project.write(".atollignore", rule);
                }
                let told = after(project, ":", || on_host(project, again), path);
                // The control: without a rule the new content is there to be read.
                let is_hidden = !rule.is_empty();
                let is_directory = is_hidden && path.starts_with("keys");
                let expected = match (is_hidden, is_directory) {
                    (false, _) => "new\nreadable",
                    (true, false) => "hidden",
                    (true, true) => "gone\nhidden",
                };
                assert_eq!(told, expected, "{again}");
                assert_eq!(project.read(path), "new\n");
            }
        }
    });
}

#[test]
fn what_is_moved_and_closed_inside_keeps_no_mask_away() {
    // More directories than are remembered, then one that nobody may list.
    let churn = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); mv sub sub$i; mkdir sub; done";
    let close = "mv sub sub1; mkdir closed; chmod 300 closed; mv closed sub";
    each(|project| {
        for (first, path) in [(churn, "sub/.env"), (churn, "sub1/.env"), (close, "sub/.env")] {
            on_host(project, "rm -f .atollignore");
            for rule in ["", ".env\n"] {
                on_host(project, "mkdir -p sub; chmod 700 sub; rm -r sub*");
                project.write("sub/.env", "old\n");
                if !rule.is_empty() {
                    project.write(".atollignore", rule);
                }
                let save = format!("echo new > new; mv new {path}");
                let told = after(project, first, || on_host(project, &save), path);
                let expected = if rule.is_empty() { "new\nreadable" } else { "hidden" };
                assert_eq!(told, expected, "{first} {path}");
            }
        }
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
