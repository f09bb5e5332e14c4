//! Rust inside: the user's toolchain builds and tests a crate.

use super::each_way;
use atoll_testkit::run::{ORDINARY_UID, Project, Ran, User};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: [(&str, &str); 4] = [
    (
        "Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         [dependencies]\ndep = { path = \"dep\" }\n[workspace]\n",
    ),
    ("src/main.rs", "fn main() { println!(\"sum {}\", dep::add(1, 2)); }\n"),
    ("dep/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    (
        "dep/src/lib.rs",
        "pub fn add(a: u32, b: u32) -> u32 { a + b }\n\
         #[test] fn adds() { assert_eq!(add(1, 2), 3); }\n",
    ),
];

/// Where rustup lives, if that is where this toolchain is from.
fn rustup() -> Option<(PathBuf, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let of = |variable: &str, place: &str| {
        std::env::var_os(variable).map_or_else(|| home.join(place), PathBuf::from)
    };
    let (toolchains, programs) = (of("RUSTUP_HOME", ".rustup"), of("CARGO_HOME", ".cargo"));
    let programs = programs.join("bin");
    let is_rustup = toolchains.join("toolchains").is_dir() && programs.join("rustup").exists();
    is_rustup.then_some((toolchains, programs))
}

/// `atoll run FLAGS -- sh -c SCRIPT` by a user in whose HOME the toolchain lies:
/// for another user than ourselves it is mounted there, since nobody else may
/// reach it where it is.
fn run(project: &Project, flags: &[&str], script: &str) -> Ran {
    run_with(project, flags, script, &[])
}

/// The same with variables of the caller's.
pub(crate) fn run_with(
    project: &Project,
    flags: &[&str],
    script: &str,
    variables: &[(&str, &Path)],
) -> Ran {
    let mut words = vec![project.program().to_str().unwrap(), "run"];
    words.extend(flags);
    words.extend(["--", "sh", "-c", script]);
    let (own, path) = (project.home(), std::env::var("PATH").unwrap());
    let mut command = match (rustup(), project.user) {
        (Some((toolchains, programs)), User::Ordinary) if User::Ordinary.uid().is_some() => {
            let mount = "mkdir -p $2/.rustup $2/.cargo/bin && mount --rbind $0 $2/.rustup &&
                mount --rbind $1 $2/.cargo/bin && chown $3 $2/.cargo && uid=$3 && shift 3 &&
                exec setpriv --reuid $uid --regid $uid --clear-groups \"$@\"";
            let mut command = project.bare("unshare");
            command.uid(0).gid(0).args(["--mount", "--propagation", "private", "sh", "-c", mount]);
            command.args([&toolchains, &programs, &own]).arg(ORDINARY_UID.to_string());
            command.args(words);
            command
        }
        (found, _) => {
            if let Some((toolchains, programs)) = found {
                link(&toolchains, &own.join(".rustup"));
                link(&programs, &own.join(".cargo/bin"));
            }
            let mut command: Command = project.bare(words[0]);
            command.args(&words[1..]);
            command
        }
    };
    command.env("PATH", format!("{}/.cargo/bin:{path}", own.display()));
    command.envs(variables.iter().copied());
    Ran(command.output().unwrap())
}

fn link(to: &Path, at: &Path) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    if !at.is_symlink() {
        std::os::unix::fs::symlink(to, at).unwrap();
    }
}

#[test]
fn a_crate_with_a_dependency_is_built_and_tested() {
    each_way(|project, flags| {
        for (path, text) in FILES {
            project.write(path, text);
        }
        let script = "set -e; cargo run -q --offline; cargo test --offline --workspace 2>&1
            touch ~/.rustup/x || echo read-only; ls ~/.cargo/registry/";
        let run = run(project, flags, script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let text = run.stdout();
        assert!(text.starts_with("sum 3\n") && text.contains("1 passed"), "{}", run.text());
        assert!(text.contains("read-only"), "{}", run.text());
    });
}
