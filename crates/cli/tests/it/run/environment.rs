//! The environment of the command: an allowlist, and what was left out is said.

use super::each;
use atoll_testkit::run::{Project, Ran, User};

const SECRET: &str = "sesame-opens";

/// Variables that hold secrets, lead to the caller's sessions or load code.
const DROPPED: [&str; 42] = [
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "BASH_ENV",
    "BASH_FUNC_ls%%",
    "CARGO_REGISTRY_TOKEN",
    "DATABASE_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "ENV",
    "GEM_HOST_API_KEY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GIT_ASKPASS",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "GIT_SSH_COMMAND",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GPG_AGENT_INFO",
    "HTTPS_PROXY",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "KUBECONFIG",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NPM_TOKEN",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SSH_AUTH_SOCK",
    "SUDO_ASKPASS",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "ZDOTDIR",
];

fn run(project: &Project, flags: &[&str]) -> Ran {
    let mut command = project.atoll(&["run", "--json"]);
    command.args(flags).args(["--", "env"]).envs(DROPPED.map(|name| (name, SECRET)));
    Ran(command.output().unwrap())
}

#[test]
fn secrets_sessions_and_loaders_of_the_caller_stay_outside() {
    each(|project| {
        let control =
            project.bare("env").envs(DROPPED.map(|name| (name, SECRET))).output().unwrap();
        let control = String::from_utf8(control.stdout).unwrap();
        assert_eq!(control.matches(SECRET).count(), DROPPED.len(), "{control}");
        for mode in ["live", "review", "none"] {
            let ran = run(project, &["--workspace", mode]);
            assert!(!ran.stdout().contains(SECRET), "{mode}: {}", ran.text());
            assert!(!ran.stderr().contains(SECRET), "{mode}: {}", ran.text());
            let mut dropped: Vec<String> = ran.json()["environment"]["dropped"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect();
            dropped.sort();
            assert_eq!(dropped, DROPPED, "{mode}");
        }
    });
}

#[test]
fn what_the_user_asks_for_comes_along() {
    each(|project| {
        let ran = run(project, &["--env", "GH_TOKEN", "--env", "NPM_*", "--env", "SET=b=c"]);
        let mut lines: Vec<String> = ran.stdout().lines().map(str::to_owned).collect();
        lines.retain(|line| line.contains(SECRET) || line.starts_with("SET"));
        lines.sort();
        let passed = |name: &str| format!("{name}={SECRET}");
        assert_eq!(lines, [passed("GH_TOKEN"), passed("NPM_TOKEN"), "SET=b=c".to_owned()]);
        // What points at the caller's own shell does not come by a pattern, nor
        // everything by one.
        let with = |pattern: &str| {
            let mut command = project.atoll(&["run", "--env", pattern, "--", "env"]);
            command.envs([("OLDPWD", "/secret-place"), ("OLD_ENOUGH", "1")]);
            Ran(command.output().unwrap())
        };
        let old = with("OLD*");
        assert!(old.stdout().contains("OLD_ENOUGH=1"), "{}", old.text());
        assert!(!old.stdout().contains("secret-place"), "{}", old.text());
        assert_eq!(with("*").stdout(), "");
    });
}

#[test]
fn files_that_variables_name_are_not_run() {
    each(|project| {
        let evil = project.write("evil.sh", "echo evil-ran\n");
        project.write("evil.py", "print('evil-ran')\n");
        let given = |mut command: std::process::Command| {
            command.env("BASH_ENV", &evil).env("ENV", &evil);
            command.env("BASH_FUNC_true%%", "() { echo evil-ran; }");
            Ran(command.output().unwrap())
        };
        let mut bare = project.bare("bash");
        bare.args(["-c", "true"]);
        let control = given(bare);
        assert!(control.stdout().contains("evil-ran"), "{}", control.text());
        let ran = given(project.atoll(&["run", "--", "bash", "-c", "true"]));
        assert_eq!(ran.stdout(), "", "{}", ran.text());
    });
}

#[test]
fn who_one_is_and_where_is_what_it_is_inside() {
    each(|project| {
        project.write("sub/x", "");
        let mut command =
            project.atoll(&["run", "--", "sh", "-c", "echo \"$PWD $HOME $ATOLL\"; pwd; id -un"]);
        command
            .current_dir(project.root().join("sub"))
            .env("PWD", "/wrong")
            .env("LOGNAME", "wrong");
        let ran = Ran(command.output().unwrap());
        let sub = project.root().join("sub");
        let name = if project.user.uid() == Some(0) { "root" } else { "tester" };
        let expected = format!("{0} {1} 1\n{0}\n{name}\n", sub.display(), project.home().display());
        assert_eq!(ran.stdout(), expected, "{}", ran.text());
    });
}

/// The built-in list is part of the policy, so a project may narrow it.
#[test]
fn a_project_may_have_fewer_of_the_usual_variables() {
    each(|project| {
        let script = "echo \"$LANG:$JAVA_HOME:$CI\"";
        let said = || {
            let mut run = project.atoll(&["run", "--", "sh", "-c", script]);
            run.envs([("LANG", "C"), ("JAVA_HOME", "/usr/j"), ("CI", "1")]);
            let ran = Ran(run.output().unwrap());
            assert_eq!(ran.code(), Some(0), "{}", ran.text());
            ran.stdout()
        };
        assert_eq!(said(), "C:/usr/j:1\n");
        project.write("atoll.toml", "[env]\npass = [\"LANG\"]\n");
        assert_eq!(said(), "C::\n");
    });
}

#[test]
fn a_user_whose_home_nobody_knows_is_told_to_set_it() {
    each(|project| {
        // Others have an account, which says it.
        if project.user != User::Ordinary || project.user.uid().is_none() {
            return;
        }
        let run = |home: bool| {
            let mut run = project.atoll(&["run", "--", "true"]);
            if !home {
                run.env_clear();
            }
            Ran(run.output().unwrap())
        };
        // The control.
        assert_eq!(run(true).code(), Some(0), "{}", run(true).text());
        let lost = run(false);
        assert_eq!(lost.code(), Some(125), "{}", lost.text());
        assert!(
            lost.stderr().contains("HOME, which says where it lies, is not set"),
            "{}",
            lost.text()
        );
    });
}
