//! Files that tools on the host obey.

use std::io::Read as _;

use super::harness::{Sandbox, as_each_user};

const TOOLS: [&str; 8] = [
    ".vscode",
    ".idea",
    ".envrc",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".bashrc",
    "*.code-workspace",
];

fn with_tools(test: impl Fn(&mut Sandbox)) {
    as_each_user(|sandbox| {
        sandbox.options.tools = TOOLS.to_vec();
        test(sandbox);
    });
}

#[test]
fn files_that_are_not_there_stay_away() {
    with_tools(|sandbox| {
        sandbox.on_host("git init -q . && mkdir -p nested prepared .claude && git init -q nested");
        sandbox.on_host("echo x > prepared/settings.json; echo x > prepared/tasks.json");
        let before = sandbox.picture(".");
        for (script, path) in [
            ("mkdir .vscode", ".vscode"),
            ("mkdir -p .vscode/deep", ".vscode"),
            ("echo x > .envrc", ".envrc"),
            ("echo x > .ENVRC", ".ENVRC"),
            ("ln -s prepared .vscode", ".vscode"),
            ("mv prepared .vscode", ".vscode"),
            ("ln prepared/tasks.json .mcp.json", ".mcp.json"),
            ("mkfifo .bashrc", ".bashrc"),
            ("echo x > a.code-workspace", "a.code-workspace"),
            ("echo {} > .claude/settings.json", ".claude/settings.json"),
            (
                "cp prepared/settings.json .claude/settings.local.json",
                ".claude/settings.local.json",
            ),
            ("rmdir .claude && mv prepared .claude", ".claude"),
            ("rmdir .claude && ln -s prepared .claude", ".claude"),
            ("mkdir nested/.idea", "nested/.idea"),
            ("cd nested && echo x > .envrc", "nested/.envrc"),
            ("python3 -c 'import os; os.mknod(\".envrc\")'", ".envrc"),
        ] {
            sandbox.run(script).fails().denies("project-tool", path);
            sandbox.on_host("mkdir -p .claude");
            assert_eq!(sandbox.picture("."), before, "{script}");
            sandbox.on_host("cp -a . $B/saved");
            sandbox.control(script).succeeds();
            sandbox.on_host("find . -mindepth 1 -delete; cp -a $B/saved/. . && rm -rf $B/saved");
        }
        assert_eq!(
            sandbox.run("git status --porcelain").succeeds().stdout,
            "?? nested/\n?? prepared/\n"
        );
    });
}

#[test]
fn files_that_are_there_stay_as_they_are() {
    with_tools(|sandbox| {
        sandbox.on_host("mkdir .vscode .claude; echo a > .vscode/tasks.json; echo b > .envrc; echo c > .claude/settings.json");
        let before = sandbox.picture(".");
        for (script, path) in [
            ("echo x >> .envrc", ".envrc"),
            ("rm .envrc", ".envrc"),
            ("mv .envrc x", ".envrc"),
            ("touch x && mv x .envrc", ".envrc"),
            ("ln .envrc x && echo y > x", ".envrc"),
            ("chmod 777 .envrc", ".envrc"),
            ("truncate -s 0 .envrc", ".envrc"),
            ("mv .vscode v", ".vscode"),
            ("mv .claude c", ".claude"),
            ("cd .vscode && echo x > launch.json", ".vscode/launch.json"),
            ("rm -r .vscode", ".vscode/tasks.json"),
        ] {
            sandbox
                .run(&format!("trap 'rm -f x' EXIT; set -e; {script}"))
                .fails()
                .denies("project-tool", path);
            assert_eq!(sandbox.picture("."), before, "{script}");
        }
        sandbox
            .run("echo x > .claude/other && cat .envrc .vscode/tasks.json")
            .succeeds()
            .denies_nothing();
    });
}

#[test]
fn elsewhere_they_are_let_through_and_told() {
    with_tools(|sandbox| {
        let script = "mkdir -p node_modules/p/.vscode && echo x > node_modules/p/.vscode/s.json && \
            echo x > node_modules/p/.envrc && echo x > gone.txt && mkdir q && echo x > q/.envrc && rm -r q";
        let outcome = sandbox.run(script).succeeds().denies_nothing();
        assert_eq!(outcome.report, ["node_modules/p/.envrc", "node_modules/p/.vscode"]);
    });
}

#[test]
fn a_clone_that_tracks_them_works_and_is_told() {
    with_tools(|sandbox| {
        sandbox.on_host("git init -q -b main $B/o/src && cd $B/o/src && mkdir .vscode && echo a > .vscode/a && git add . && git commit -qm a");
        let outcome = sandbox.run("git clone -q $B/o/src x").succeeds().denies_nothing();
        assert_eq!(outcome.report, ["x/.git", "x/.vscode"]);
    });
}

#[test]
fn a_link_in_their_place_protects_its_target_and_is_named() {
    with_tools(|sandbox| {
        sandbox.options.deny = vec!["denied"];
        sandbox.options.allow = vec!["/conf/secret"];
        sandbox.on_host("mkdir -p conf/code && echo a > conf/code/tasks.json && ln -s conf/code .vscode
            ln -s nowhere .envrc && ln -s loop .idea && ln -s .idea loop && ln -s /etc/hostname .bashrc
            git init -q . && git config core.hooksPath myhooks && ln -s conf/secret denied");
        let before = sandbox.picture(".");
        for (script, rule, path, detail) in [
            (
                "echo x > conf/code/tasks.json",
                "project-tool",
                "conf/code/tasks.json",
                ".vscode leads here",
            ),
            (
                "echo x > .vscode/launch.json",
                "project-tool",
                "conf/code/launch.json",
                ".vscode leads here",
            ),
            ("echo x > nowhere", "project-tool", "nowhere", ".envrc leads here"),
            ("echo x > .envrc", "project-tool", ".envrc", ""),
            ("ln -sfn elsewhere .vscode", "project-tool", ".vscode", ""),
            ("rm .idea", "project-tool", ".idea", ""),
            ("mkdir myhooks", "git-linked", "myhooks", ""),
            // What is allowed there is not what the user denies by a link.
            ("echo x > conf/secret", "user-deny", "conf/secret", "denied leads here"),
            ("mv conf c2", "user-deny", "conf", ""),
        ] {
            let outcome = sandbox.run(script).fails().denies(rule, path);
            assert!(outcome.denials.iter().all(|told| told.detail == detail), "{outcome:#?}");
            assert_eq!(sandbox.picture("."), before, "{script}");
        }
        // Without the link nothing is wrong with it.
        sandbox.on_host("rm denied .envrc");
        sandbox.run("echo x > conf/secret; echo x > nowhere").succeeds().denies_nothing();
    });
}

#[test]
fn a_flag_lets_hooks_be_installed_and_without_it_the_rest_goes_on() {
    with_tools(|sandbox| {
        sandbox.on_host("git init -q .");
        // Like an installer of hooks: it tries, complains and goes on.
        let script = "echo x > .git/hooks/pre-commit || echo skipped; git config core.hooksPath .husky \
            || echo skipped; echo installed > done";
        let outcome = sandbox.run(script).succeeds();
        assert_eq!(outcome.stdout, "skipped\nskipped\n");
        assert_eq!(outcome.denials.len(), 2);
        sandbox.options.allow = vec!["/.git/hooks/pre-commit", "/.git/config"];
        assert_eq!(sandbox.run(script).succeeds().denies_nothing().stdout, "");
    });
}

#[test]
fn nothing_is_left_when_the_sandbox_is_killed() {
    with_tools(|sandbox| {
        sandbox.on_host("git init -q . && mkfifo $B/h/ready");
        let before = sandbox.picture(".");
        let script =
            "mkdir .vscode; echo x > .envrc; cp .git/config .git/config.lock; rm .git/config.lock
            while :; do mkdir .vscode .idea 2>/dev/null; echo x > .envrc; done 2>/dev/null &
            echo ready > $B/h/ready; wait";
        let ready = sandbox.base().join("h/ready");
        sandbox.run_until_killed(script, || {
            let mut word = String::new();
            std::fs::File::open(ready).unwrap().read_to_string(&mut word).unwrap();
            assert_eq!(word, "ready\n");
        });
        assert_eq!(sandbox.picture("."), before);
    });
}

#[test]
fn what_is_to_be_told_is_told_however_it_changes() {
    as_each_user(|sandbox| {
        sandbox.options.told = vec!["AGENTS.md", "CLAUDE.md", ".github/workflows"];
        sandbox.options.deny = vec!["CLAUDE.md"];
        for (script, expected) in [
            ("echo x > AGENTS.md", &["AGENTS.md"][..]),
            ("echo x >> other; cat AGENTS.md; chmod 600 AGENTS.md", &[]),
            ("truncate -s 0 AGENTS.md", &["AGENTS.md"]),
            ("rm AGENTS.md", &["AGENTS.md"]),
            ("echo x > other; mv other AGENTS.md", &["AGENTS.md"]),
            ("mv AGENTS.md other", &["AGENTS.md"]),
            ("ln AGENTS.md other; echo x > other", &["AGENTS.md"]),
            ("ln -s AGENTS.md other; echo x > other", &["AGENTS.md"]),
            ("echo x > linked/real.md", &["linked/real.md"]),
            ("echo x > plain/AGENTS.md", &[]),
            ("echo x > nested/AGENTS.md; rm nested/AGENTS.md", &[]),
            ("echo x > nested/AGENTS.md", &["nested/AGENTS.md"]),
            (
                "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml",
                &[".github/workflows/ci.yml"],
            ),
            (
                "mkdir -p new/workflows; touch new/workflows/x; mv new .github",
                &[".github/workflows"],
            ),
            ("! echo x > CLAUDE.md", &[]),
        ] {
            sandbox.on_host(
                "find . -mindepth 1 -delete; git init -q .; mkdir plain nested linked; git init -q nested
                 echo a > AGENTS.md; echo a > linked/real.md; ln -s ../linked/real.md nested/CLAUDE.md",
            );
            // At the root, where links are followed at the start.
            if script.contains("linked") {
                sandbox.on_host("rm AGENTS.md; ln -s linked/real.md AGENTS.md");
            }
            let outcome = sandbox.run(script).succeeds();
            assert_eq!(outcome.report, expected, "{script}: {outcome:#?}");
        }
    });
}
