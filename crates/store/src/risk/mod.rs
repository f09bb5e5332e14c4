//! Which changes can make something run on the host later, without anyone
//! looking.
//!
//! A changed source file is what the session was for. A changed hook, build
//! script or editor setting is run by tools of the host by themselves, outside
//! any sandbox; those are listed and confirmed before they are applied. Names
//! are compared without regard to case, because some file systems, and git for
//! its own directory, do the same.
//!
//! The list is of names, and so can only ever know the tools it names. It is no
//! substitute for reading the diff.

mod scripts;
mod table;

use crate::changes::{Change, ChangeKind};
use crate::node::{FileKind, Node};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

/// What kind of thing a risky path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RiskKind {
    /// Git runs it, or is told by it what to run.
    Git,
    /// A build service runs it, often with credentials.
    Ci,
    /// An editor reads it when the folder is opened.
    Editor,
    /// A coding agent reads it when it is started in the folder.
    Agent,
    /// A shell, or a tool that hooks into one, reads it on entering the folder.
    Shell,
    /// The next build, install or test run executes it.
    Build,
    /// Programs that the project's environment puts in front of others.
    Environment,
    /// A symbolic link that leads out of the project.
    Link,
    /// A file that can be executed and could not before.
    Executable,
    /// A file with a setuid or setgid bit, applied or not.
    SetId,
}

impl RiskKind {
    /// A short name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Ci => "ci",
            Self::Editor => "editor",
            Self::Agent => "agent",
            Self::Shell => "shell",
            Self::Build => "build",
            Self::Environment => "environment",
            Self::Link => "link",
            Self::Executable => "executable",
            Self::SetId => "set-id",
        }
    }
}

/// One reason to look at a path before it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Risk {
    pub kind: RiskKind,
    /// Why, as a clause that follows the path.
    pub reason: &'static str,
}

/// One changed path, as far as its risk depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    pub path: &'a Path,
    pub before: Option<&'a Node>,
    /// Nothing for a deletion.
    pub after: Option<&'a Node>,
    /// Setuid and setgid bits that `after` would have but for [`Change::withheld`].
    pub withheld: u32,
    /// Both versions of a file for which [`wants_content`] says so; nothing where
    /// one does not exist or cannot be read.
    pub before_content: Option<&'a [u8]>,
    pub after_content: Option<&'a [u8]>,
}

impl<'a> Item<'a> {
    /// A change without its content.
    #[must_use]
    pub fn of(change: &'a Change) -> Self {
        let is_gone = change.kind == ChangeKind::Deleted;
        Self {
            path: &change.path,
            before: change.before.as_ref(),
            after: change.after.as_ref().filter(|_| !is_gone),
            withheld: change.withheld,
            before_content: None,
            after_content: None,
        }
    }
}

/// The longest content that is looked into; a longer file counts as risky unseen.
pub const LONGEST_CONTENT: u64 = 4 << 20;

/// Whether the risk of `path` depends on what changed in it.
#[must_use]
pub fn wants_content(path: &Path) -> bool {
    names(path).last().is_some_and(|name| scripts::is_manifest(name))
}

/// Says why a change is risky; nothing when it is not.
#[must_use]
pub fn classify(item: &Item<'_>) -> Vec<Risk> {
    // A deletion runs nothing, and a directory by itself neither.
    let Some(after) = item.after.filter(|after| after.kind != FileKind::Dir) else {
        return Vec::new();
    };
    let names = names(item.path);
    let mut risks: Vec<Risk> = table::RULES
        .iter()
        .filter(|rule| rule.matches(&names))
        .map(|rule| Risk { kind: rule.kind, reason: rule.reason })
        .collect();
    if names.last().is_some_and(|name| scripts::is_manifest(name)) {
        let (before, after) = (item.before_content, item.after_content);
        risks.extend(scripts::compare(before, after));
    }
    risks.extend(leaves(item.path, after));
    risks.extend(newly_executable(item.before, after));
    risks.extend(set_id(after, item.withheld));
    risks.sort();
    risks.dedup();
    risks
}

/// The parts of a path in lower case.
fn names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(fold(name.as_bytes())),
            _ => None,
        })
        .collect()
}

/// Lower case, with what HFS+ and git leave out when they compare names taken
/// out too: zero-width characters, and dots and blanks at the end.
fn fold(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_lowercase();
    let visible = name.chars().filter(|char| {
        !matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    });
    let visible: String = visible.collect();
    visible.trim_end_matches(['.', ' ']).to_owned()
}

/// A link that leads out of the project, as far as its text tells.
fn leaves(path: &Path, after: &Node) -> Option<Risk> {
    let target = after.target.as_ref().filter(|_| after.kind == FileKind::Symlink)?;
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => {
                let reason = "is a link to an absolute path";
                return Some(Risk { kind: RiskKind::Link, reason });
            }
            Component::ParentDir if depth == 0 => {
                let reason = "is a link that leads out of the project";
                return Some(Risk { kind: RiskKind::Link, reason });
            }
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
        }
    }
    None
}

fn newly_executable(before: Option<&Node>, after: &Node) -> Option<Risk> {
    const EXECUTE: u32 = 0o111;
    let is_executable = |node: &Node| node.kind == FileKind::File && node.mode & EXECUTE != 0;
    let is_new = is_executable(after) && !before.is_some_and(is_executable);
    is_new.then_some(Risk {
        kind: RiskKind::Executable,
        reason: "can be executed and could not before",
    })
}

/// A file that runs with the rights of its owner or group, or was to.
fn set_id(after: &Node, withheld: u32) -> Option<Risk> {
    const SET_ID: u32 = 0o6000;
    let reason = match (after.mode & SET_ID, withheld) {
        (0, 0) => return None,
        (0, _) => "was given a set-user-ID or set-group-ID bit, which is not applied",
        (_, 0) => "keeps its set-user-ID or set-group-ID bit",
        (_, _) => "keeps one of the set-user-ID and set-group-ID bits; the other is not applied",
    };
    Some(Risk { kind: RiskKind::SetId, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: FileKind, mode: u32, target: Option<&str>) -> Node {
        Node { kind, mode, size: 1, target: target.map(Into::into) }
    }

    #[track_caller]
    fn kinds(path: &str, before: Option<Node>, after: Option<Node>) -> Vec<RiskKind> {
        let item = Item {
            path: Path::new(path),
            before: before.as_ref(),
            after: after.as_ref(),
            withheld: 0,
            before_content: None,
            after_content: None,
        };
        classify(&item).iter().map(|risk| risk.kind).collect()
    }

    fn of_file(path: &str) -> Vec<RiskKind> {
        kinds(path, None, Some(node(FileKind::File, 0o644, None)))
    }

    #[test]
    fn each_rule_has_a_path_that_it_alone_explains() {
        use RiskKind::{Agent, Build, Ci, Editor, Environment, Git, Shell};
        let table = [
            (".git/hooks/pre-commit", Git),
            ("sub/.git/hooks/post-checkout", Git),
            (".git/modules/lib/hooks/pre-push", Git),
            (".git/config", Git),
            (".git/config.worktree", Git),
            (".git/info/attributes", Git),
            (".git/commondir", Git),
            (".git/objects/info/alternates", Git),
            ("sub/.git", Git),
            (".gitattributes", Git),
            (".gitmodules", Git),
            (".gitconfig", Git),
            (".githooks/pre-commit", Git),
            (".husky/pre-commit", Git),
            ("lefthook.yml", Git),
            (".pre-commit-config.yaml", Git),
            ("hooks/post-receive", Git),
            (".github/workflows/ci.yml", Ci),
            (".github/actions/a/action.yml", Ci),
            (".gitlab-ci.yml", Ci),
            ("Jenkinsfile", Ci),
            (".circleci/config.yml", Ci),
            (".travis.yml", Ci),
            ("azure-pipelines.yml", Ci),
            ("bitbucket-pipelines.yml", Ci),
            (".buildkite/pipeline.yml", Ci),
            (".drone.yml", Ci),
            (".woodpecker/a.yml", Ci),
            (".forgejo/workflows/a.yml", Ci),
            (".vscode/tasks.json", Editor),
            ("a/.idea/workspace.xml", Editor),
            (".devcontainer/devcontainer.json", Editor),
            (".devcontainer.json", Editor),
            ("x.code-workspace", Editor),
            (".zed/tasks.json", Editor),
            (".exrc", Editor),
            (".nvim.lua", Editor),
            (".dir-locals.el", Editor),
            (".editorconfig-checker.json", Editor),
            (".claude/settings.json", Agent),
            ("CLAUDE.md", Agent),
            ("AGENTS.md", Agent),
            (".cursor/rules/a.mdc", Agent),
            (".cursorrules", Agent),
            (".mcp.json", Agent),
            (".codex/config.toml", Agent),
            (".gemini/settings.json", Agent),
            (".aider.conf.yml", Agent),
            (".windsurfrules", Agent),
            (".github/copilot-instructions.md", Agent),
            ("atoll.toml", Agent),
            (".envrc", Shell),
            (".env", Shell),
            (".env.local", Shell),
            (".bashrc", Shell),
            (".zshenv", Shell),
            (".profile", Shell),
            (".config/fish/config.fish", Shell),
            (".mise.toml", Shell),
            (".tool-versions", Shell),
            ("Makefile", Build),
            ("a/b/GNUmakefile", Build),
            ("rules.mk", Build),
            ("justfile", Build),
            ("setup.py", Build),
            ("conftest.py", Build),
            ("sitecustomize.py", Build),
            ("noxfile.py", Build),
            ("build.rs", Build),
            (".cargo/config.toml", Build),
            ("rust-toolchain.toml", Build),
            ("build.gradle.kts", Build),
            ("gradlew", Build),
            ("pom.xml", Build),
            ("CMakeLists.txt", Build),
            ("meson.build", Build),
            ("BUILD.bazel", Build),
            ("Dockerfile", Build),
            ("Dockerfile.dev", Build),
            ("docker-compose.yml", Build),
            ("compose.yaml", Build),
            ("Vagrantfile", Build),
            ("Rakefile", Build),
            ("Gemfile", Build),
            ("lib.gemspec", Build),
            ("binding.gyp", Build),
            ("webpack.config.js", Build),
            ("vite.config.ts", Build),
            (".eslintrc.js", Build),
            ("Gruntfile.js", Build),
            (".npmrc", Build),
            (".yarnrc.yml", Build),
            (".yarn/releases/yarn-4.cjs", Build),
            (".pnpmfile.cjs", Build),
            ("tox.ini", Build),
            ("pyproject.toml", Build),
            ("pip.conf", Build),
            ("flake.nix", Build),
            ("configure", Build),
            ("CMakePresets.json", Build),
            (".bazelrc", Build),
            ("Directory.Build.targets", Build),
            ("a.csproj", Build),
            ("Package.swift", Build),
            ("mix.exs", Build),
            ("build.zig", Build),
            ("build.sbt", Build),
            ("a.py.pth", Environment),
            ("pyvenv.cfg", Environment),
            ("venv/bin/python", Environment),
            (".venv/bin/activate", Environment),
            ("env/Scripts/activate.bat", Environment),
            ("node_modules/.bin/tsc", Environment),
            (".direnv/bin/x", Environment),
        ];
        for (path, kind) in table {
            assert_eq!(of_file(path), [kind], "{path}");
            let shouted = path.to_uppercase();
            assert_eq!(of_file(&shouted), [kind], "{shouted}");
        }
    }

    #[test]
    fn ordinary_files_are_not_risky() {
        let paths = [
            "src/main.rs",
            "README.md",
            "docs/git/hooks.md",
            "src/hooks/useState.ts",
            ".gitignore",
            "git/config",
            ".git/HEAD",
            ".git/index",
            ".git/objects/ab/cd",
            ".git/refs/heads/main",
            ".git/hooks/pre-commit.sample",
            ".git/logs/HEAD",
            "lib/make.py",
            "Makefile.md",
            "bin/tool",
            "node_modules/a/index.js",
            "venv/lib/python3/site-packages/a.py",
            "environment.yml",
            "src/env/index.ts",
            ".environment",
            "package-lock.json",
            "Cargo.toml",
            "settings.json",
            "a/build/rs",
            "conftest.txt",
            "vscode/tasks.json",
            "x.pth.txt",
        ];
        for path in paths {
            assert_eq!(of_file(path), [], "{path}");
        }
    }

    #[test]
    fn names_that_some_file_systems_take_for_git_count() {
        for path in
            [".GIT/config", ".git\u{200c}/config", ".git./config", ".git /hooks/x", "GIT~1/config"]
        {
            assert_eq!(of_file(path), [RiskKind::Git], "{path:?}");
        }
    }

    #[test]
    fn links_are_judged_by_where_their_text_leads() {
        let link = |path: &str, target: &str| {
            kinds(path, None, Some(node(FileKind::Symlink, 0o777, Some(target))))
        };
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("d/a", "../../x"),
            ("d/a", "./../b/../../c"),
            ("a", "b/../../c"),
        ] {
            assert_eq!(link(path, target), [RiskKind::Link], "{path} -> {target}");
        }
        for (path, target) in
            [("a", "b"), ("d/a", "../x"), ("d/e/a", "../../d"), ("a", "./b/.."), ("a", "..b")]
        {
            assert_eq!(link(path, target), [], "{path} -> {target}");
        }
        // A link in a risky place is risky by its place.
        assert_eq!(link(".git/hooks/x", "y"), [RiskKind::Git]);
    }

    #[test]
    fn executables_are_risky_when_they_become_so() {
        let file = |mode| Some(node(FileKind::File, mode, None));
        assert_eq!(kinds("a", None, file(0o755)), [RiskKind::Executable]);
        assert_eq!(kinds("a", file(0o644), file(0o744)), [RiskKind::Executable]);
        assert_eq!(kinds("a", file(0o755), file(0o755)), []);
        assert_eq!(
            kinds("a", Some(node(FileKind::Dir, 0o755, None)), file(0o755)),
            [RiskKind::Executable]
        );
    }

    #[test]
    fn set_id_bits_are_told_applied_or_not() {
        let reasons = |kind, mode, withheld| {
            let after = node(kind, mode, None);
            let item = Item {
                path: Path::new("a"),
                before: Some(&after),
                after: Some(&after),
                withheld,
                before_content: None,
                after_content: None,
            };
            let reason = |risk: &Risk| {
                assert_eq!(risk.kind, RiskKind::SetId);
                risk.reason
            };
            classify(&item).iter().map(reason).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(reasons(FileKind::File, 0o1777, 0), "");
        assert_eq!(reasons(FileKind::Dir, 0o2755, 0o4000), "");
        for mode in [0o2755, 0o4755, 0o6755] {
            assert!(reasons(FileKind::File, mode, 0).starts_with("keeps its set-"), "{mode:o}");
        }
        let withheld = reasons(FileKind::File, 0o755, 0o2000);
        assert!(withheld.ends_with("which is not applied"), "{withheld}");
        let both = reasons(FileKind::File, 0o4755, 0o2000);
        assert!(both.ends_with("the other is not applied"), "{both}");
    }

    #[test]
    fn deletions_and_directories_run_nothing() {
        let file = Some(node(FileKind::File, 0o755, None));
        assert_eq!(kinds("Makefile", file, None), []);
        assert_eq!(kinds(".vscode", None, Some(node(FileKind::Dir, 0o755, None))), []);
    }
}
