//! Packages that install hooks of git while npm installs: the packages come, the
//! hooks only by a flag.

use super::{each, each_way};
use atoll_testkit::run::{Project, Ran};

/// Points git at a directory of its own, and gives up without a failure.
const GENTLE: &str = r#"#!/usr/bin/env node
const { spawnSync } = require('node:child_process'), fs = require('node:fs');
const set = spawnSync('git', ['config', 'core.hooksPath', '.husky/_'], { encoding: 'utf8' });
if (set.status) { console.log('hooks skipped: ' + set.stderr); process.exit(0); }
fs.mkdirSync('.husky/_', { recursive: true });
fs.writeFileSync('.husky/_/pre-commit', '#!/bin/sh\necho hook ran\n', { mode: 0o755 });
console.log('hooks installed');
"#;

/// Writes a hook where git has them, and takes no for a failure.
const STRICT: &str = r"#!/usr/bin/env node
require('node:fs').writeFileSync('.git/hooks/pre-commit', '#!/bin/sh\necho hook ran\n', { mode: 0o755 });
console.log('hooks installed');
";

const INSTALL: &str = "npm install --offline --no-audit --no-fund --no-update-notifier --silent \
    --foreground-scripts; echo status $?; ls node_modules";

/// An application whose `prepare` is this program of a package beside it.
fn with_installer(project: &Project, installer: &str) {
    let package = r#"{ "name": "hooks", "version": "1.0.0", "bin": "install.js" }"#;
    let application = r#"{ "name": "app", "version": "1.0.0", "scripts": { "prepare": "hooks" },
        "devDependencies": { "hooks": "file:./hooks" } }"#;
    project.write("hooks/package.json", package);
    project.write("hooks/install.js", installer);
    project.write("package.json", application);
    let made = project.bare_sh("git init -q . && chmod +x hooks/install.js");
    assert_eq!(made.code(), Some(0), "{}", made.text());
}

/// The patterns that the lines of a run ask the user for.
fn asked_for(run: &Ran) -> Vec<String> {
    let text = run.stderr();
    let patterns = text.lines().filter_map(|line| line.split_once("--allow-write "));
    patterns.map(|(_, pattern)| pattern.trim_matches('\'').to_owned()).collect()
}

/// Runs the installation with what each run asks for, until none asks.
fn install_as_told(project: &Project) -> Ran {
    let mut flags: Vec<String> = Vec::new();
    for _ in 0..4 {
        let run = project.run_sh(&flags.iter().map(String::as_str).collect::<Vec<_>>(), INSTALL);
        let asked = asked_for(&run);
        if asked.is_empty() {
            return run;
        }
        for pattern in asked {
            flags.extend(["--allow-write".to_owned(), pattern]);
        }
    }
    panic!("{flags:?} are not enough");
}

/// What a commit on the host prints.
fn committed(project: &Project) -> String {
    let commit = "git -c user.name=t -c user.email=t@t commit --allow-empty -qm x 2>&1";
    project.bare_sh(commit).stdout()
}

#[test]
fn packages_are_installed_though_their_hooks_are_not() {
    each(|project| {
        with_installer(project, GENTLE);
        let run = project.run_sh(&[], INSTALL);
        assert!(
            run.stdout().contains("hooks skipped: error: could not write config"),
            "{}",
            run.text()
        );
        assert!(run.stdout().ends_with("status 0\nhooks\n"), "{}", run.text());
        assert_eq!(asked_for(&run), ["/.git/config"], "one line: {}", run.text());
        assert!(run.stderr().contains("core.hookspath"), "what was refused: {}", run.text());
        assert!(!project.root().join(".husky").exists());
        assert_eq!(committed(project), "");
        // Whoever wants them gives the flags that the lines name.
        let run = install_as_told(project);
        assert!(run.stdout().contains("hooks installed"), "{}", run.text());
        assert_eq!(committed(project), "hook ran\n");
    });
}

#[test]
fn an_installer_that_insists_fails_and_the_packages_are_there_all_the_same() {
    each(|project| {
        with_installer(project, STRICT);
        let run = project.run_sh(&[], INSTALL);
        assert!(run.stderr().contains("EACCES"), "{}", run.text());
        assert!(!run.stdout().contains("status 0\n"), "{}", run.text());
        assert!(run.stdout().ends_with("\nhooks\n"), "{}", run.text());
        assert_eq!(asked_for(&run), ["/.git/hooks/pre-commit"], "{}", run.text());
        let without = INSTALL.replace("npm install", "npm install --ignore-scripts");
        let run = project.run_sh(&[], &without);
        assert_eq!(run.stdout(), "status 0\nhooks\n", "{}", run.text());
        assert_eq!(committed(project), "");
        let run = install_as_told(project);
        assert!(run.stdout().contains("status 0\n"), "{}", run.text());
        assert_eq!(committed(project), "hook ran\n");
    });
}

#[test]
fn under_review_hooks_are_installed_and_asked_about() {
    for installer in [GENTLE, STRICT] {
        each(|project| {
            with_installer(project, installer);
            let run = project.run_sh(&["--workspace", "review"], INSTALL);
            assert!(run.stdout().contains("hooks installed"), "{}", run.text());
            assert!(run.stdout().ends_with("status 0\nhooks\n"), "{}", run.text());
            assert_eq!(committed(project), "", "before it is applied");
            let unasked = Ran(project.atoll(&["apply"]).output().unwrap());
            assert_ne!(unasked.code(), Some(0), "{}", unasked.text());
            let applied = Ran(project.atoll(&["apply", "--yes"]).output().unwrap());
            assert_eq!(applied.code(), Some(0), "{}", applied.text());
            assert_eq!(committed(project), "hook ran\n");
        });
    }
}

/// The control of all of them.
#[test]
fn without_a_sandbox_both_install() {
    for installer in [GENTLE, STRICT] {
        each(|project| {
            with_installer(project, installer);
            let bare = project.bare_sh(INSTALL);
            assert!(bare.stdout().contains("hooks installed"), "{}", bare.text());
            assert_eq!(committed(project), "hook ran\n");
        });
    }
}

/// A directory that the settings of git name is a place of hooks from the start.
#[test]
fn what_the_settings_name_as_hooks_is_guarded() {
    each_way(|project, flags| {
        let set_up =
            "git init -q . && git config core.hooksPath tools/hooks && mkdir -p tools/hooks";
        assert_eq!(project.bare_sh(set_up).code(), Some(0));
        let plant = "printf '#!/bin/sh\\necho hook ran\\n' > tools/hooks/pre-commit && \
            chmod +x tools/hooks/pre-commit; mkdir -p tools/other && echo x > tools/other/x && echo free";
        let run = project.run_sh(flags, plant);
        assert_eq!(run.stdout(), "free\n", "{}", run.text());
        assert_eq!(committed(project), "");
        if flags.contains(&"live") {
            assert!(run.stderr().contains("rule git-linked"), "{}", run.text());
            assert_eq!(asked_for(&run).len(), 1, "{}", run.text());
        }
        // The control.
        assert_eq!(project.bare_sh(plant).code(), Some(0));
        assert_eq!(committed(project), "hook ran\n");
    });
}
