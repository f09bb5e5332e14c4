//! `cargo xtask bench`: measures what the budgets of the design are about.
//!
//! Machines differ, so a budget is a ratio between two contestants that were
//! measured in the same run. An area (`run`, `server`, `gateway`, `state`) says which contestants and budgets there
//! are; measuring, judging and printing know nothing of areas.

mod area_gateway;
mod area_run;
mod area_server;
mod area_state;
mod budget;
mod build;
mod group;
mod kernel_memory;
mod measure;
mod peers;
mod process_memory;
mod report;
mod resident;
mod scratch;

use anyhow::{Result, bail};
use budget::{Budget, Rule};
use group::Group;
use measure::Contestant;
use std::io::Write as _;
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
    /// Sandboxes of `atoll serve`: making them, commands in them, output, memory
    Server(Options),
    /// What goes through the gateway of `atoll run --net rules`, and what that costs
    Gateway(Options),
    /// What sandboxes keep: snapshots, sandboxes of them, deleting; as root
    State(Options),
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
        Area::Server(options) => {
            measure_groups(options, &area_server::GROUPS, area_server::Scene::new)
        }
        Area::Gateway(options) => {
            measure_groups(options, &area_gateway::GROUPS, area_gateway::Scene::new)
        }
        Area::State(options) => {
            measure_groups(options, &area_state::GROUPS, area_state::Scene::new)
        }
    }
}

fn measure_groups<S>(
    options: &Options,
    groups: &[Group<S>],
    scene: impl Fn(&build::Programs, &Path) -> Result<S>,
) -> Result<()> {
    let part = options.only.as_deref().unwrap_or_default();
    let is_wanted = |name: &str| name.contains(part);
    let groups: Vec<&Group<S>> =
        groups.iter().filter(|group| group.budgets.iter().copied().any(is_wanted)).collect();
    if groups.is_empty() {
        bail!("no budget has such a name");
    }
    let programs = build::programs()?;
    let scratch = scratch::Scratch::new()?;
    let scene = scene(&programs, scratch.path())?;
    let mut out = std::io::stdout().lock();
    let mut budgets = Vec::new();
    for group in groups {
        let (results, rules) = group.results(&scene, options.rounds);
        if !options.json {
            report::print_times(&mut out, group.heading, &results)?;
            report::print_heading(&mut out)?;
        }
        for rule in rules.into_iter().filter(|rule| is_wanted(rule.name)) {
            let budget = rule.judge(&results, options.rounds);
            report::print(&mut out, &budget, options.json)?;
            budgets.push(budget);
        }
        if !options.json {
            writeln!(out)?;
        }
    }
    drop(out);
    verdict(&budgets)
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
    let mut out = std::io::stdout().lock();
    if !options.json {
        report::print_times(&mut out, "start to exit", &results)?;
        report::print_heading(&mut out)?;
    }
    let mut budgets = Vec::new();
    for rule in &suite.rules {
        let budget = rule.judge(&results, options.rounds);
        report::print(&mut out, &budget, options.json)?;
        budgets.push(budget);
    }
    verdict(&budgets)
}

/// A budget that is missed, or that could not be measured, is the task's failure.
fn verdict(budgets: &[Budget]) -> Result<()> {
    let missed: Vec<&str> =
        budgets.iter().filter(|budget| !budget.is_kept()).map(|budget| budget.name).collect();
    if !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    Ok(())
}

/// Runs everything once, to see that it can be measured. How long it took means nothing.
pub(crate) fn smoke() -> Result<()> {
    let programs = build::programs()?;
    let scratch = scratch::Scratch::new()?;
    let suite = area_run::suite(&programs, scratch.path())?;
    let results = measure::interleaved(&suite.contestants, 1)?;
    let mut budgets: Vec<Budget> = suite.rules.iter().map(|rule| rule.judge(&results, 1)).collect();
    let scene = area_server::Scene::new(&programs, scratch.path())?;
    budgets.extend(judged_once(&area_server::GROUPS, &scene));
    if rustix::process::geteuid().is_root() {
        let scene = area_state::Scene::new(&programs, scratch.path())?;
        budgets.extend(judged_once(&area_state::GROUPS, &scene));
    }
    let mut failed = Vec::new();
    for budget in &budgets {
        match &budget.reason {
            Some(reason) => failed.push(format!("{}: {reason}", budget.name)),
            None => println!("{} can be measured", budget.name),
        }
    }
    if !failed.is_empty() {
        bail!("cannot be measured: {}", failed.join("; "));
    }
    Ok(())
}

fn judged_once<S>(groups: &[Group<S>], scene: &S) -> Vec<Budget> {
    let judged = groups.iter().flat_map(|group| {
        let (results, rules) = group.results(scene, 1);
        rules.into_iter().map(move |rule| rule.judge(&results, 1))
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use budget::Pair;
    use std::time::Duration;

    fn judged(name: &'static str, microseconds: u64, limit: f64) -> Budget {
        let pair = Pair {
            ours: Duration::from_micros(microseconds),
            against: Duration::from_micros(1000),
        };
        let source = budget::Source::Probe(Box::new(move |_| Ok(pair)));
        Rule { name, limit, source }.judge(&[], 1)
    }

    fn unmeasured(name: &'static str) -> Budget {
        let source = budget::Source::Probe(Box::new(|_| bail!("no such program")));
        Rule { name, limit: 1.0, source }.judge(&[], 1)
    }

    #[test]
    fn one_missed_budget_fails_all_and_is_named() {
        assert!(verdict(&[]).is_ok());
        let kept = judged("kept", 1200, 1.2);
        assert!(verdict(std::slice::from_ref(&kept)).is_ok());
        let all = [kept, judged("slow", 1201, 1.2), judged("fast", 1, 1.0), unmeasured("absent")];
        assert_eq!(verdict(&all).unwrap_err().to_string(), "missed: slow, absent");
    }

    fn printed(budget: &Budget, json: bool) -> String {
        let mut out = Vec::new();
        report::print(&mut out, budget, json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn programs_read_a_line_for_each_budget() {
        let line = printed(&judged("start", 1500, 1.2), true);
        assert_eq!(
            line,
            "{\"name\":\"start\",\"unit\":\"us\",\"ours\":1500.0,\"against\":1000.0,\
             \"ratio\":1.5,\"limit\":1.2,\"ok\":false}\n"
        );
        let read: serde_json::Value =
            serde_json::from_str(&printed(&unmeasured("a"), true)).unwrap();
        assert_eq!(read["ok"], false);
        assert_eq!(read["reason"], "no such program");
        assert!(read["ratio"].is_null());
    }

    #[test]
    fn people_read_a_table() {
        let words = |budget: &Budget| {
            let line = printed(budget, false);
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&judged("start", 1500, 1.2)), "start 1.50 ms 1.00 ms 1.50 - 1.20 NO");
        assert_eq!(words(&judged("start", 900, 1.2)), "start 900.0 us 1.00 ms 0.90 - 1.20 yes");
        assert_eq!(words(&unmeasured("a")), "a - - - - 1.00 NO (no such program)");
    }
}
