//! The internals of a repository that was there stay, however they are called.

use super::{REPOSITORY, refused, with_repository};
use crate::judge::harness::as_each_user;

#[test]
fn every_way_of_writing_a_hook_or_setting_is_refused() {
    with_repository(|sandbox| {
        sandbox.on_host("echo x > evil; chmod +x evil; ln -s ../evil link; git add evil");
        let hook = ".git/hooks/pre-commit";
        let old_hook = ".git/hooks/post-checkout";
        for (script, rule, path) in [
            ("echo x > .git/hooks/pre-commit", "git-hooks", hook),
            ("echo x >> .git/hooks/post-checkout", "git-hooks", old_hook),
            ("cp evil .git/hooks/pre-commit", "git-hooks", hook),
            ("mv evil .git/hooks/pre-commit", "git-hooks", hook),
            ("ln evil .git/hooks/pre-commit", "git-hooks", hook),
            ("ln -s ../../evil .git/hooks/pre-commit", "git-hooks", hook),
            ("mkfifo .git/hooks/pre-commit", "git-hooks", hook),
            ("mkdir .git/hooks/pre-commit", "git-hooks", hook),
            ("rm .git/hooks/post-checkout", "git-hooks", old_hook),
            ("mv .git/hooks/post-checkout x", "git-hooks", old_hook),
            ("ln .git/hooks/post-checkout x", "git-hooks", old_hook),
            ("chmod 644 .git/hooks/post-checkout", "git-hooks", old_hook),
            ("truncate -s 0 .git/hooks/post-checkout", "git-hooks", old_hook),
            (
                "python3 -c 'import os; os.setxattr(\".git/hooks/post-checkout\", \"user.x\", b\"\")'",
                "git-hooks",
                old_hook,
            ),
            ("cd .git/hooks && echo x > pre-commit", "git-hooks", hook),
            ("cd src && echo x > ../.git/hooks/pre-commit", "git-hooks", hook),
            ("echo x > /proc/self/cwd/.git/hooks/pre-commit", "git-hooks", hook),
            ("exec 7<.git; echo x > /proc/self/fd/7/hooks/pre-commit", "git-hooks", hook),
            ("exec 7<.git/hooks/post-checkout; echo x > /dev/fd/7", "git-hooks", old_hook),
            ("echo x > .git/config", "git-config", ".git/config"),
            ("echo x >> .git/config", "git-config", ".git/config"),
            ("rm .git/config", "git-config", ".git/config"),
            ("ln .git/config x && echo x >> x", "git-config", ".git/config"),
            ("exec 7<.git/config; echo x > /proc/self/fd/7", "git-config", ".git/config"),
            ("mv .git/config x", "git-config", ".git/config"),
            ("echo x > .git/config.worktree", "git-config", ".git/config.worktree"),
            ("echo '* filter=x' > .git/info/attributes", "git-info", ".git/info/attributes"),
            ("echo x >> .git/info/exclude", "git-info", ".git/info/exclude"),
            ("echo ../x > .git/commondir", "git-pointer", ".git/commondir"),
            ("ln -s ../x .git/commondir", "git-pointer", ".git/commondir"),
            ("mv link .git/commondir", "git-pointer", ".git/commondir"),
            ("ln -s ../x .git/gitdir", "git-pointer", ".git/gitdir"),
            ("echo /x > .git/objects/info/alternates", "git-info", ".git/objects/info/alternates"),
            ("mkdir -p .git/hooks/x/y", "git-hooks", ".git/hooks/x"),
        ] {
            refused(sandbox, script, rule, path);
        }
    });
}

#[test]
fn chmod_by_a_descriptor_for_reading_is_judged() {
    as_each_user(|sandbox| {
        sandbox.on_host(REPOSITORY);
        sandbox.on_host(
            "cp .git/hooks/post-checkout .git/hooks/planted && chmod 644 .git/hooks/planted",
        );
        let script = "python3 -c 'import os; os.fchmod(os.open(\".git/hooks/planted\", 0), 0o755)'";
        refused(sandbox, script, "git-hooks", ".git/hooks/planted");
    });
}

#[test]
fn moving_the_directory_away_is_refused() {
    with_repository(|sandbox| {
        for (script, path) in [
            ("mv .git g && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit", ".git"),
            (
                "mkdir -p g/hooks && echo x > g/hooks/pre-commit && rm -rf $B/h/g && mv .git $B/h/g",
                ".git",
            ),
        ] {
            let hooks = sandbox.picture(".git/hooks");
            sandbox.run(script).fails().denies("git-move", path);
            assert_eq!(sandbox.picture(".git/hooks"), hooks);
        }
        refused(sandbox, "mv .git g", "git-move", ".git");
        refused(sandbox, "mv .git/hooks .git/h", "git-hooks", ".git/hooks");
        refused(sandbox, "mv .git/info .git/i", "git-move", ".git/info");
        sandbox.on_host("mkdir -p prepared/hooks g/hooks");
        let exchange = "python3 -c 'import ctypes, sys; \
            sys.exit(ctypes.CDLL(None).renameat2(-100, b\"g\", -100, b\".git\", 2) != 0)'";
        refused(sandbox, exchange, "git-move", ".git");
        refused(sandbox, "mv prepared .git/x", "git-move", ".git/x");
    });
}

#[test]
fn links_in_a_git_directory_are_refused() {
    with_repository(|sandbox| {
        sandbox.on_host("ln -s /nowhere/rc link && mkdir -p .git/logs/refs");
        for (script, path) in [
            ("ln -s /nowhere/rc .git/COMMIT_EDITMSG2", ".git/COMMIT_EDITMSG2"),
            ("ln -s ../evil .git/tAbcDef", ".git/tAbcDef"),
            ("ln -s /nowhere/rc .git/logs/refs/stash", ".git/logs/refs/stash"),
            ("mv link .git/FETCH_HEAD2", ".git/FETCH_HEAD2"),
            ("ln -P link .git/tAbcDef", ".git/tAbcDef"),
        ] {
            refused(sandbox, script, "git-link", path);
        }
    });
}

#[test]
fn directories_closed_against_looking_hide_nothing() {
    as_each_user(|sandbox| {
        sandbox.options.tools = vec![".vscode"];
        sandbox.on_host("mkdir -p p/x && git init -q --bare p/x && git init -q s/q");
        for (script, path) in [
            ("echo x > /proc/self/fd/7/hooks/pre-commit", "p/x/hooks/pre-commit"),
            ("echo x > /proc/self/fd/7/config", "p/x/config"),
        ] {
            let script = format!("exec 7<p/x; chmod 0 p; {script}; r=$?; chmod 755 p; exit $r");
            let outcome = sandbox.run(&script).fails();
            assert_eq!(outcome.denials[0].path, path, "{outcome:#?}");
            sandbox.control(&format!("cp -r p $B/h/p; {script}")).succeeds();
            sandbox.on_host("rm -rf p && mv $B/h/p p");
        }
        let script =
            "exec 7<s/q; chmod 0 s; mkdir /proc/self/fd/7/.vscode; r=$?; chmod 755 s; exit $r";
        sandbox.run(script).fails().denies("project-tool", "s/q/.vscode");
        sandbox.control(script).succeeds();
    });
}

#[test]
fn a_renamed_parent_keeps_its_rules() {
    as_each_user(|sandbox| {
        sandbox.on_host("mkdir -p vendor/sub/deep/er && git init -q vendor/sub/deep/er/repo");
        let script = "mv vendor v2 && echo x > v2/sub/deep/er/repo/.git/hooks/post-checkout";
        let hook = "v2/sub/deep/er/repo/.git/hooks/post-checkout";
        sandbox.run(script).fails().denies("git-hooks", hook);
        assert!(sandbox.has("v2/sub/deep/er/repo/.git") && !sandbox.has(hook));
        sandbox.on_host("mv v2 vendor");
        sandbox.control(script).succeeds();
    });
}

#[test]
fn spellings_of_dot_git_are_refused() {
    as_each_user(|sandbox| {
        for name in [".GIT", ".git.", "git~1", ".Git"] {
            let script = format!("mkdir -p a/'{name}'/hooks && echo x > a/'{name}'/hooks/x");
            let outcome = sandbox.run(&script).fails();
            assert_eq!(outcome.denials[0].rule, "git-lookalike");
            sandbox.control(&format!("rm -rf a; {script}")).succeeds();
            sandbox.on_host("rm -rf a");
        }
    });
}

#[test]
fn a_repository_whose_git_directory_is_a_link() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q . && mv .git real && ln -s real .git && echo a > a");
        sandbox.run("git add a && git commit -qm a").succeeds().denies_nothing();
        refused(sandbox, "echo x > real/hooks/pre-commit", "git-hooks", "real/hooks/pre-commit");
        refused(sandbox, "echo x > .git/hooks/pre-commit", "git-hooks", "real/hooks/pre-commit");
        refused(sandbox, "ln -sfn evil .git", "git-pointer", ".git");
        refused(sandbox, "mv real r2", "git-move", "real");
    });
}
