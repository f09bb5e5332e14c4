//! `cargo xtask ci`: every check, for people and for CI alike.

use crate::{bench, escapes, layers, process, program, sdk, setup, skips, soak, tidy, workspace};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Run every check, or the ones named
///
/// All steps run even if one fails; the failures are named at the end.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only this step (may be given several times)
    #[arg(long, value_name = "STEP", value_enum)]
    only: Vec<Step>,
    /// Seconds that each fuzz target runs
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    fuzz_seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// Tools and Debian packages that the other steps need
    Setup,
    /// Formatting
    Fmt,
    /// Which crate may know which
    Layers,
    /// Sizes, names and words
    Tidy,
    /// Lints, as errors
    Clippy,
    /// Examples in the documentation
    Doctests,
    /// Unit and integration tests
    Nextest,
    /// Control groups, and the program, on Debian's kernel in a virtual machine
    Guests,
    /// What is shipped is one static file, and needs no other
    Program,
    /// The SDKs, against the program
    Sdk,
    /// Ways out of the sandbox are shut, and documented as they are
    Escapes,
    /// Ten thousand runs leave nothing behind
    Soak,
    /// Skipped tests against the committed list
    Skips,
    /// Documentation without warnings
    Rustdoc,
    /// Bans, licences and sources of dependencies
    Deny,
    /// Every fuzz target for a short while
    Fuzz,
    /// Everything that has a budget can be measured
    Benches,
}

struct Outcome {
    step: Step,
    took: Duration,
    error: Option<anyhow::Error>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = <Step as clap::ValueEnum>::value_variants();
    let chosen = if args.only.is_empty() { all } else { &args.only };
    let mut outcomes = Vec::new();
    for &step in chosen {
        println!("\n=== {} ===", step.name());
        let begin = Instant::now();
        let error = step.run(args).err();
        let took = begin.elapsed();
        match &error {
            None => println!("--- {}: ok in {}", step.name(), seconds(took)),
            Some(error) => println!("--- {}: FAILED in {}: {error:#}", step.name(), seconds(took)),
        }
        outcomes.push(Outcome { step, took, error });
    }
    summarise(&outcomes)
}

fn summarise(outcomes: &[Outcome]) -> Result<()> {
    println!("\n=== summary ===");
    for Outcome { step, took, error } in outcomes {
        let verdict = if error.is_none() { "ok" } else { "FAILED" };
        println!("{:<10} {:>9}  {verdict}", step.name(), seconds(*took));
    }
    let failed: Vec<String> =
        outcomes.iter().filter(|one| one.error.is_some()).map(|one| one.step.name()).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

impl Step {
    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("no step is hidden");
        value.get_name().to_owned()
    }

    fn run(self, args: &Args) -> Result<()> {
        match self {
            Self::Setup => setup::run(&setup::Args {}),
            Self::Fmt => {
                cargo(&["fmt", "--all", "--check"])?;
                cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
            }
            Self::Layers => layers::run(&layers::Args {}),
            Self::Tidy => tidy::run(&tidy::Args {}),
            Self::Clippy => {
                cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
            }
            Self::Nextest => nextest(),
            Self::Guests => guests(),
            Self::Program => program::run(),
            Self::Sdk => sdk::run(),
            Self::Escapes => escapes::check(),
            Self::Soak => {
                let (runs, execs, cycles, cuts) = (10_000, 2_000, 100, 30);
                soak::run(&soak::Args { runs, execs, cycles, cuts, seed: None, inside: None })
            }
            Self::Skips => skips::run(),
            Self::Doctests => cargo(&["test", "--workspace", "--doc"]),
            Self::Rustdoc => rustdoc(),
            Self::Deny => cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]),
            Self::Fuzz => fuzz(args.fuzz_seconds),
            Self::Benches => bench::smoke(),
        }
    }
}

fn cargo(args: &[&str]) -> Result<()> {
    process::run(process::cargo().args(args))
}

fn nextest() -> Result<()> {
    // Skips of an earlier run would hide that a test runs again, or is gone.
    let folder = skips::forget()?;
    let mut nextest = process::cargo();
    nextest.args(["nextest", "run", "--workspace"]);
    // The race against the judge runs for a minute here, for a moment elsewhere.
    nextest.env("ATOLL_RACE_SECONDS", "60");
    process::run(nextest.env(skips::FOLDER_VARIABLE, folder))
}

fn guests() -> Result<()> {
    let scripts =
        [("guest-v2", "v2.sh"), ("guest-capture", "capture.sh"), ("guest-program", "program.sh")];
    for (name, script) in scripts {
        let mut script = Command::new(workspace::root().join("tests/guests").join(script));
        let lines = process::lines(script.current_dir(workspace::root()))?;
        skips::record(name, &lines)?;
    }
    Ok(())
}

fn rustdoc() -> Result<()> {
    let mut doc = process::cargo();
    doc.args(["doc", "--workspace", "--no-deps"]);
    process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs each target that lies in `fuzz/fuzz_targets`, from the committed seeds
/// and from what earlier runs on this machine found.
fn fuzz(seconds: u32) -> Result<()> {
    let targets = fuzz_targets()?;
    if targets.is_empty() {
        bail!("no fuzz target: is fuzz/fuzz_targets gone?");
    }
    let has_nightly = setup::has_nightly();
    let target_dir = workspace::metadata()?.target_directory.join("fuzz");
    for target in &targets {
        let corpus = target_dir.join("corpus").join(target);
        fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
        let mut cargo = setup::fuzzer();
        cargo.args(["fuzz", "run"]).arg("--target-dir").arg(&target_dir);
        if !has_nightly {
            // Without nightly there is no address sanitizer; coverage and
            // panics, the bulk of what the targets look for, remain.
            cargo.args(["--sanitizer", "none"]);
        }
        // New inputs go to the first folder.
        cargo.arg(target).arg(&corpus).arg(workspace::root().join("fuzz/seeds").join(target));
        let budget = format!("-max_total_time={seconds}");
        cargo.args(["--", &budget, "-timeout=10", "-print_final_stats=1", "-verbosity=0"]);
        process::run(cargo.current_dir(workspace::root()))?;
    }
    Ok(())
}

/// Names of the targets, each with its folder of seeds.
fn fuzz_targets() -> Result<Vec<String>> {
    let folder = workspace::root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut targets = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_stem().expect("a name with an extension has a stem");
            targets.push(name.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}
