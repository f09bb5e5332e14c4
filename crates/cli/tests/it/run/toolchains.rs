//! Toolchains and caches under a HOME that is hidden.

use super::each;
use atoll_testkit::run::{Project, Ran};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// A program that says its name and its arguments.
fn program(path: &Path, says: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\necho {says} \"$@\"\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn link(at: &Path, to: impl AsRef<Path>) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(to, at).unwrap();
}

fn secret(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "secret").unwrap();
}

/// Runs the script with these directories of HOME in front of PATH.
fn run_with_path(project: &Project, directories: &[&str], script: &str) -> Ran {
    let own = project.home();
    let mut path: Vec<_> = directories.iter().map(|directory| own.join(directory)).collect();
    path.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into));
    let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
    command.env("PATH", std::env::join_paths(path).unwrap());
    Ran(command.output().unwrap())
}

#[test]
fn programs_of_version_managers_run_and_secrets_beside_them_are_hidden() {
    each(|project| {
        let own = project.home();
        let places = [
            (".pyenv/shims", "tool-pyenv"),
            (".nvm/versions/node/v1/bin", "tool-nvm"),
            (".rustup/toolchains/stable/bin", "tool-rustup"),
            (".cargo/bin", "tool-cargo"),
            (".asdf/shims", "tool-asdf"),
            (".local/share/mise/shims", "tool-mise"),
            (".local/bin", "tool-local"),
            (".volta/bin", "tool-volta"),
            (".npm-global/bin", "tool-npm"),
            ("go/bin", "tool-go"),
        ];
        let mut expected = String::new();
        for (place, name) in places {
            program(&own.join(place).join(name), name);
            expected += &format!("{name} x\n");
        }
        let secrets =
            [".cargo/credentials.toml", ".npmrc", ".pypirc", ".netrc", ".config/gh/hosts.yml"];
        for path in secrets {
            secret(&own.join(path));
        }
        project.user.give(&own);
        let directories = places.map(|(place, _)| place);
        let script = places.map(|(_, name)| format!("{name} x; ")).concat();
        let run = run_with_path(project, &directories, &script);
        assert_eq!(run.stdout(), expected, "{}", run.text());
        let script = secrets.map(|path| format!("cat ~/{path}; ")).concat();
        let hidden = run_with_path(project, &[], &script);
        assert_eq!(hidden.stdout(), "", "{}", hidden.text());
        // Control.
        assert_eq!(project.bare_sh(&script).stdout(), "secret".repeat(secrets.len()));
        let script = places.map(|(place, _)| format!("touch ~/{place}/x 2> /dev/null; ")).concat();
        run_with_path(project, &[], &script);
        for (place, _) in places {
            assert!(!own.join(place).join("x").exists(), "{place} was written");
        }
        assert_eq!(project.bare_sh(&script).code(), Some(0));
    });
}

#[test]
fn the_order_of_path_is_kept() {
    each(|project| {
        let own = project.home();
        program(&own.join(".pyenv/shims/python3"), "pyenv");
        program(&own.join(".local/bin/python3"), "local");
        project.user.give(&own);
        let order = |directories: &[&str]| run_with_path(project, directories, "python3").stdout();
        assert_eq!(order(&[".pyenv/shims", ".local/bin"]), "pyenv\n");
        assert_eq!(order(&[".local/bin", ".pyenv/shims"]), "local\n");
    });
}

#[test]
fn links_lead_where_they_lead_outside() {
    each(|project| {
        let (own, disk) = (project.home(), project.outside());
        // A whole toolchain on another disk, which names itself by its real path.
        let real = disk.join("pyenv");
        program(&real.join("bin/tool"), "pyenv");
        program(&real.join("bin/by-path"), &format!("$({}/bin/tool)", real.display()));
        link(&own.join(".pyenv"), &real);
        // `current`, inside the toolchain.
        program(&own.join(".nvm/versions/v1/bin/node-tool"), "nvm");
        link(&own.join(".nvm/current"), "versions/v1");
        // A tool with a directory of its own, and one that is a single file.
        program(
            &own.join(".local/share/tool/1.0/bin/installed"),
            "installed $(cat $(dirname $(readlink -f $0))/data)",
        );
        std::fs::write(own.join(".local/share/tool/1.0/bin/data"), "whole").unwrap();
        link(&own.join(".local/share/tool/current"), "1.0");
        link(&own.join(".local/bin/installed"), "../share/tool/current/bin/installed");
        program(&disk.join("alone"), "alone");
        secret(&disk.join("beside"));
        link(&own.join(".local/bin/alone"), disk.join("alone"));
        link(&own.join(".local/bin/dangling"), "nowhere");
        project.user.give(&own);
        project.user.give(&disk);
        let script =
            format!("tool; by-path; node-tool; installed; alone; cat {}/beside", disk.display());
        let run =
            run_with_path(project, &[".pyenv/bin", ".nvm/current/bin", ".local/bin"], &script);
        assert_eq!(run.stdout(), "pyenv\npyenv\nnvm\ninstalled whole\nalone\n", "{}", run.text());
    });
}

#[test]
fn a_program_of_the_project_that_home_links_to_stays_writable() {
    each(|project| {
        program(&project.root().join("bin/mine"), "mine");
        link(&project.home().join(".local/bin/mine"), project.root().join("bin/mine"));
        project.user.give(&project.root());
        project.user.give(&project.home());
        let script = "mine; echo 'echo changed' > bin/mine; mine";
        let run = run_with_path(project, &[".local/bin"], script);
        assert_eq!(run.stdout(), "mine\nchanged\n", "{}", run.text());
    });
}

#[test]
fn caches_are_the_projects_own_and_last() {
    const PLACES: &str =
        ".npm .m2 .gradle .cargo/registry .cargo/git go/pkg .yarn .cache .cache/pip";
    each(|project| {
        let own = project.home();
        secret(&own.join(".npm/token"));
        secret(&own.join(".cache/pip/http"));
        project.user.give(&own);
        let each_place = |act: &str| format!("set -e; cd; for at in {PLACES}; do {act}; done");
        let write = each_place("mkdir -p $at/; echo kept > $at/file");
        let run = project.run_sh(&[], &write);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let read = each_place("cat $at/file");
        assert_eq!(project.run_sh(&[], &read).stdout(), "kept\n".repeat(9));
        // What the user keeps there is not shown, and nothing is left there.
        let user = project.run_sh(&[], "cat ~/.npm/token ~/.cache/pip/http");
        assert_eq!(user.stdout(), "", "{}", user.text());
        assert_eq!(project.bare_sh("cat ~/.npm/token ~/.cache/pip/http").stdout(), "secretsecret");
        assert!(!own.join(".npm/file").exists() && !own.join(".cache/file").exists());
        // Another project has its own.
        let other = project.outside();
        let flags = ["--project", other.to_str().unwrap()];
        let run = project.run_sh(&flags, "cat ~/.npm/file");
        assert_ne!(run.code(), Some(0), "{}", run.text());
    });
}
