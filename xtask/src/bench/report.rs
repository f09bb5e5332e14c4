//! Prints times and budgets, as a table for people or as JSON for programs.

use super::budget::Budget;
use super::measure::Measured;
use anyhow::Result;
use std::io::Write;
use std::time::Duration;

pub(super) fn print_times(out: &mut impl Write, what: &str, results: &[Measured]) -> Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    writeln!(out, "{what:<24} {:>10} {:>10} {:>10}", "min", "median", "p95")?;
    for Measured { name, times } in results {
        match times {
            Ok(times) => writeln!(
                out,
                "{name:<24} {:>10} {:>10} {:>10}",
                text(times.min()),
                text(times.median()),
                text(times.p95()),
            )?,
            Err(reason) => writeln!(out, "{name:<24} failed: {reason}")?,
        }
    }
    Ok(writeln!(out)?)
}

pub(super) fn print_heading(out: &mut impl Write) -> Result<()> {
    let (name, ours, against) = ("budget", "ours", "against");
    let (ratio, best, limit) = ("ratio", "best", "limit");
    Ok(writeln!(out, "{name:<24} {ours:>10} {against:>10} {ratio:>6} {best:>6} {limit:>6}  ok")?)
}

/// A line: of the table, or an object.
pub(super) fn print(out: &mut impl Write, budget: &Budget, json: bool) -> Result<()> {
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string(budget)?)?);
    }
    let verdict = if budget.ok { "yes" } else { "NO" };
    let figure = |figure: Option<f64>| match figure {
        Some(microseconds) if budget.unit == "us" => {
            text(Duration::from_secs_f64(microseconds / 1e6))
        }
        Some(figure) => format!("{figure:.0} {}", budget.unit),
        None => "-".to_owned(),
    };
    let ratio = |ratio: Option<f64>| match ratio {
        Some(ratio) => format!("{ratio:.2}"),
        None => "-".to_owned(),
    };
    let reason = budget.reason.as_ref().map(|reason| format!("  ({reason})"));
    writeln!(
        out,
        "{:<24} {:>10} {:>10} {:>6} {:>6} {:>6.2}  {verdict}{}",
        budget.name,
        figure(budget.ours),
        figure(budget.against),
        ratio(budget.ratio),
        ratio(budget.ratio_of_best),
        budget.limit,
        reason.unwrap_or_default(),
    )?;
    Ok(())
}

fn text(duration: Duration) -> String {
    let microseconds = duration.as_secs_f64() * 1e6;
    if microseconds < 1000.0 {
        format!("{microseconds:.1} us")
    } else {
        format!("{:.2} ms", microseconds / 1000.0)
    }
}
