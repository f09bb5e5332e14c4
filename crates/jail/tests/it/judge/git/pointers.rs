//! Work trees and submodules, whose repository lies elsewhere.

use super::{internals, refused, with_repository};
use crate::judge::harness::{Sandbox, as_each_user};

#[test]
fn a_linked_worktree_works_and_its_pointers_stay() {
    as_each_user(|sandbox| {
        // The workspace is a work tree; the repository lies outside.
        sandbox.on_host(
            "rmdir $B/w && git init -q -b main $B/o/repo && cd $B/o/repo && echo a > a && git add a
             git commit -qm a && git worktree add -q $B/w",
        );
        let state = |s: &Sandbox| {
            format!(
                "{}{}{}",
                s.picture("../o/repo/.git/hooks"),
                s.read("../o/repo/.git/config"),
                s.read(".git")
            )
        };
        let before = state(sandbox);
        let script =
            "set -e; echo b > b; git add b; git commit -qm b; git branch x; git stash list";
        sandbox.run(script).succeeds().denies_nothing();
        let outside = |path: &str| format!("{}/o/repo/.git/{path}", sandbox.base().display());
        for (script, rule, path) in [
            ("echo x > .git", "git-pointer", ".git".to_owned()),
            ("rm .git", "git-pointer", ".git".to_owned()),
            ("ln -sfn $B/o/repo/.git .git", "git-pointer", ".git".to_owned()),
            (
                "ln -s ../x l; mv l $B/o/repo/.git/worktrees/w/commondir || { rm l; false; }",
                "git-pointer",
                outside("worktrees/w/commondir"),
            ),
            ("mv .git g", "git-pointer", ".git".to_owned()),
            ("echo x > $B/o/repo/.git/hooks/pre-commit", "git-hooks", outside("hooks/pre-commit")),
            ("echo x > $B/o/repo/.git/config", "git-config", outside("config")),
            (
                "echo x > $B/o/repo/.git/worktrees/w/commondir",
                "git-pointer",
                outside("worktrees/w/commondir"),
            ),
            (
                "echo x > $B/o/repo/.git/worktrees/w/gitdir",
                "git-pointer",
                outside("worktrees/w/gitdir"),
            ),
        ] {
            sandbox.run(script).fails().denies(rule, &path);
            assert_eq!(state(sandbox), before, "{script}");
        }
        sandbox.control("cp .git x && echo x > .git && cat x > .git").succeeds();
    });
}

#[test]
fn worktrees_can_be_added_and_removed() {
    with_repository(|sandbox| {
        let before = internals(sandbox);
        let script = "set -e; git worktree add -q wt topic; cd wt; echo x > x; git add x
            git commit -qm x; cd ..; git worktree list; git status --short";
        sandbox.run(script).succeeds().denies_nothing();
        sandbox.on_host("cd wt && git log -1 --format=%s && git status");
        assert_eq!(sandbox.read(".git/worktrees/wt/commondir"), "../..\n");
        let outcome = sandbox.run("git worktree remove --force wt").fails();
        assert!(!outcome.denials.is_empty(), "that work tree is old by now");
        sandbox.on_host("git worktree remove --force wt");
        let script =
            "set -e; git worktree add -q w2 topic; git worktree remove w2; git worktree prune";
        sandbox.run(script).succeeds().denies_nothing();
        assert!(!sandbox.has("w2") && !sandbox.has(".git/worktrees/w2"));
        assert_eq!(internals(sandbox), before);
    });
}

#[test]
fn a_pointer_leads_only_to_what_is_judged() {
    with_repository(|sandbox| {
        let prepare = "mkdir -p evil/objects evil/refs; printf '[core]\nfsmonitor=x\n' > evil/config; \
            mkdir d; echo 'gitdir: ../evil' > d/.git; sleep 0.1";
        let outcome = sandbox.run(&format!("{prepare}; test -e d/.git")).fails();
        assert_eq!(outcome.denials[0].rule, "git-pointer");
        assert!(outcome.denials[0].detail.contains("../evil"));
        assert!(!sandbox.has("d/.git"));
        sandbox.on_host("rm -rf d evil");
        sandbox.control(&format!("{prepare}; test -e d/.git")).succeeds();
        sandbox.on_host("rm -rf d evil");
        // A prepared entry of a work tree gets the one commondir that is right.
        let script = "mkdir -p .git/worktrees/x evil; echo ../../../evil > .git/worktrees/x/commondir; \
            cat .git/worktrees/x/commondir";
        assert_eq!(sandbox.run(script).succeeds().stdout, "../..\n");
        sandbox.on_host("rm -rf .git/worktrees evil");
        assert_eq!(sandbox.control(script).succeeds().stdout, "../../../evil\n");
        sandbox.on_host("rm -rf .git/worktrees evil");
        // Nor is it a link, put there or moved there.
        for script in [
            "mkdir -p .git/worktrees/x; echo ../../../evil > p; ln -s ../../../p .git/worktrees/x/commondir",
            "mkdir -p .git/worktrees/x; ln -s /evil p; mv p .git/worktrees/x/commondir",
            "mkdir -p .git/worktrees/x; ln -s ../../../p .git/worktrees/x/gitdir",
        ] {
            let outcome = sandbox.run(script).fails();
            assert!(outcome.denials[0].rule.starts_with("git-"), "{outcome:#?}");
            sandbox.on_host("test ! -L .git/worktrees/x/commondir; rm -rf .git/worktrees p");
            sandbox.control(script).succeeds();
            sandbox.on_host("rm -rf .git/worktrees p");
        }
    });
}

#[test]
fn submodules_can_be_added() {
    with_repository(|sandbox| {
        sandbox.on_host("git init -q -b main $B/o/sub && cd $B/o/sub && echo s > s && git add s && git commit -qm s");
        let before = sandbox.picture(".git/hooks");
        let script = "set -e; git -c protocol.file.allow=always submodule --quiet add $B/o/sub sub
            git commit -qm sub; git submodule status; cd sub; echo x > x; git add x; git commit -qm x";
        sandbox.run(script).succeeds().denies_nothing();
        assert_eq!(sandbox.read("sub/.git"), "gitdir: ../.git/modules/sub\n");
        sandbox.on_host("git submodule status && git -C sub log -1 --format=%s");
        for (script, rule, path) in [
            (
                "echo x > .git/modules/sub/hooks/pre-commit",
                "git-hooks",
                ".git/modules/sub/hooks/pre-commit",
            ),
            ("echo x > .git/modules/sub/config", "git-config", ".git/modules/sub/config"),
            (
                "git -C sub config core.worktree ../../../..",
                "git-config",
                ".git/modules/sub/config",
            ),
            ("echo x > sub/.git", "git-pointer", "sub/.git"),
            ("mv .git/modules .git/m", "git-move", ".git/modules"),
        ] {
            refused(sandbox, script, rule, path);
        }
        assert_eq!(sandbox.picture(".git/hooks"), before);
    });
}
