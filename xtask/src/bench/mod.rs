//! `cargo xtask bench`: measures what the budgets of the design are about.
//!
//! Machines differ, so a budget is a ratio between two contestants that were
//! measured in the same run. An area (`run`, later the server, the gateway, the
//! state) says which contestants and budgets there are; measuring, judging and
//! printing know nothing of areas.

mod area_run;
mod budget;
mod build;
mod measure;
mod report;
mod scratch;

use anyhow::{Result, bail};
use budget::Rule;
use measure::Contestant;
use std::path::Path;

/// Builds the release program, for tasks that run it many times.
pub(crate) fn programs() -> Result<std::path::PathBuf> {
    Ok(build::programs()?.atoll)
}

/// Measure the budgets
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    area: Area,
}

#[derive(Debug, clap::Subcommand)]
enum Area {
    /// Start to exit of `atoll run`, and what it costs to work inside
    Run(Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// How often each contestant runs
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Print one JSON object per budget, and nothing else, to stdout
    #[arg(long)]
    json: bool,
    /// Check only the budgets whose names contain this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// What one area measures.
struct Suite {
    contestants: Vec<Contestant>,
    rules: Vec<Rule>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.area {
        Area::Run(options) => measure_area(options, area_run::suite),
    }
}

fn measure_area(
    options: &Options,
    suite: impl Fn(&build::Programs, &Path) -> Result<Suite>,
) -> Result<()> {
    let programs = build::programs()?;
    // Whatever a contestant keeps for a person stays in here and goes with it.
    let scratch = scratch::Scratch::new()?;
    let mut suite = suite(&programs, scratch.path())?;
    if let Some(part) = &options.only {
        suite.rules.retain(|rule| rule.name.contains(part.as_str()));
        suite.contestants.retain(|one| suite.rules.iter().any(|rule| rule.needs(one.name)));
    }
    if suite.rules.is_empty() {
        bail!("no budget has such a name");
    }
    let results = measure::interleaved(&suite.contestants, options.rounds)?;
    if !options.json {
        report::print_times(&results);
    }
    let mut missed = Vec::new();
    if !options.json {
        report::print_heading();
    }
    for rule in &suite.rules {
        let budget = rule.judge(&results, options.rounds);
        if !budget.is_kept() {
            missed.push(budget.name);
        }
        if options.json { report::print_json(&budget)? } else { report::print_line(&budget) }
    }
    if !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    Ok(())
}
