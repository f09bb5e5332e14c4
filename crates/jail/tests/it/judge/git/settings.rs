//! Settings: those that run programs, and what they name.

use super::{internals, refused, with_repository};
use crate::judge::harness::as_each_user;

#[test]
fn settings_that_cannot_run_programs_can_be_written() {
    with_repository(|sandbox| {
        let before = sandbox.picture(".git/hooks");
        for script in [
            "git push -qu origin main && test \"$(git rev-parse --abbrev-ref @{u})\" = origin/main",
            "git config user.name someone && test \"$(git config user.name)\" = someone",
            "git remote add two https://example.com/x.git && git remote rename two three",
            "git remote set-url three git@example.com:a/b && git remote remove three",
            "git branch -q --set-upstream-to=origin/main topic && git branch --unset-upstream topic",
            "git branch -m topic topic2 && git branch -m topic2 topic",
            "git config --unset user.name",
            "git init -q",
        ] {
            sandbox.run(&format!("set -e; {script}")).succeeds().denies_nothing();
        }
        assert_eq!(sandbox.picture(".git/hooks"), before);
        assert_eq!(sandbox.on_host("git config alias.x"), "!true\n");
        assert_eq!(sandbox.on_host("git config branch.main.remote"), "origin\n");
    });
}

#[test]
fn settings_that_run_programs_are_refused_and_named() {
    with_repository(|sandbox| {
        for key in [
            "core.fsmonitor",
            "core.sshcommand",
            "core.pager",
            "core.hookspath",
            "diff.external",
            "diff.x.textconv",
            "filter.x.clean",
            "include.path",
            "includeif.gitdir:x.path",
            "alias.y",
            "url.x.insteadof",
            "credential.helper",
            "gpg.program",
            "core.worktree",
            "remote.origin.uploadpack",
            "remote.origin.receivepack",
            "remote.origin.vcs",
        ] {
            let outcome = sandbox.run(&format!("git config {key} ./evil")).fails();
            let told = outcome.denials.first().unwrap_or_else(|| panic!("{key}: {outcome:#?}"));
            assert_eq!((told.rule.as_str(), told.path.as_str()), ("git-config", ".git/config"));
            assert!(told.detail.starts_with(key), "{key}: {}", told.detail);
            assert!(!sandbox.has(".git/config.lock"));
        }
        let script = "git remote add evil 'ext::sh -c true'";
        let outcome = refused(sandbox, script, "git-config", ".git/config");
        assert!(outcome.denials[0].detail.contains("remote.evil.url"));
        refused(sandbox, "git config core.fsmonitor x", "git-config", ".git/config");
        refused(sandbox, "git config --unset alias.x", "git-config", ".git/config");
        refused(sandbox, "git config --worktree core.pager x", "git-config", ".git/config");
    });
}

#[test]
fn a_lock_file_that_stays_open_changes_nothing_later() {
    with_repository(|sandbox| {
        let script = r"
            cp .git/config .git/config.lock && exec 9>>.git/config.lock
            mv .git/config.lock .git/config || exit 1
            printf '[core]\n\tfsmonitor = evil\n' >&9; exec 9>&-
        ";
        let before = internals(sandbox);
        sandbox.run(script).succeeds().denies_nothing();
        assert_eq!(internals(sandbox), before);
        sandbox.on_host("cp .git/config $B/config");
        sandbox.control(script).succeeds();
        assert!(sandbox.read(".git/config").contains("evil"), "the control shows the hole");
        sandbox.on_host("cp $B/config .git/config");
    });
}

#[test]
fn what_settings_and_links_name_is_protected() {
    as_each_user(|sandbox| {
        sandbox.on_host(
            "git init -q . && mkdir -p tools/githooks ci && echo a > tools/githooks/pre-push
             git config core.hooksPath tools/githooks && git config include.path ../extra.cfg
             echo '[core]' > extra.cfg && echo x > ci/check && ln -s ../../ci/check .git/hooks/pre-commit
             mkdir -p Upper/Hooks && touch Upper/Hooks/Inc && git config --add include.path ../Upper/Hooks/Inc
             mkdir -p nested && git init -q nested && git -C nested config core.hooksPath .githooks",
        );
        for (script, path) in [
            ("echo x > tools/githooks/pre-commit", "tools/githooks/pre-commit"),
            ("echo x >> tools/githooks/pre-push", "tools/githooks/pre-push"),
            ("mv tools t2", "tools"),
            ("mv tools/githooks t2", "tools/githooks"),
            ("echo x >> extra.cfg", "extra.cfg"),
            ("mv ci/check ci/c", "ci/check"),
            ("echo x >> ci/check", "ci/check"),
            ("mkdir nested/.githooks", "nested/.githooks"),
            ("ln -s ../tools nested/.githooks", "nested/.githooks"),
            ("mv Upper u2", "Upper"),
            ("echo x > Upper/Hooks/Inc", "Upper/Hooks/Inc"),
        ] {
            refused(sandbox, script, "git-linked", path);
        }
        // A directory whose link would lead somewhere else once it is moved.
        sandbox.on_host("mkdir -p a/b evil/h && ln -s ../../evil a/b/h2 && mkdir gone && git config --add include.path ../gone/h2/h && rmdir gone");
        let script = "mv a/b gone";
        refused(sandbox, script, "git-linked", "gone");
        sandbox.run("echo x > tools/other && echo x > ci/other && mv ci/other ci/o2").succeeds();
    });
}

#[test]
fn allowed_patterns_lift_and_denied_ones_add() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q .");
        sandbox.options.allow = vec![".git/hooks", ".git/config"];
        sandbox.options.deny = vec!["*.pem", ".git/hooks/pre-push"];
        let script = "set -e; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; \
            git config core.pager x; git config core.hooksPath y";
        sandbox.run(script).succeeds().denies_nothing();
        sandbox
            .run("echo x > .git/hooks/pre-push")
            .fails()
            .denies("user-deny", ".git/hooks/pre-push");
        sandbox.run("mkdir k; echo x > k/a.pem").fails().denies("user-deny", "k/a.pem");
        sandbox.control("echo x > k/a.pem").succeeds();
    });
}
