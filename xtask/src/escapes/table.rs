//! The table, for people, for programs and for the documentation.

use super::sandboxes::Sandbox;
use crate::workspace;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;

/// Where the table is shown.
pub(super) const PAGE: &str = "docs/escapes.md";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Refused,
    LetThrough,
    /// The sandbox did not run the attempt.
    Failed(String),
    NotTried(String),
}

impl Outcome {
    pub(super) fn word(&self) -> String {
        match self {
            Self::Refused => "refused".to_owned(),
            Self::LetThrough => "LET THROUGH".to_owned(),
            Self::Failed(reason) => format!("failed: {reason}"),
            Self::NotTried(reason) => format!("not tried: {reason}"),
        }
    }

    /// A cell's width is what a table has.
    fn short(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LetThrough => "LET THROUGH",
            Self::Failed(_) => "failed",
            Self::NotTried(_) => "-",
        }
    }
}

pub(super) struct Cell {
    pub(super) sandbox: Sandbox,
    pub(super) outcome: Outcome,
}

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) cells: Vec<Cell>,
}

pub(super) fn text(rows: &[Row]) -> String {
    let mut text = format!("{:<16}", "");
    for sandbox in Sandbox::ALL {
        write!(text, " {:<15}", sandbox.name()).expect("a string takes all");
    }
    text.push('\n');
    for row in rows {
        write!(text, "{:<16}", row.name).expect("a string takes all");
        for cell in &row.cells {
            write!(text, " {:<15}", cell.outcome.short()).expect("a string takes all");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    // Reasons are few and long.
    let mut reasons = std::collections::BTreeSet::new();
    for cell in rows.iter().flat_map(|row| &row.cells) {
        if let Outcome::Failed(_) | Outcome::NotTried(_) = cell.outcome {
            reasons.insert(format!("{}: {}\n", cell.sandbox.name(), cell.outcome.word()));
        }
    }
    text.extend(reasons);
    text
}

pub(super) fn json(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    for row in rows {
        for Cell { sandbox, outcome } in &row.cells {
            let (word, reason) = match outcome {
                Outcome::Refused => ("refused", None),
                Outcome::LetThrough => ("let-through", None),
                Outcome::Failed(reason) => ("failed", Some(reason)),
                Outcome::NotTried(reason) => ("not-tried", Some(reason)),
            };
            let object = serde_json::json!({
                "attempt": row.name, "title": row.title, "sandbox": sandbox.name(),
                "outcome": word, "reason": reason,
            });
            text += &serde_json::to_string(&object)?;
            text.push('\n');
        }
    }
    Ok(text)
}

pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = "| attempt |".to_owned();
    for sandbox in Sandbox::ALL {
        write!(text, " {} |", sandbox.name()).expect("a string takes all");
    }
    text += "\n|---|";
    text += &"---|".repeat(Sandbox::ALL.len());
    text.push('\n');
    for row in rows {
        write!(text, "| {} |", row.title).expect("a string takes all");
        for cell in &row.cells {
            write!(text, " {} |", cell.outcome.short()).expect("a string takes all");
        }
        text.push('\n');
    }
    text
}

pub(super) fn read_page() -> Result<String> {
    std::fs::read_to_string(workspace::root().join(PAGE))
        .with_context(|| format!("cannot read {PAGE}"))
}

/// Where the page's table says something else than ours were seen to do, or the control.
/// What peers do may change with their versions.
pub(super) fn differences(rows: &[Row], page: &str) -> Vec<String> {
    let lines: Vec<Vec<&str>> = page
        .lines()
        .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect())
        .collect();
    let mut different = Vec::new();
    for row in rows {
        let Some(shown) = lines.iter().find(|cells| cells[0] == row.title) else {
            different.push(format!("no row for {:?}", row.title));
            continue;
        };
        for (index, cell) in row.cells.iter().enumerate() {
            let is_certain = cell.sandbox.is_ours() || cell.sandbox == Sandbox::Bare;
            let shown = shown.get(index + 1).copied().unwrap_or_default();
            let seen = cell.outcome.short();
            let is_seen = !matches!(cell.outcome, Outcome::NotTried(_));
            if is_certain && is_seen && shown != seen {
                let name = cell.sandbox.name();
                different.push(format!("{} in {name}: shown {shown:?}, seen {seen:?}", row.name));
            }
        }
    }
    different
}

#[cfg(test)]
mod tests {
    use super::super::attempts::ATTEMPTS;
    use super::*;

    /// What the page has to say: ours refuse, nothing else is certain.
    fn claimed() -> Vec<Row> {
        let outcome = |sandbox: Sandbox| match sandbox {
            Sandbox::Bare => Outcome::LetThrough,
            ours if ours.is_ours() => Outcome::Refused,
            _ => Outcome::NotTried(String::new()),
        };
        let cells =
            || Sandbox::ALL.map(|sandbox| Cell { sandbox, outcome: outcome(sandbox) }).into();
        ATTEMPTS
            .iter()
            .map(|one| Row { name: one.name, title: one.title, cells: cells() })
            .collect()
    }

    #[test]
    fn the_page_shows_every_attempt_and_what_ours_do() {
        let page = read_page().unwrap();
        assert_eq!(differences(&claimed(), &page), [] as [String; 0]);
        let rows = page.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, ATTEMPTS.len() + 1, "a row of the page is no attempt's");
    }

    #[test]
    fn a_page_that_says_otherwise_is_told() {
        let mut rows = claimed();
        rows.truncate(2);
        let page = markdown(&rows);
        assert_eq!(differences(&rows, &page), [] as [String; 0]);
        rows[1].cells[1].outcome = Outcome::LetThrough;
        let told = differences(&rows, &page);
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with("shown \"refused\", seen \"LET THROUGH\""), "{told:?}");
        assert_eq!(differences(&rows, "").len(), 2);
    }

    #[test]
    fn programs_read_a_line_for_each_cell() {
        let rows = claimed();
        let text = json(&rows).unwrap();
        assert_eq!(text.lines().count(), ATTEMPTS.len() * Sandbox::ALL.len());
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["attempt"], ATTEMPTS[0].name);
        assert_eq!(first["outcome"], "let-through");
    }
}
