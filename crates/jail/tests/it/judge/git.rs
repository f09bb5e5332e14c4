//! Git in a judged workspace: its commands work, its internals stay.

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

#[test]
fn commands_work_and_leave_the_internals() {
    with_repository(|sandbox| {
        let before = internals(sandbox);
        for script in [
            "echo x >> a && git add -A && git commit -qm third",
            "git branch other && git switch -q other && git switch -q main && git branch -D other",
            "git checkout -qb feature && echo y > new && git add new && git commit -qm fourth",
            "git switch -q main && git merge -q feature",
            "git tag v1 && git tag -am two v2 && git tag -d v1",
            "git fetch -q origin && git pull -q origin main",
            "echo z >> a && git stash -q && git stash pop -q && git checkout -q a",
            "git switch -q topic && echo t > t && git add t && git commit -qm t && git rebase -q main",
            "git switch -q main && git cherry-pick topic && git revert --no-edit HEAD",
            "git gc -q && git repack -adq && git pack-refs --all && git reflog expire --all",
            "git rm -q src/b && git mv a c && git commit -qm moved && git reset -q --hard HEAD~1",
            "git bisect start HEAD HEAD~1 && git bisect reset",
            "git notes add -m note && git archive HEAD | tar t && git bundle create $B/h/x main",
            "git sparse-checkout list || true; git status && git log --oneline && git diff HEAD~1",
            "git push -q origin main",
            "git switch -q main && git clean -fdxq && git update-index --refresh",
        ] {
            sandbox.run(&format!("set -e; {script}")).succeeds().denies_nothing();
        }
        assert_eq!(internals(sandbox), before);
    });
}

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
    });
}

#[test]
fn repositories_can_be_born() {
    as_each_user(|sandbox| {
        sandbox.on_host("git init -q -b main $B/o/src && cd $B/o/src && echo a > a && git add a && git commit -qm a");
        for (script, path) in [
            ("git init -q x", "x"),
            ("git clone -q $B/o/src x", "x"),
            ("git clone -q --no-hardlinks $B/o/src x", "x"),
            ("git clone -q --depth 1 file://$B/o/src x", "x"),
            ("git clone -qs $B/o/src x", "x"),
            ("git init -q --template= x", "x"),
        ] {
            let use_it = format!(
                "set -e; {script}; cd {path}; echo n > n; git add n; git commit -qm n; \
                git config user.name x; git remote add other https://example.com/"
            );
            let outcome = sandbox.run(&use_it).succeeds().denies_nothing();
            assert_eq!(outcome.report, [format!("{path}/.git")], "{script}");
            sandbox.on_host(
                "cd x && git fsck --no-progress && test \"$(git config core.filemode)\" = true
                ! find .git/hooks -type f -perm /111 | grep .",
            );
            sandbox.on_host("rm -rf x");
        }
        let outcome = sandbox.run("git init -q x && mv x y && rm -rf y").succeeds();
        assert!(outcome.report.is_empty(), "{outcome:#?}");
    });
}

#[test]
fn born_repositories_have_rules_too() {
    as_each_user(|sandbox| {
        for (script, rule, path) in [
            ("echo x > x/.git/hooks/pre-commit", "git-hooks", "x/.git/hooks/pre-commit"),
            ("cp /bin/true x/.git/hooks/pre-commit", "git-hooks", "x/.git/hooks/pre-commit"),
            ("chmod +x x/.git/hooks/update.sample", "git-hooks", "x/.git/hooks/update.sample"),
            (
                "mv x/.git/hooks/update.sample x/.git/hooks/update",
                "git-hooks",
                "x/.git/hooks/update.sample",
            ),
            ("git -C x config core.fsmonitor ./evil", "git-config", "x/.git/config"),
            ("git -C x config core.hooksPath ../hooks", "git-config", "x/.git/config"),
            ("echo '[core]' >> x/.git/config", "git-config", "x/.git/config"),
            ("rm -rf x/.git/hooks; ln -s ../../evil x/.git/hooks", "git-hooks", "x/.git/hooks"),
            ("mv x/.git y && mkdir z && mv y z/.git", "git-move", "x/.git"),
            ("mkdir -p p/hooks && mkdir z && mv p z/.git", "git-move", "z/.git"),
        ] {
            let script = format!("set -e; git init -q x; {script}");
            sandbox.run(&script).fails().denies(rule, path);
            sandbox.on_host("rm -rf x y z p");
            sandbox.control(&script).succeeds();
            sandbox.on_host("rm -rf x y z p");
        }
    });
}

#[test]
fn bare_repositories_are_born_when_they_are_complete() {
    as_each_user(|sandbox| {
        let outcome = sandbox
            .run(
                "git init -q --bare x.git && git init -q y && cd y && echo a > a && \
            git add a && git commit -qm a && git push -q ../x.git HEAD:main",
            )
            .succeeds();
        assert!(outcome.report.contains(&"x.git".to_owned()), "{outcome:#?}");
        sandbox.on_host("git -C x.git fsck --no-progress; rm -rf x.git y");
        let bare = "mkdir -p e/refs && echo 'ref: refs/heads/main' > e/HEAD";
        for (script, is_refused) in [
            (format!("{bare} && mkdir e/objects"), false),
            (
                format!("{bare} && printf '[core]\nfsmonitor=x\n' > e/config && mkdir e/objects"),
                true,
            ),
            (
                format!(
                    "{bare} && mkdir e/hooks && cp /bin/true e/hooks/pre-push && mkdir e/objects"
                ),
                true,
            ),
            (format!("{bare} && mkdir p && mv p e/objects && printf '[core]\n' > e/config"), true),
            (format!("{bare} && ln -s $B/o e/objects"), true),
            (
                format!(
                    "{bare} && mkdir e/objects && echo x > e/hooks-free && mkdir e/hooks && echo x > e/hooks/pre-push"
                ),
                true,
            ),
            ("mkdir e && echo x > e/HEAD && echo ../evil > e/commondir".to_owned(), true),
            ("mkdir e && echo ../evil > e/commondir && echo x > e/HEAD".to_owned(), true),
        ] {
            let outcome = sandbox.run(&script);
            assert_eq!(outcome.code != 0, is_refused, "{script} {outcome:#?}");
            assert_eq!(!outcome.denials.is_empty(), is_refused, "{script} {outcome:#?}");
            sandbox.on_host("rm -rf e p");
            sandbox.control(&script).succeeds();
            sandbox.on_host("rm -rf e p");
        }
    });
}

#[test]
fn a_bare_repository_as_workspace_is_known_by_its_shape() {
    as_each_user(|sandbox| {
        let script = "echo x > config; echo x > HEAD; mkdir -p hooks && echo x > hooks/pre-commit; \
            chmod +x hooks/pre-commit";
        sandbox.run(script).succeeds().denies_nothing();
        sandbox.on_host("rm -rf * && git init -q --bare .");
        refused(sandbox, "echo x > hooks/pre-push", "git-hooks", "hooks/pre-push");
        refused(sandbox, "echo x >> config", "git-config", "config");
        sandbox
            .run("git update-ref refs/heads/x $(git hash-object -w --stdin </dev/null) || true")
            .succeeds();
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
