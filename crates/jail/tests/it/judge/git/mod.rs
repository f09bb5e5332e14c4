//! Git in a judged workspace: its commands work, its internals stay.

mod born;
mod commands;
mod internals;
mod pointers;
mod settings;

use super::harness::{Outcome, Sandbox, as_each_user};

/// A repository with two commits, an upstream, and a hook and settings of the user's.
const REPOSITORY: &str = r#"
    git init -q -b main . && echo one > a && mkdir src && echo two > src/b && git add .
    git commit -qm first && echo more >> a && git commit -qam second
    git init -q --bare $B/o/up.git && git remote add origin $B/o/up.git
    git config alias.x '!true' && git config core.editor true
    printf '#!/bin/sh\nexit 0\n' > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout
    git push -q origin main && git branch topic
"#;

/// What the host relies on, byte for byte and bit for bit.
fn internals(sandbox: &Sandbox) -> String {
    let info = sandbox.read(".git/info/exclude");
    format!("{}{}{info}", sandbox.read(".git/config"), sandbox.picture(".git/hooks"))
}

fn with_repository(test: impl Fn(&mut Sandbox)) {
    as_each_user(|sandbox| {
        sandbox.on_host(REPOSITORY);
        test(sandbox);
        sandbox.on_host("git fsck --no-progress && git status");
    });
}

/// Runs something that is refused, and the same without the judge, where it works.
#[track_caller]
fn refused(sandbox: &Sandbox, script: &str, rule: &str, path: &str) -> Outcome {
    let before = sandbox.picture(".");
    let outcome = sandbox.run(script).fails().denies(rule, path);
    assert_eq!(sandbox.picture("."), before, "{script}");
    sandbox.on_host("cp -a . $B/saved");
    sandbox.control(script).succeeds();
    sandbox.on_host("find . -mindepth 1 -delete; cp -a $B/saved/. . && rm -rf $B/saved");
    outcome
}
