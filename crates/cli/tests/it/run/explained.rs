//! `atoll policy explain` says what a run then finds.

use super::each;
use atoll_testkit::run::{Project, Ran};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Tells of each path in its arguments whether it can be read, as what, and whether
/// it can be written, by trying: access(2) knows nothing of the judge.
const TRY: &str = r"
import hashlib, json, os, sys
def read(path):
    try:
        if os.path.isdir(path): data = '\0'.join(sorted(os.listdir(path))).encode()
        elif os.path.isfile(path): data = open(path, 'rb').read()
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); return 'device'
        return hashlib.sha256(data).hexdigest()
    except OSError: return None
def write(path):
    try:
        if os.path.isdir(path):
            new = os.path.join(path, 'made-by-a-test')
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY)); os.unlink(new)
        elif os.path.lexists(path): os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        else: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)); os.unlink(path)
        return True
    except OSError: return False
print(json.dumps({path: [read(path), write(path)] for path in sys.argv[1:]}))
";

/// A HOME, a project and things around them.
fn furnish(project: &Project) -> Vec<String> {
    let base = project.root().parent().unwrap().to_owned();
    let outside = project.outside();
    let files = [
        "project/plain",
        "project/.env",
        "project/keys/a.pem",
        "project/.aiignore",
        "project/.vscode/tasks.json",
        "project/src/deep/file",
        "project/AGENTS.md",
        "project/shut",
        "project/closed/file",
        "outside/granted/file",
        "outside/granted/sub/file",
        "outside/shown/file",
        "outside/shown/rw/file",
        "outside/beside",
        "outside/pyenv/bin/python",
        "home/.ssh/id",
        "home/.bashrc",
        "home/.cargo/bin/tool",
        "home/.cargo/credentials.toml",
        "home/.local/share/uv/tools/t/bin/t",
        "home/.local/share/uv/credentials/c",
        "home/.opam/plugins/token",
        "home/.opam/bin/ocaml",
        "home/.cache/pip/x",
        "home/.npm/x",
    ];
    for name in files {
        let path = base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("this is {name}")).unwrap();
    }
    std::fs::write(project.root().join(".aiignore"), ".env\nkeys/\n/none\n").unwrap();
    std::os::unix::fs::symlink(outside.join("pyenv"), project.home().join(".pyenv")).unwrap();
    std::os::unix::fs::symlink("../home/.ssh/id", project.root().join("link")).unwrap();
    project.user.give(&base.join("project"));
    project.user.give(&outside);
    project.user.give(&project.home());
    let lay_out = "git init -q . && chmod 000 shut && chmod 500 closed && chmod 400 closed/file && \
                   git init -q ../outside/granted/sub";
    assert_eq!(project.bare_sh(lay_out).code(), Some(0));
    let mut paths: Vec<String> =
        files.iter().map(|name| base.join(name).display().to_string()).collect();
    let below = |name: &str| base.join(name).display().to_string();
    paths.extend(
        [
            "project/src",
            "project/new",
            "project/none",
            "project/closed/new",
            "project/.envrc",
            "project/link",
            "project/keys",
            "project/.git/HEAD",
            "project/.git/config",
            "project/.git/hooks/pre-commit",
            "project/.git/info/exclude",
            "project/.git/info/attributes",
            "project/.git/info/refs",
            "project/.git/objects/info/alternates",
            "project/.git/refs/new",
            "project/.git/description",
            "outside/granted/new",
            "outside/granted/.envrc",
            "outside/granted/sub/.git/hooks/pre-commit",
            "outside/shown/new",
            "home/new",
            "home/.pyenv/bin/python",
        ]
        .map(below),
    );
    let system = [
        "/usr/bin/env",
        "/bin/sh",
        "/usr/bin",
        "/usr/local/bin/new",
        "/etc/passwd",
        "/etc/hosts",
        "/etc/shadow",
        "/etc/services",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/ssl/private",
        "/etc/machine-id",
        "/etc/cron.daily",
        "/etc/new",
        "/dev/null",
        "/dev/urandom",
        "/dev/kmsg",
        "/tmp",
        "/var/tmp",
        "/var/log",
        "/run",
        "/sys/kernel",
        "/boot",
        "/root",
        "/srv",
    ];
    paths.extend(system.map(str::to_owned));
    paths
}

fn tried(mut command: std::process::Command, paths: &[String]) -> BTreeMap<String, Value> {
    let ran = Ran(command.args(["-c", TRY]).args(paths).output().unwrap());
    serde_json::from_str(&ran.stdout()).unwrap_or_else(|_| panic!("{}", ran.text()))
}

/// Compares for each path what `atoll policy explain` says with what a run finds, and
/// counts those that can be read.
fn compare(project: &Project, cwd: &Path, flags: &[&str], paths: &[String]) -> usize {
    let here = |mut command: std::process::Command| {
        command.current_dir(cwd);
        command
    };
    let host = tried(here(project.bare("python3")), paths);
    let explained: Vec<Value> = paths
        .iter()
        .map(|path| {
            let mut explain = here(project.atoll(&["policy", "explain", "--json"]));
            let ran = Ran(explain.args(flags).arg(path).output().unwrap());
            serde_json::from_str(&ran.stdout()).unwrap_or_else(|_| panic!("{}", ran.text()))
        })
        .collect();
    let inside: Vec<String> = paths
        .iter()
        .zip(&explained)
        .map(|(path, answer)| answer["inside"].as_str().unwrap_or(path).to_owned())
        .collect();
    let mut run = here(project.atoll(&["run"]));
    run.args(flags).args(["--", "python3"]);
    let found = tried(run, &inside);
    let mut wrong = Vec::new();
    for ((path, answer), inside) in paths.iter().zip(&explained).zip(&inside) {
        let (read, write) = (&found[inside][0], &found[inside][1]);
        // Something else at the same place is not the host's.
        let is_hosts = !read.is_null() && (*read == host[path][0] || host[path][0].is_null());
        let says = |key: &str| answer[key]["answer"] != "no";
        if answer["exists"] == true && says("read") != is_hosts {
            wrong.push(format!("read {path}: {answer} but {read}"));
        }
        // What is written there is not the host's file: in a private place it goes
        // with the sandbox, in the place of a file that is hidden from a review it
        // is not applied.
        let rule = answer["write"]["rule"].as_str().unwrap();
        let is_elsewhere =
            matches!(rule, "private" | "home") || (flags.contains(&"review") && rule == "hidden");
        if !is_elsewhere && says("write") != (*write == true) {
            wrong.push(format!("write {path}: {answer} but {write}"));
        }
    }
    assert!(wrong.is_empty(), "{flags:?}: {wrong:#?}");
    explained.iter().filter(|answer| answer["read"]["answer"] == "yes").count()
}

#[test]
fn what_is_explained_is_what_a_run_finds() {
    each(|project| {
        let paths = furnish(project);
        let outside = project.outside();
        let grants: [String; 3] =
            ["granted", "shown", "shown/rw"].map(|name| outside.join(name).display().to_string());
        let [granted, shown, below] = &grants;
        let root = project.root();
        for mode in ["live", "review", "none"] {
            let grants = ["--write", granted, "--read", shown, "--write", below];
            let flags = [&["--workspace", mode], &grants[..]].concat();
            let readable = compare(project, &root, &flags, &paths);
            assert!((15..paths.len() - 15).contains(&readable), "{mode}: {readable}");
        }
        assert!(compare(project, &root, &["--strict-ignore"], &paths) > 15);
    });
}

#[test]
fn so_it_is_with_a_repository_that_lies_outside() {
    each(|project| {
        let lay_out = "git init -q main && cd main && touch file && git add . && \
             git -c user.name=t -c user.email=t@example.org commit -qm x && \
             git worktree add -q ../tree";
        let mut sh = project.bare("sh");
        let made = Ran(sh.args(["-c", lay_out]).current_dir(project.outside()).output().unwrap());
        assert_eq!(made.code(), Some(0), "{}", made.text());
        let paths = [
            "main/file",
            "main/new",
            "main/.git/HEAD",
            "main/.git/new",
            "main/.git/config",
            "main/.git/hooks/pre-commit",
            "main/.git/info/exclude",
            "tree/file",
            "tree/new",
            "tree/.git",
        ]
        .map(|name| project.outside().join(name).display().to_string());
        for mode in ["live", "review", "none"] {
            let tree = project.outside().join("tree");
            let readable = compare(project, &tree, &["--workspace", mode], &paths);
            assert_eq!(readable, if mode == "none" { 0 } else { 8 }, "{mode}");
        }
    });
}

#[test]
fn explaining_leaves_nothing_behind() {
    each(|project| {
        let ran = Ran(project.atoll(&["policy", "explain", "/usr/bin/env"]).output().unwrap());
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert_eq!(std::fs::read_dir(project.home()).unwrap().count(), 0);
        assert_eq!(project.run_sh(&[], "true").code(), Some(0));
        assert_ne!(std::fs::read_dir(project.home()).unwrap().count(), 0, "control");
    });
}
