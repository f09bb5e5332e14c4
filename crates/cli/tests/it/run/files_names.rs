//! Names that tools on the host obey, in a live project.

use super::each;
use atoll_testkit::picture::picture;
use atoll_testkit::run::Project;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

/// Names of every kind, none of which is there at the start.
const ABSENT: &[&str] = &[
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".zed/tasks.json",
    ".devcontainer/devcontainer.json",
    "x.code-workspace",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshenv",
    ".gitconfig",
    ".gitmodules",
    ".githooks/pre-commit",
    ".husky/pre-commit",
    ".npmrc",
    ".ripgreprc",
    ".exrc",
    "atoll.toml",
    ".aiignore",
];

/// Tries each name by a way of its own, and says how many came to be.
fn try_all(names: &[&str]) -> String {
    let mut script = "made=0; say() { made=$((made+1)); echo \"made $1\"; }\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let top = name.split('/').next().unwrap();
        let way = match number % 6 {
            0 => format!("mkdir -p $(dirname {name}) && echo x > {name}"),
            1 => format!("python3 -c 'import os; os.makedirs(\"{name}\")'"),
            2 => format!("echo x > t{number} && mv t{number} {top}"),
            3 => format!("ln -s target {top}"),
            4 => format!("echo x > t{number} && ln t{number} {top}"),
            _ => format!("cp -r prepared {top}"),
        };
        script += &format!("({way}) 2>/dev/null && say {name}\n");
    }
    script + "rm -f t[0-9]*; echo $made"
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn names_that_are_not_there_stay_away() {
    each(|project| {
        project.write("prepared/tasks.json", "{}");
        assert_eq!(project.bare_sh("git init -q .").code(), Some(0));
        let (before, home) = (picture(&project.root()), picture(&project.home()));
        let script = format!("{}; git status --porcelain", try_all(ABSENT));
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "0\n?? prepared/\n", "{}", run.text());
        assert_eq!(picture(&project.root()), before);
        assert!(run.stderr().contains("rule project-tool"), "{}", run.text());
        assert!(run.stderr().contains("--allow-write"), "{}", run.text());
        let mut after = picture(&project.home());
        after.retain(|path, _| !path.starts_with(".cache"));
        assert_eq!(after, home, "nothing in HOME but the cache");
        // The control: each of these ways works where nobody looks.
        let bare = project.bare_sh(&try_all(ABSENT));
        assert_eq!(last_line(&bare.stdout()), ABSENT.len().to_string(), "{}", bare.text());
    });
}

#[test]
fn names_that_are_there_stay_as_they_are() {
    const WAYS: &[&str] = &[
        "echo x > .envrc",
        "echo x >> .vscode/tasks.json",
        "truncate -s 0 .mcp.json",
        "rm -f .envrc",
        "mv .envrc gone",
        "touch new && mv new .envrc",
        "sed -i s/a/b/ .envrc",
        "ln .envrc second && echo x > second",
        "chmod 777 .envrc",
        "touch new && python3 -c 'import os; os.replace(\"new\", \".envrc\")'",
        "mv .vscode gone",
        "rm -r .vscode",
        "rmdir .idea",
        "cd .vscode && echo x > launch.json",
        "python3 -c 'import os; os.truncate(\".vscode/tasks.json\", 0)'",
        "python3 -c 'import os; os.setxattr(\".envrc\", \"user.x\", b\"x\")'",
    ];
    const SET_UP: &str = "mkdir .vscode .idea; for n in .vscode/tasks.json .mcp.json .envrc; do \
        echo a > $n; done";
    each(|project| {
        assert_eq!(project.bare_sh(SET_UP).code(), Some(0));
        let before = picture(&project.root());
        let all: String = WAYS
            .iter()
            .map(|way| {
                format!("({way}) 2>/dev/null && echo \"{}\"\n", way.replace(['"', '\'', '$'], ""))
            })
            .collect();
        let run = project.run_sh(&[], &format!("{all} rm -f new second; cat .envrc"));
        assert_eq!(run.stdout(), "a\n", "{}", run.text());
        assert_eq!(picture(&project.root()), before);
        for way in WAYS {
            let bare = project.bare_sh(&format!(
                "rm -rf .vscode .idea .envrc .mcp.json gone second; \
                {SET_UP}; set -e; {way}"
            ));
            assert_eq!(bare.code(), Some(0), "the control {way}: {}", bare.text());
        }
    });
}

#[test]
fn every_spelling_of_a_path_meets_the_same_rule() {
    each(|project| {
        project.write(".vscode/tasks.json", "{}");
        project.write("sub/file", "");
        assert_eq!(project.bare_sh("ln -s .vscode alias; ln -s . self").code(), Some(0));
        let before = picture(&project.root());
        let script = r#"
            for path in alias/x self/.vscode/x self/alias/x sub/../.vscode/x .//.vscode///x \
                /proc/self/cwd/.vscode/x /proc/self/root$PWD/.vscode/x /proc/thread-self/cwd/alias/x \
                $PWD/.vscode/x .VSCODE/x; do
                mkdir -p "$(dirname "$path")" 2>/dev/null
                (echo x > "$path") 2>/dev/null && echo "written $path"
            done
            (cd alias && echo x > x) 2>/dev/null && echo "written in alias"
            exec 9< .vscode; (echo x > /proc/self/fd/9/x) 2>/dev/null && echo "written by descriptor"
            true"#;
        let run = project.run_sh(&["--json"], script);
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert_eq!(picture(&project.root()), before);
        let json = run.json();
        let real = project.root().join(".vscode/x");
        let told: Vec<&str> = json["denials"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|denial| denial["refusal"]["path"].as_str())
            .collect();
        assert!(told.contains(&real.to_str().unwrap()), "the real path is told: {told:?}");
        let bare = project.bare_sh(script);
        assert_eq!(bare.stdout().lines().count(), 12, "{}", bare.text());
    });
}

#[test]
fn a_flag_lets_one_name_be_written_and_no_other() {
    each(|project| {
        let script = "mkdir .vscode && echo x > .vscode/tasks.json; mkdir .idea; echo x > .envrc";
        let run = project.run_sh(&["--allow-write", ".vscode/"], script);
        assert_eq!(project.read(".vscode/tasks.json"), "x\n", "{}", run.text());
        assert!(!project.root().join(".idea").exists());
        assert!(!project.root().join(".envrc").exists());
    });
}

#[test]
fn an_installer_of_hooks_goes_on_and_is_told_the_flag() {
    const INSTALLER: &str = "git config core.hooksPath .husky || echo skipped; \
        { mkdir -p .husky && echo x > .husky/pre-commit; } || echo skipped; echo ok > installed";
    each(|project| {
        assert_eq!(project.bare_sh("git init -q .").code(), Some(0));
        let run = project.run_sh(&[], INSTALLER);
        assert_eq!(run.code(), Some(0));
        assert_eq!(run.stdout(), "skipped\nskipped\n", "{}", run.text());
        assert_eq!(project.read("installed"), "ok\n");
        let flags: Vec<String> = run
            .stderr()
            .lines()
            .filter_map(|line| line.split_once("--allow-write ").map(|(_, flag)| flag.to_owned()))
            .map(|flag| flag.trim_matches('\'').to_owned())
            .collect();
        assert_eq!(flags.len(), 2, "{}", run.text());
        // What the lines say is enough.
        let mut arguments = Vec::new();
        for flag in &flags {
            arguments.extend(["--allow-write", flag]);
        }
        let run = project.run_sh(&arguments, INSTALLER);
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert_eq!(project.read(".husky/pre-commit"), "x\n");
    });
}

/// Kills the launcher while `script`, which has to say "ready", goes on.
fn kill_while(project: &Project, script: &str) {
    let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    run.kill().unwrap();
    run.wait().unwrap();
    // Nobody inside holds the other end any more.
    output.read_to_string(&mut line).unwrap();
}

#[test]
fn a_killed_launcher_leaves_no_trace() {
    each(|project| {
        project.write("prepared/tasks.json", "{}");
        assert_eq!(project.bare_sh("git init -q . && git status").code(), Some(0));
        // The first run makes the caches.
        assert_eq!(project.run_sh(&[], "true").code(), Some(0));
        let before = (picture(&project.root()), picture(&project.home()));
        let script = format!(
            "while :; do {}; mkdir .git/hooks/x; echo x > .git/hooks/pre-commit; done 2>/dev/null \
             >/dev/null & while :; do mkdir .vscode; ln -s prepared .idea; touch t && mv t .envrc; \
             rm -f t; done 2>/dev/null & echo ready; wait",
            try_all(ABSENT)
        );
        for _ in 0..3 {
            kill_while(project, &script);
            let mut after = (picture(&project.root()), picture(&project.home()));
            // What the script made under plain names is its own.
            after.0.retain(|path, _| !path.to_string_lossy().starts_with('t'));
            assert_eq!(after, before);
            assert_eq!(
                project.bare_sh("rm -f t*; git status --porcelain").stdout(),
                "?? prepared/\n"
            );
        }
    });
}
