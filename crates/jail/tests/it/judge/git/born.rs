//! Repositories that are made in the session.

use super::refused;
use crate::judge::harness::as_each_user;

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
            ("mkdir e && ln -s ../evil e/commondir && echo x > e/HEAD".to_owned(), true),
            ("mkdir e && echo x > e/HEAD && ln -s ../evil e/commondir".to_owned(), true),
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
