//! The names that are risky, and why.

use super::RiskKind::{self, Agent, Build, Ci, Editor, Environment, Git, Shell};

/// How a rule's pattern is laid on a path. Parts are compared in lower case, `*`
/// stands for any run of characters within one part.
#[derive(Debug, Clone, Copy)]
enum Where {
    /// The last parts of the path, at any depth.
    Name(&'static str),
    /// A directory with these last parts is above the path, at any depth.
    In(&'static str),
}
use Where::{In, Name};

pub(super) struct Rule {
    pub(super) kind: RiskKind,
    place: Where,
    /// Names that the pattern takes in and that are harmless.
    but_not: &'static [&'static str],
    pub(super) reason: &'static str,
}

const fn rule(kind: RiskKind, place: Where, reason: &'static str) -> Rule {
    Rule { kind, place, but_not: &[], reason }
}

/// What git run by the host obeys.
const HOOK: &str = "is run by git on the host";
const GIT_SETTING: &str = "tells git what to run or where to fetch";
const CI: &str = "is run by the build service";
const EDITOR: &str = "is read by an editor that opens the folder and can name programs to run";
const AGENT: &str = "is read by a coding agent that is started in the folder";
const SHELL: &str = "is read by a shell or a tool that hooks into one";
const BUILD: &str = "is run by the next build";
const INSTALL: &str = "is run by the next install";
const TEST: &str = "is run by the next test run";
const SOURCE: &str = "tells where packages or tools come from";
const FRONT: &str = "is run in place of a program of the host";

pub(super) const RULES: &[Rule] = &[
    Rule { kind: Git, place: In(".git/hooks"), but_not: &["*.sample"], reason: HOOK },
    Rule { kind: Git, place: In(".git/modules/*/hooks"), but_not: &["*.sample"], reason: HOOK },
    Rule { kind: Git, place: In("git~1/hooks"), but_not: &["*.sample"], reason: HOOK },
    rule(Git, In(".githooks"), HOOK),
    rule(Git, In(".husky"), HOOK),
    rule(Git, Name("hooks/applypatch-msg"), HOOK),
    rule(Git, Name("hooks/commit-msg"), HOOK),
    rule(Git, Name("hooks/post-checkout"), HOOK),
    rule(Git, Name("hooks/post-commit"), HOOK),
    rule(Git, Name("hooks/post-merge"), HOOK),
    rule(Git, Name("hooks/post-receive"), HOOK),
    rule(Git, Name("hooks/post-rewrite"), HOOK),
    rule(Git, Name("hooks/post-update"), HOOK),
    rule(Git, Name("hooks/pre-applypatch"), HOOK),
    rule(Git, Name("hooks/pre-commit"), HOOK),
    rule(Git, Name("hooks/pre-push"), HOOK),
    rule(Git, Name("hooks/pre-rebase"), HOOK),
    rule(Git, Name("hooks/pre-receive"), HOOK),
    rule(Git, Name("hooks/prepare-commit-msg"), HOOK),
    rule(Git, Name("hooks/fsmonitor-watchman"), HOOK),
    rule(Git, Name("hooks/update"), HOOK),
    rule(Git, Name("lefthook.yml"), HOOK),
    rule(Git, Name("lefthook-local.yml"), HOOK),
    rule(Git, Name(".lefthook.yml"), HOOK),
    rule(Git, Name(".pre-commit-config.yaml"), HOOK),
    rule(Git, Name(".git/config"), GIT_SETTING),
    rule(Git, Name("git~1/config"), GIT_SETTING),
    rule(Git, Name(".git/config.worktree"), GIT_SETTING),
    rule(Git, Name(".git/modules/*/config"), GIT_SETTING),
    rule(Git, Name(".git/info/attributes"), GIT_SETTING),
    rule(Git, Name(".git/commondir"), GIT_SETTING),
    rule(Git, Name(".git/gitdir"), GIT_SETTING),
    rule(Git, Name(".git/worktrees/*/gitdir"), GIT_SETTING),
    rule(Git, Name(".git/worktrees/*/commondir"), GIT_SETTING),
    rule(Git, Name(".git/objects/info/alternates"), GIT_SETTING),
    rule(Git, Name(".git"), "points git at another repository"),
    rule(Git, Name(".gitattributes"), GIT_SETTING),
    rule(Git, Name(".gitmodules"), GIT_SETTING),
    rule(Git, Name(".gitconfig"), GIT_SETTING),
    rule(Ci, In(".github/workflows"), CI),
    rule(Ci, In(".github/actions"), CI),
    rule(Ci, In(".gitea/workflows"), CI),
    rule(Ci, In(".forgejo/workflows"), CI),
    rule(Ci, Name(".gitlab-ci.yml"), CI),
    rule(Ci, In(".gitlab/ci"), CI),
    rule(Ci, Name("jenkinsfile*"), CI),
    rule(Ci, In(".circleci"), CI),
    rule(Ci, Name(".travis.yml"), CI),
    rule(Ci, Name("appveyor.yml"), CI),
    rule(Ci, Name(".appveyor.yml"), CI),
    rule(Ci, Name("azure-pipelines*.yml"), CI),
    rule(Ci, Name("bitbucket-pipelines.yml"), CI),
    rule(Ci, In(".buildkite"), CI),
    rule(Ci, Name(".drone.yml"), CI),
    rule(Ci, Name(".cirrus.yml"), CI),
    rule(Ci, Name("cloudbuild.yaml"), CI),
    rule(Ci, Name("buildspec.yml"), CI),
    rule(Ci, Name(".woodpecker.yml"), CI),
    rule(Ci, In(".woodpecker"), CI),
    rule(Ci, In(".teamcity"), CI),
    rule(Editor, In(".vscode"), EDITOR),
    rule(Editor, In(".vscode-server"), EDITOR),
    rule(Editor, In(".idea"), EDITOR),
    rule(Editor, In(".fleet"), EDITOR),
    rule(Editor, In(".vs"), EDITOR),
    rule(Editor, In(".zed"), EDITOR),
    rule(Editor, In(".devcontainer"), EDITOR),
    rule(Editor, Name(".devcontainer.json"), EDITOR),
    rule(Editor, Name("*.code-workspace"), EDITOR),
    rule(Editor, Name("*.sublime-project"), EDITOR),
    rule(Editor, Name(".exrc"), EDITOR),
    rule(Editor, Name(".vimrc"), EDITOR),
    rule(Editor, Name(".nvimrc"), EDITOR),
    rule(Editor, Name(".nvim.lua"), EDITOR),
    rule(Editor, In(".helix"), EDITOR),
    rule(Editor, Name(".dir-locals.el"), EDITOR),
    rule(Editor, Name(".dir-locals-2.el"), EDITOR),
    rule(Editor, Name(".editorconfig-checker.json"), EDITOR),
    rule(Agent, In(".claude"), AGENT),
    rule(Agent, Name("claude.md"), AGENT),
    rule(Agent, Name("claude.local.md"), AGENT),
    rule(Agent, Name("agents.md"), AGENT),
    rule(Agent, Name("gemini.md"), AGENT),
    rule(Agent, In(".cursor"), AGENT),
    rule(Agent, Name(".cursorrules"), AGENT),
    rule(Agent, Name(".mcp.json"), AGENT),
    rule(Agent, Name("mcp.json"), AGENT),
    rule(Agent, In(".codex"), AGENT),
    rule(Agent, In(".gemini"), AGENT),
    rule(Agent, In(".continue"), AGENT),
    rule(Agent, In(".roo"), AGENT),
    rule(Agent, In(".kiro"), AGENT),
    rule(Agent, In(".amazonq"), AGENT),
    rule(Agent, In(".opencode"), AGENT),
    rule(Agent, Name("opencode.json"), AGENT),
    rule(Agent, Name(".clinerules"), AGENT),
    rule(Agent, In(".clinerules"), AGENT),
    rule(Agent, Name(".aider.conf.yml"), AGENT),
    rule(Agent, In(".windsurf"), AGENT),
    rule(Agent, Name(".windsurfrules"), AGENT),
    rule(Agent, Name(".github/copilot-instructions.md"), AGENT),
    rule(Agent, Name("atoll.toml"), "is the policy of this sandbox"),
    rule(Shell, Name(".envrc"), SHELL),
    rule(Shell, Name(".env"), SHELL),
    rule(Shell, Name(".env.*"), SHELL),
    rule(Shell, Name(".bashrc"), SHELL),
    rule(Shell, Name(".bash_profile"), SHELL),
    rule(Shell, Name(".bash_login"), SHELL),
    rule(Shell, Name(".bash_logout"), SHELL),
    rule(Shell, Name(".bash_aliases"), SHELL),
    rule(Shell, Name(".profile"), SHELL),
    rule(Shell, Name(".zshrc"), SHELL),
    rule(Shell, Name(".zshenv"), SHELL),
    rule(Shell, Name(".zprofile"), SHELL),
    rule(Shell, Name(".zlogin"), SHELL),
    rule(Shell, Name(".inputrc"), SHELL),
    rule(Shell, In(".config/fish"), SHELL),
    rule(Shell, Name(".mise.toml"), SHELL),
    rule(Shell, Name("mise.toml"), SHELL),
    rule(Shell, Name(".tool-versions"), SHELL),
    rule(Shell, Name(".screenrc"), SHELL),
    rule(Shell, Name(".tmux.conf"), SHELL),
    rule(Build, Name("makefile"), BUILD),
    rule(Build, Name("makefile.am"), BUILD),
    rule(Build, Name("makefile.in"), BUILD),
    rule(Build, Name("gnumakefile"), BUILD),
    rule(Build, Name("*.mk"), BUILD),
    rule(Build, Name("justfile"), BUILD),
    rule(Build, Name(".justfile"), BUILD),
    rule(Build, Name("taskfile.yml"), BUILD),
    rule(Build, Name("taskfile.yaml"), BUILD),
    rule(Build, Name("configure"), BUILD),
    rule(Build, Name("configure.ac"), BUILD),
    rule(Build, Name("cmakelists.txt"), BUILD),
    rule(Build, Name("*.cmake"), BUILD),
    rule(Build, Name("cmakepresets.json"), BUILD),
    rule(Build, Name("cmakeuserpresets.json"), BUILD),
    rule(Build, Name("meson.build"), BUILD),
    rule(Build, Name("sconstruct"), BUILD),
    rule(Build, Name("wscript"), BUILD),
    rule(Build, Name("build.ninja"), BUILD),
    rule(Build, Name("build"), BUILD),
    rule(Build, Name("build.bazel"), BUILD),
    rule(Build, Name("workspace"), BUILD),
    rule(Build, Name("workspace.bazel"), BUILD),
    rule(Build, Name("module.bazel"), BUILD),
    rule(Build, Name("*.bzl"), BUILD),
    rule(Build, Name(".bazelrc"), BUILD),
    rule(Build, Name("dockerfile"), BUILD),
    rule(Build, Name("dockerfile.*"), BUILD),
    rule(Build, Name("containerfile"), BUILD),
    rule(Build, Name("docker-compose*.yml"), BUILD),
    rule(Build, Name("docker-compose*.yaml"), BUILD),
    rule(Build, Name("compose.yml"), BUILD),
    rule(Build, Name("compose.yaml"), BUILD),
    rule(Build, Name("compose.override.y*ml"), BUILD),
    rule(Build, Name("vagrantfile"), BUILD),
    rule(Build, Name("build.rs"), BUILD),
    rule(Build, Name(".cargo/config"), BUILD),
    rule(Build, Name(".cargo/config.toml"), BUILD),
    rule(Build, Name("rust-toolchain"), SOURCE),
    rule(Build, Name("rust-toolchain.toml"), SOURCE),
    rule(Build, Name("setup.py"), INSTALL),
    rule(Build, Name("setup.cfg"), INSTALL),
    rule(Build, Name("pyproject.toml"), INSTALL),
    rule(Build, Name("pip.conf"), SOURCE),
    rule(Build, Name(".pypirc"), SOURCE),
    rule(Build, Name("conftest.py"), TEST),
    rule(Build, Name("noxfile.py"), TEST),
    rule(Build, Name("tox.ini"), TEST),
    rule(Build, Name("pytest.ini"), TEST),
    rule(Build, Name("tasks.py"), BUILD),
    rule(Build, Name("fabfile.py"), BUILD),
    rule(Build, Name("dodo.py"), BUILD),
    rule(Build, Name("manage.py"), BUILD),
    rule(Build, Name("sitecustomize.py"), "is run at each start of Python"),
    rule(Build, Name("usercustomize.py"), "is run at each start of Python"),
    rule(Build, Name("binding.gyp"), INSTALL),
    rule(Build, Name("*.config.js"), BUILD),
    rule(Build, Name("*.config.cjs"), BUILD),
    rule(Build, Name("*.config.mjs"), BUILD),
    rule(Build, Name("*.config.ts"), BUILD),
    rule(Build, Name("*.config.mts"), BUILD),
    rule(Build, Name(".*rc.js"), BUILD),
    rule(Build, Name(".*rc.cjs"), BUILD),
    rule(Build, Name(".*rc.mjs"), BUILD),
    rule(Build, Name("gruntfile.*"), BUILD),
    rule(Build, Name("gulpfile.*"), BUILD),
    rule(Build, Name("jakefile*"), BUILD),
    rule(Build, Name(".npmrc"), SOURCE),
    rule(Build, Name(".yarnrc"), SOURCE),
    rule(Build, Name(".yarnrc.yml"), SOURCE),
    rule(Build, In(".yarn/releases"), INSTALL),
    rule(Build, In(".yarn/plugins"), INSTALL),
    rule(Build, Name(".pnp.cjs"), INSTALL),
    rule(Build, Name(".pnpmfile.cjs"), INSTALL),
    rule(Build, Name("bunfig.toml"), SOURCE),
    rule(Build, Name("deno.json"), BUILD),
    rule(Build, Name("turbo.json"), BUILD),
    rule(Build, Name("build.gradle"), BUILD),
    rule(Build, Name("build.gradle.kts"), BUILD),
    rule(Build, Name("settings.gradle"), BUILD),
    rule(Build, Name("settings.gradle.kts"), BUILD),
    rule(Build, Name("init.gradle"), BUILD),
    rule(Build, In("gradle/wrapper"), BUILD),
    rule(Build, Name("gradlew"), BUILD),
    rule(Build, Name("gradlew.bat"), BUILD),
    rule(Build, Name("mvnw"), BUILD),
    rule(Build, In(".mvn"), BUILD),
    rule(Build, Name("pom.xml"), BUILD),
    rule(Build, Name("build.xml"), BUILD),
    rule(Build, Name("build.sbt"), BUILD),
    rule(Build, Name("project/plugins.sbt"), BUILD),
    rule(Build, Name("rakefile"), BUILD),
    rule(Build, Name("gemfile"), INSTALL),
    rule(Build, Name("*.gemspec"), INSTALL),
    rule(Build, Name("extconf.rb"), INSTALL),
    rule(Build, Name("mix.exs"), BUILD),
    rule(Build, Name("package.swift"), BUILD),
    rule(Build, Name("build.zig"), BUILD),
    rule(Build, Name("directory.build.props"), BUILD),
    rule(Build, Name("directory.build.targets"), BUILD),
    rule(Build, Name("*.csproj"), BUILD),
    rule(Build, Name("*.vbproj"), BUILD),
    rule(Build, Name("*.fsproj"), BUILD),
    rule(Build, Name("nuget.config"), SOURCE),
    rule(Build, Name("flake.nix"), BUILD),
    rule(Build, Name("shell.nix"), BUILD),
    rule(Build, Name("default.nix"), BUILD),
    rule(Build, Name("*.podspec"), INSTALL),
    rule(Build, Name("podfile"), INSTALL),
    rule(Build, Name("dune-project"), BUILD),
    rule(Build, Name("procfile"), BUILD),
    rule(Environment, Name("*.pth"), "is run at each start of Python"),
    rule(Environment, Name("pyvenv.cfg"), FRONT),
    rule(Environment, In("venv/bin"), FRONT),
    rule(Environment, In(".venv/bin"), FRONT),
    rule(Environment, In("env/bin"), FRONT),
    rule(Environment, In("virtualenv/bin"), FRONT),
    rule(Environment, In("venv/scripts"), FRONT),
    rule(Environment, In(".venv/scripts"), FRONT),
    rule(Environment, In("env/scripts"), FRONT),
    rule(Environment, In("node_modules/.bin"), FRONT),
    rule(Environment, In("vendor/bin"), FRONT),
    rule(Environment, In(".direnv"), FRONT),
    rule(Environment, In(".devenv"), FRONT),
];

impl Rule {
    /// `names` are the parts of the path in lower case.
    pub(super) fn matches(&self, names: &[String]) -> bool {
        let is_meant = match self.place {
            Name(pattern) => {
                let parts: Vec<&str> = pattern.split('/').collect();
                names.len() >= parts.len() && is_like(&parts, &names[names.len() - parts.len()..])
            }
            In(pattern) => {
                let parts: Vec<&str> = pattern.split('/').collect();
                let above = names.get(..names.len().saturating_sub(1)).unwrap_or_default();
                above.windows(parts.len()).any(|window| is_like(&parts, window))
            }
        };
        let is_harmless = names
            .last()
            .is_some_and(|name| self.but_not.iter().any(|pattern| is_like_part(pattern, name)));
        is_meant && !is_harmless
    }
}

fn is_like(parts: &[&str], names: &[String]) -> bool {
    parts.iter().zip(names).all(|(part, name)| is_like_part(part, name))
}

/// Matches one part against a pattern with at most one `*`.
fn is_like_part(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_lower_case_with_one_star_and_reasons_read_on() {
        for rule in RULES {
            let (Name(pattern) | In(pattern)) = rule.place;
            assert_eq!(pattern, pattern.to_lowercase());
            assert!(
                pattern.split('/').all(|part| !part.is_empty() && part.matches('*').count() < 2),
                "{pattern}"
            );
            assert!(!rule.reason.ends_with('.') && rule.reason.contains(' '), "{}", rule.reason);
        }
    }
}
