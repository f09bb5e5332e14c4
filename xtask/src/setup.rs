//! `cargo xtask setup`: installs what the checks need and the machine lacks.

use crate::{process, sdk};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Install the tools and Debian packages that `cargo xtask ci` needs
///
/// What is there already is left as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A Debian package and why the tests or checks want it.
struct DebianPackage {
    name: &'static str,
    /// Where the program may as well come from elsewhere, its name.
    program: Option<&'static str>,
    reason: &'static str,
}

const fn package(name: &'static str, reason: &'static str) -> DebianPackage {
    DebianPackage { name, program: None, reason }
}

const fn program(program: &'static str, name: &'static str, reason: &'static str) -> DebianPackage {
    DebianPackage { name, program: Some(program), reason }
}

const DEBIAN_PACKAGES: &[DebianPackage] = &[
    package("bubblewrap", "the peer that start-time budgets are measured against"),
    package("crun", "the peer that exec budgets are measured against"),
    program("c++", "g++", "libFuzzer is C++"),
    program("ccache", "ccache", "a compiler's cache inside"),
    program("cc", "gcc", "zstd is C; the linker"),
    program("chromium", "chromium", "a preview in a browser"),
    program("curl", "curl", "previews, as a client of HTTP/2 too"),
    program("docker-registry", "docker-registry", "images are pulled from it"),
    program("fish", "fish", "an interactive shell on the terminal inside"),
    program("git", "git", "work inside the sandbox; tidy lists files by it"),
    program("gdb", "gdb", "a debugger inside"),
    program("gpg", "gnupg", "its agent's sockets"),
    package("iproute2", "attempts to change the network of a sandbox"),
    program("less", "less", "a pager on the terminal inside"),
    package("libc6-dev", "the static C library"),
    program("mkfs.btrfs", "btrfs-progs", "a file system to snapshot on"),
    program("mkfs.ext4", "e2fsprogs", "a file system to snapshot on"),
    program("mkfs.xfs", "xfsprogs", "a file system to snapshot on"),
    program("nft", "nftables", "the rules of a captured network, listed back"),
    program("node", "nodejs", "work inside the sandbox"),
    program("npm", "npm", "installing from a local cache inside"),
    program("openssl", "openssl", "whose certificate a connection has"),
    program("ps", "procps", "tests look at processes"),
    package("python3", "work inside the sandbox"),
    package("python3-h2", "HTTP/2 for the client of the next line"),
    package("python3-httpx", "a client of HTTP through the gateway"),
    package("python3-pip", "installing from a local wheel folder inside"),
    package("python3-pytest", "a test run inside"),
    package("python3-pytest-xdist", "a parallel test run inside"),
    package("python3-requests", "a client of HTTP through the gateway"),
    package("python3-venv", "a virtual environment inside"),
    program("readelf", "binutils", "what the program is linked with"),
    program("skopeo", "skopeo", "pushes images to that registry"),
    program("ssh-agent", "openssh-client", "its agent's sockets"),
    package("sqlite3", "a database inside"),
    package("strace", "tests that count system calls"),
    program("tmux", "tmux", "a multiplexer on the terminal inside"),
    package("util-linux", "setpriv and unshare: tests as an ordinary user"),
    program("umoci", "umoci", "makes images"),
    program("vim", "vim", "an editor on the terminal inside"),
    program("wget", "wget", "a client that asks no variable whom to trust"),
    program("zsh", "zsh", "exit statuses of a shell inside"),
];

/// For the machines that the pure cgroup v2 kernel of `tests/guests` is for.
const DEBIAN_PACKAGES_X86_64: &[DebianPackage] = &[
    package("linux-image-cloud-amd64", "a small kernel to test on"),
    package("qemu-system-x86", "starts that kernel, without KVM if need be"),
];

/// A program from PyPI, and the version that this repository was last checked with.
const PYTHON_TOOL: (&str, &str) = ("uv", "0.13.9");

/// A program from PyPI with packages of its own, which the tool above keeps apart from
/// those of the system.
const API_TOOL: (&str, &str) = ("schemathesis", "4.32.5");

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
    // Without these, tests that say so are skipped.
    told(python_tool());
    told(api_tool());
    sdk::install().into_iter().for_each(told);
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
    let more: &[DebianPackage] =
        if cfg!(target_arch = "x86_64") { DEBIAN_PACKAGES_X86_64 } else { &[] };
    let missing: Vec<&DebianPackage> =
        DEBIAN_PACKAGES.iter().chain(more).filter(|package| !package.is_here()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("missing {}: {}", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends"]).args(&names);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    if process::run(&mut install).is_ok() {
        return Ok(());
    }
    // The usual cause as root is that no package list was ever fetched.
    let by_hand = || format!("as root, run: apt-get update && apt-get install {}", names.join(" "));
    process::run(Command::new("apt-get").arg("update")).with_context(by_hand)?;
    process::run(&mut install).with_context(by_hand)
}

impl DebianPackage {
    fn is_here(&self) -> bool {
        self.program.is_some_and(is_in_path) || is_installed(self.name)
    }
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

/// Says what could not be installed, and goes on.
fn told(installed: Result<()>) {
    if let Err(error) = installed {
        println!("not installed, so a test is skipped: {error:#}");
    }
}

/// For all users, beside the system's packages: tests use it as ordinary users too.
fn python_tool() -> Result<()> {
    let (name, version) = PYTHON_TOOL;
    let is_here =
        ["/usr/bin", "/usr/local/bin"].iter().any(|at| Path::new(at).join(name).is_file());
    if is_here {
        return Ok(());
    }
    println!("missing {name}: installing from a local wheel folder inside");
    let mut install = Command::new("/usr/bin/python3");
    install.args(["-m", "pip", "install", "--quiet", "--break-system-packages"]);
    install.arg("--root-user-action=ignore").arg(format!("{name}=={version}"));
    let by_hand = || format!("as root, run: python3 -m pip install {name}");
    process::run(&mut install).with_context(by_hand)
}

/// For all users, like the tool that installs it.
fn api_tool() -> Result<()> {
    let (name, version) = API_TOOL;
    if is_in_path(name) {
        return Ok(());
    }
    println!("missing {name}: the API against its description");
    let mut install = Command::new(PYTHON_TOOL.0);
    install.args(["tool", "install", "--quiet", "--python", "/usr/bin/python3"]);
    install.arg(format!("{name}=={version}"));
    install.env("UV_TOOL_DIR", "/usr/local/lib/uv-tools").env("UV_TOOL_BIN_DIR", "/usr/local/bin");
    process::run(&mut install).with_context(|| format!("install {name} with uv or pip"))
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
