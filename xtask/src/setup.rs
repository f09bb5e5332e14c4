//! `cargo xtask setup`: installs what the checks need and the machine lacks.

use crate::process;
use anyhow::{Context as _, Result, bail};
use std::process::Command;

/// Install the tools and Debian packages that `cargo xtask ci` needs
///
/// What is there already is left as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A Debian package with why the tests or checks want it.
struct DebianPackage {
    name: &'static str,
    #[expect(dead_code, reason = "kept beside the name for whoever edits the list")]
    reason: &'static str,
}

const fn package(name: &'static str, reason: &'static str) -> DebianPackage {
    DebianPackage { name, reason }
}

const DEBIAN_PACKAGES: &[DebianPackage] = &[
    package("bubblewrap", "the peer that the start-time budget is measured against"),
    package("crun", "the peer that exec and create budgets are measured against"),
    package("g++", "libFuzzer is C++"),
    package("gcc", "zstd is C; the linker"),
    package("git", "work inside the sandbox; tidy lists files by it"),
    package("libc6-dev", "the static C library"),
    package("procps", "tests look at processes from inside"),
    package("python3", "work inside the sandbox"),
    package("python3-pip", "installing from a local wheel folder inside"),
    package("python3-pytest", "a test run inside"),
    package("python3-pytest-xdist", "a parallel test run inside"),
    package("sqlite3", "a database inside"),
    package("strace", "tests that count system calls"),
    package("util-linux", "setpriv: tests as an ordinary user; unshare"),
];

/// A program from crates.io, called as `cargo NAME`.
struct CargoTool {
    name: &'static str,
    version: &'static str,
}

/// Versions are those that this repository was last checked with; another
/// version that is already installed is used as it is.
const CARGO_TOOLS: &[CargoTool] = &[
    CargoTool { name: "nextest", version: "0.9.151" },
    CargoTool { name: "deny", version: "0.20.2" },
    CargoTool { name: "fuzz", version: "0.13.2" },
];

pub(crate) fn run(_args: &Args) -> Result<()> {
    debian_packages()?;
    rust_components()?;
    for tool in CARGO_TOOLS {
        cargo_tool(tool)?;
    }
    println!("everything that the checks need is installed");
    if !has_nightly() {
        println!("no nightly toolchain: fuzz targets run without the address sanitizer");
    }
    Ok(())
}

fn debian_packages() -> Result<()> {
    let missing: Vec<&str> = DEBIAN_PACKAGES
        .iter()
        .map(|package| package.name)
        .filter(|name| !is_installed(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    println!("missing Debian packages: {names}");
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends"]).args(&missing);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    if process::run(&mut install).is_ok() {
        return Ok(());
    }
    // The usual cause as root is that no package list was ever fetched.
    process::run(Command::new("apt-get").arg("update"))
        .with_context(|| format!("as root, run: apt-get update && apt-get install {names}"))?;
    process::run(&mut install).with_context(|| format!("as root, run: apt-get install {names}"))
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

fn rust_components() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !process::succeeds(process::cargo().args([subcommand, "--version"])) {
            process::run(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}

fn cargo_tool(tool: &CargoTool) -> Result<()> {
    let CargoTool { name, version } = tool;
    if process::succeeds(process::cargo().args([name, "--version"])) {
        return Ok(());
    }
    let crate_name = format!("cargo-{name}@{version}");
    let mut install = process::cargo();
    // `cargo install` ignores the repository's own cargo configuration.
    process::run(install.args(["install", "--locked", &crate_name]))?;
    if !process::succeeds(process::cargo().args([name, "--version"])) {
        bail!("cargo-{name} was installed but does not start: is cargo's bin folder in PATH?");
    }
    Ok(())
}

/// Whether the address sanitizer can be had.
pub(crate) fn has_nightly() -> bool {
    process::succeeds(Command::new("cargo").args(["+nightly", "--version"]))
}

/// cargo of the toolchain that fuzzing uses.
pub(crate) fn fuzzer() -> Command {
    let mut command = Command::new("cargo");
    if has_nightly() {
        command.arg("+nightly");
    }
    command
}
