//! The area of `atoll run`: one command from start to exit against the floor
//! and bubblewrap, and what working inside costs.

use super::Suite;
use super::budget::{Pair, Rule, Source};
use super::build::Programs;
use super::measure::{self, Contestant, Measured, Times};
use crate::process;
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TRUE: &str = "/bin/true";

/// Small files that the probe makes in one run.
const FILES: u32 = 2000;
/// What the judge may cost for each of them.
const PER_FILE_ALLOWED: Duration = Duration::from_micros(40);
/// What installing the seccomp filter may take.
const FILTER_ALLOWED: Duration = Duration::from_micros(100);
/// Commits that the probe makes in one run, and the calls of each that are judged:
/// git makes, links, renames and removes locks, temporary objects and references.
const COMMITS: u32 = 30;
const NAMES_PER_COMMIT: u32 = 42;
/// The ratio within which a program takes as long as without the judge; below it the
/// machine's own noise is larger.
const UNCHANGED: f64 = 1.1;
/// The project of the npm probe.
const PACKAGES: usize = 60;
const FILES_PER_PACKAGE: usize = 20;
/// Runs of a probe that works for long enough to need few of them.
const PROBE_ROUNDS_MAX: u32 = 7;

pub(super) fn suite(programs: &Programs, scratch: &Path) -> Result<Suite> {
    let scene = Scene::new(programs, scratch)?;
    let contestants = vec![
        scene.contestant("true", &[], &[TRUE]),
        scene.contestant("floor", &scene.floor(), &[TRUE]),
        scene.contestant("floor layer", &scene.layered_floor(), &[TRUE]),
        scene.contestant("atoll none", &scene.atoll("none"), &[TRUE]),
        scene.contestant("atoll live", &scene.atoll("live"), &[TRUE]),
        scene.contestant("atoll review", &scene.atoll("review"), &[TRUE]),
        scene.contestant("bubblewrap", &bubblewrap(), &[TRUE]),
    ];
    let mut rules = vec![
        compare("run-none-floor", "atoll none", "floor", 1.2),
        compare("run-live-floor", "atoll live", "floor", 1.2),
        compare("run-review-floor", "atoll review", "floor layer", 1.2),
        compare("run-none-bubblewrap", "atoll none", "bubblewrap", 0.8),
        compare("run-live-bubblewrap", "atoll live", "bubblewrap", 0.8),
    ];
    rules.push(probe("seccomp-install", 1.0, scene.clone(), filter_install));
    rules.push(probe("live-created-file", 1.0, scene.clone(), created_file));
    rules.push(probe("live-read", UNCHANGED, scene.clone(), read));
    rules.push(probe("live-git-commit", 1.0, scene.clone(), git_commit));
    rules.push(probe("live-npm-ci", 1.3, scene, npm_ci));
    Ok(Suite { contestants, rules })
}

fn compare(name: &'static str, ours: &'static str, against: &'static str, limit: f64) -> Rule {
    Rule { name, limit, source: Source::Contestants { ours, against } }
}

fn probe(
    name: &'static str,
    limit: f64,
    scene: Scene,
    measure: fn(&Scene, u32) -> Result<Pair>,
) -> Rule {
    Rule { name, limit, source: Source::Probe(Box::new(move |rounds| measure(&scene, rounds))) }
}

/// The programs, and a home and a project of their own.
#[derive(Clone)]
struct Scene {
    atoll: PathBuf,
    floor: PathBuf,
    home: PathBuf,
    project: PathBuf,
}

impl Scene {
    fn new(programs: &Programs, scratch: &Path) -> Result<Self> {
        let home = scratch.join("home");
        fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let Programs { atoll, floor, .. } = programs;
        Ok(Self {
            atoll: atoll.clone(),
            floor: floor.clone(),
            home,
            project: scratch.join("project"),
        })
    }

    fn floor(&self) -> Vec<OsString> {
        vec![self.floor.clone().into()]
    }

    /// The floor with the project under a layer, as a review has it. The layer is
    /// new each time, named after the shell that becomes the floor.
    fn layered_floor(&self) -> Vec<OsString> {
        let script = "exec \"$0\" --layer \"$1/layer-$$\" \"$2\"";
        let mut command: Vec<OsString> = ["/bin/sh", "-c", script].map(OsString::from).into();
        command.push(self.floor.clone().into());
        command.push(self.home.clone().into());
        command
    }

    fn atoll(&self, workspace: &str) -> Vec<OsString> {
        let mut command = vec![self.atoll.clone().into()];
        command.extend(["run", "--workspace", workspace, "--"].map(OsString::from));
        command
    }

    fn contestant(&self, name: &'static str, sandbox: &[OsString], inner: &[&str]) -> Contestant {
        let command = sandbox.iter().cloned().chain(inner.iter().map(OsString::from)).collect();
        Contestant {
            name,
            command,
            project: self.project.clone(),
            home: self.home.clone(),
            files: Vec::new(),
        }
    }
}

/// The nearest to our view that bubblewrap is usually given. Named by its path:
/// std forks, rather than vforks, to look a name up in a changed PATH.
pub(super) fn bubblewrap() -> Vec<OsString> {
    let line = "/usr/bin/bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
                --die-with-parent --new-session";
    line.split_whitespace().map(OsString::from).collect()
}

/// The result object that `atoll run --json` prints.
#[derive(Deserialize)]
struct RunResult {
    /// Microseconds that each step took, by its name.
    timeline: BTreeMap<String, f64>,
}

/// The step of the timeline that installs the seccomp filter.
const FILTER_STEP: &str = "seccomp";

fn filter_install(scene: &Scene, rounds: u32) -> Result<Pair> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        fs::create_dir_all(&scene.project)?;
        let mut command = Command::new(&scene.atoll);
        command.args(["run", "--json", "--workspace", "none", "--", TRUE]);
        command.env("HOME", &scene.home).current_dir(&scene.project);
        let output = command.output().context("cannot start atoll")?;
        if !output.status.success() {
            bail!("atoll: {}", output.status);
        }
        let text = String::from_utf8(output.stderr).context("atoll printed no text")?;
        let line = text.lines().last().context("atoll printed no result")?;
        let result: RunResult = serde_json::from_str(line).context("atoll printed no timeline")?;
        let step = result.timeline.get(FILTER_STEP);
        let microseconds = step.with_context(|| format!("the timeline has no {FILTER_STEP}"))?;
        times.push(Duration::from_secs_f64(microseconds / 1e6));
    }
    Ok(Pair { ours: Times::from(times).median(), against: FILTER_ALLOWED })
}

/// What a created file costs in a live workspace, against the floor's plain
/// bind and what the judge is allowed.
fn created_file(scene: &Scene, rounds: u32) -> Result<Pair> {
    let script = format!("i=0; while [ $i -lt {FILES} ]; do : > f$i; i=$((i+1)); done");
    let Pair { ours, against } = live_and_floor(scene, &script, rounds)?;
    // Starting is another budget's matter, and small beside all these files.
    Ok(Pair { ours: ours / FILES, against: against / FILES + PER_FILE_ALLOWED })
}

/// Reading a file that is there, again and again.
fn read(scene: &Scene, rounds: u32) -> Result<Pair> {
    // The shell reads byte by byte, programs do not: so `cat`, of many at once.
    let script = "head -c 4096 /dev/zero > f; names=$(yes f | head -n 2000); \
                  i=0; while [ $i -lt 20 ]; do cat $names > /dev/null; i=$((i+1)); done";
    live_and_floor(scene, script, rounds)
}

/// Commits, each of one small file, against the floor's and what the judge is allowed
/// for the names that git makes, moves and removes on the way.
fn git_commit(scene: &Scene, rounds: u32) -> Result<Pair> {
    let script = format!(
        "git init -q .; git config user.name a; git config user.email a@example.com; \
         i=0; while [ $i -lt {COMMITS} ]; do echo $i > f; git add f; git commit -qm $i; \
         i=$((i+1)); done"
    );
    let Pair { ours, against } = live_and_floor(scene, &script, rounds)?;
    let allowed = PER_FILE_ALLOWED * NAMES_PER_COMMIT;
    Ok(Pair { ours: ours / COMMITS, against: against / COMMITS + allowed })
}

/// The same script in a live workspace, and in the floor's plain bind.
fn live_and_floor(scene: &Scene, script: &str, rounds: u32) -> Result<Pair> {
    let inner = ["/bin/sh", "-c", script];
    let live = scene.contestant("atoll live", &scene.atoll("live"), &inner);
    let floor = scene.contestant("floor", &scene.floor(), &inner);
    let (ours, against) = medians(&live, &floor, rounds)?;
    Ok(Pair { ours, against })
}

/// `npm ci` of a project with many packages, live against review.
fn npm_ci(scene: &Scene, rounds: u32) -> Result<Pair> {
    let archive = scene.home.with_file_name("npm-project.tar");
    if !archive.exists() {
        pack_npm_project(&archive)?;
    }
    let script = "tar --extract --file npm-project.tar && npm ci --offline --no-audit --no-fund";
    let inner = ["/bin/sh", "-c", script];
    let install = |name, sandbox: &[OsString]| Contestant {
        files: vec![archive.clone()],
        ..scene.contestant(name, sandbox, &inner)
    };
    let live = install("atoll live", &scene.atoll("live"));
    let review = install("atoll review", &scene.atoll("review"));
    let (ours, against) = medians(&live, &review, rounds)?;
    Ok(Pair { ours, against })
}

/// Packs a project whose dependencies are tarballs beside it, so that npm needs
/// no registry.
fn pack_npm_project(archive: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path();
    let mut dependencies = BTreeMap::new();
    for number in 0..PACKAGES {
        let name = format!("package-{number}");
        let sources = place.join("sources").join(&name).join("package");
        fs::create_dir_all(&sources)?;
        let manifest = serde_json::json!({ "name": name, "version": "1.0.0" });
        fs::write(sources.join("package.json"), manifest.to_string())?;
        for file in 0..FILES_PER_PACKAGE {
            let text = "module.exports = 1;\n".repeat(file * 40 + 1);
            fs::write(sources.join(format!("file-{file}.js")), text)?;
        }
        let tarball = format!("{name}.tgz");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--gzip", "--file"]).arg(place.join(&tarball));
        process::output(
            tar.arg("--directory").arg(sources.parent().unwrap_or(place)).arg("package"),
        )?;
        dependencies.insert(name, format!("file:{tarball}"));
    }
    fs::remove_dir_all(place.join("sources"))?;
    let manifest = serde_json::json!({
        "name": "project", "version": "1.0.0", "dependencies": dependencies,
    });
    fs::write(place.join("package.json"), manifest.to_string())?;
    let mut lock = Command::new("npm");
    lock.args(["install", "--package-lock-only", "--offline", "--no-audit", "--no-fund"]);
    process::output(lock.current_dir(place).stdin(std::process::Stdio::null()))
        .context("npm could not lock the project's packages")?;
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(archive).arg("--directory").arg(place);
    process::output(tar.arg("."))?;
    Ok(())
}

/// Medians of two contestants that run in turn.
fn medians(ours: &Contestant, against: &Contestant, rounds: u32) -> Result<(Duration, Duration)> {
    let pair = [ours.clone(), against.clone()];
    let results = measure::interleaved(&pair, rounds.min(PROBE_ROUNDS_MAX))?;
    let median = |result: &Measured| match &result.times {
        Ok(times) => Ok(times.median()),
        Err(reason) => bail!("{}: {reason}", result.name),
    };
    Ok((median(&results[0])?, median(&results[1])?))
}
