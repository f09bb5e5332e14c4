//! `cargo xtask escapes`: what an agent in a project can try, in which sandbox it gets
//! through.

mod attempts;
mod sandboxes;
mod scene;
mod table;

use crate::bench::programs;
use anyhow::{Context as _, Result, bail};
use attempts::{ATTEMPTS, Attempt, Who};
use sandboxes::Sandbox;
use scene::Scene;
use std::fs;
use std::path::Path;
use table::{Cell, Outcome, Row};

/// Try to get out of sandboxes, ours and others
///
/// Fails if anything gets out of ours, or if an attempt does not even succeed without a
/// sandbox. Sandboxes that are not installed are left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object per attempt and sandbox, and nothing else, to stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table of docs/escapes.md
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Only attempts whose names contain this
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = measure(args.only.as_deref().unwrap_or_default())?;
    let text = if args.json {
        table::json(&rows)?
    } else if args.markdown {
        table::markdown(&rows)
    } else {
        table::text(&rows)
    };
    print!("{text}");
    verdict(&rows)
}

fn measure(only: &str) -> Result<Vec<Row>> {
    let place = Scene::place()?;
    let atoll = place.path().join("atoll");
    fs::copy(programs()?, &atoll).context("cannot copy atoll")?;
    let mut rows = Vec::new();
    for attempt in ATTEMPTS.iter().filter(|attempt| attempt.name.contains(only)) {
        let mut cells = Vec::new();
        for sandbox in Sandbox::ALL {
            let outcome = outcome(attempt, sandbox, &atoll, place.path())
                .with_context(|| format!("{} in {}", attempt.name, sandbox.name()))?;
            cells.push(Cell { sandbox, outcome });
        }
        rows.push(Row { name: attempt.name, title: attempt.title, cells });
    }
    Ok(rows)
}

fn outcome(attempt: &Attempt, sandbox: Sandbox, atoll: &Path, place: &Path) -> Result<Outcome> {
    if let Some(reason) = sandbox.missing().or_else(|| attempt.impossible()) {
        return Ok(Outcome::NotTried(reason.to_owned()));
    }
    let mut scene = Scene::new(attempt, place)?;
    let way = sandbox.way(&scene, atoll);
    let said = scene.run(attempt, &way)?;
    if (attempt.evidence)(&mut scene, &said) {
        return Ok(Outcome::LetThrough);
    }
    // What did not run at all was not refused.
    if !said.lines().any(|line| line.trim() == "started") {
        return Ok(Outcome::Failed(said.lines().next().unwrap_or("said nothing").to_owned()));
    }
    Ok(Outcome::Refused)
}

impl Attempt {
    /// Why it cannot be tried here, in no sandbox.
    fn impossible(&self) -> Option<&'static str> {
        let wants_root = self.who == Who::Root
            || matches!(self.prop, attempts::Prop::SetUserId | attempts::Prop::Socket);
        if wants_root && !rustix::process::geteuid().is_root() {
            return Some("only root can set it up");
        }
        let typing = || fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_default();
        if self.prop == attempts::Prop::Terminal && typing().trim() == "0" {
            return Some("the kernel refuses it to everybody");
        }
        None
    }
}

/// Ours refuse all; without a sandbox all get through.
fn verdict(rows: &[Row]) -> Result<()> {
    let mut wrong = Vec::new();
    for row in rows {
        for Cell { sandbox, outcome } in &row.cells {
            let expected = match outcome {
                Outcome::NotTried(_) => true,
                Outcome::LetThrough => !sandbox.is_ours(),
                Outcome::Refused => *sandbox != Sandbox::Bare,
                // A peer that does not run is the peer's matter.
                Outcome::Failed(_) => *sandbox != Sandbox::Bare && !sandbox.is_ours(),
            };
            if !expected {
                wrong.push(format!("{} in {}: {}", row.name, sandbox.name(), outcome.word()));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(())
}

/// Tries all, and compares with the page. For CI.
pub(crate) fn check() -> Result<()> {
    let rows = measure("")?;
    print!("{}", table::text(&rows));
    verdict(&rows)?;
    let page = table::read_page()?;
    let old = table::differences(&rows, &page);
    if !old.is_empty() {
        bail!("{} says otherwise: {}", table::PAGE, old.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcomes: &[(Sandbox, Outcome)]) -> Row {
        let cells = outcomes
            .iter()
            .map(|(sandbox, outcome)| Cell { sandbox: *sandbox, outcome: outcome.clone() })
            .collect();
        Row { name: "one", title: "one", cells }
    }

    #[track_caller]
    fn judge(outcomes: &[(Sandbox, Outcome)], expect: &str) {
        let said =
            verdict(&[row(outcomes)]).map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(said, expect);
    }

    #[test]
    fn ours_must_refuse_and_the_control_must_get_through() {
        use Outcome::{Failed, LetThrough, NotTried, Refused};
        let failed = || Failed("no".to_owned());
        let (bare, live, other) = (Sandbox::Bare, Sandbox::AtollLive, Sandbox::Bubblewrap);
        judge(&[(bare, LetThrough), (live, Refused), (other, LetThrough)], "");
        judge(&[(bare, Refused)], "one in no sandbox: refused");
        judge(&[(bare, failed())], "one in no sandbox: failed: no");
        judge(&[(live, LetThrough)], "one in Atoll live: LET THROUGH");
        judge(&[(Sandbox::AtollReview, LetThrough)], "one in Atoll review: LET THROUGH");
        judge(&[(live, failed())], "one in Atoll live: failed: no");
        judge(&[(other, failed()), (bare, NotTried("no".to_owned()))], "");
    }

    /// Without the sandbox each gets through: the attempts themselves work.
    #[test]
    fn every_attempt_gets_through_without_a_sandbox() {
        let place = Scene::place().unwrap();
        for attempt in ATTEMPTS {
            let outcome = outcome(attempt, Sandbox::Bare, Path::new(""), place.path()).unwrap();
            let is_fine = matches!(outcome, Outcome::LetThrough | Outcome::NotTried(_));
            assert!(is_fine, "{}: {}", attempt.name, outcome.word());
        }
    }
}
