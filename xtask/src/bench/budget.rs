//! A budget: ours against something, and how much of that it may be.

use super::measure::{Measured, Times};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

/// A budget before it is measured.
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// Greatest allowed ratio of ours to what it is held against.
    pub(super) limit: f64,
    pub(super) source: Source,
}

/// Where the two figures come from.
pub(super) enum Source {
    /// Medians of two contestants.
    Contestants { ours: &'static str, against: &'static str },
    /// A measurement of its own.
    Probe(Box<dyn Fn(u32) -> Result<Pair>>),
    /// The same, of memory.
    Memory(Result<Memory, String>),
}

/// Memory that something takes, and what it is held against.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) ours_kib: f64,
    pub(super) against_kib: f64,
}

#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) ours: Duration,
    pub(super) against: Duration,
}

/// A judged budget, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Budget {
    pub(super) name: &'static str,
    /// `us`, microseconds, or `KiB`.
    pub(super) unit: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) against: Option<f64>,
    /// Of what is typical; it decides.
    pub(super) ratio: Option<f64>,
    /// Of the best that each did, where there were many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_of_best: Option<f64>,
    pub(super) limit: f64,
    pub(super) ok: bool,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl Budget {
    pub(super) fn is_kept(&self) -> bool {
        self.ok
    }
}

/// What was measured for a rule.
struct Figures {
    unit: &'static str,
    ours: f64,
    against: f64,
    ratio_of_best: Option<f64>,
}

impl Rule {
    pub(super) fn needs(&self, contestant: &str) -> bool {
        match &self.source {
            Source::Contestants { ours, against } => [*ours, *against].contains(&contestant),
            Source::Probe(_) | Source::Memory(_) => false,
        }
    }

    /// What cannot be measured is missed.
    pub(super) fn judge(&self, results: &[Measured], rounds: u32) -> Budget {
        let mut budget = Budget {
            name: self.name,
            unit: "us",
            ours: None,
            against: None,
            ratio: None,
            ratio_of_best: None,
            limit: self.limit,
            ok: false,
            reason: None,
        };
        match self.figures(results, rounds) {
            Ok(Figures { unit, ours, against, ratio_of_best }) => {
                let ratio = ours / against;
                budget.unit = unit;
                budget.ours = Some(with_one_decimal(ours));
                budget.against = Some(with_one_decimal(against));
                budget.ratio = Some(rounded(ratio));
                budget.ratio_of_best = ratio_of_best.map(rounded);
                budget.ok = ratio <= self.limit;
            }
            Err(reason) => budget.reason = Some(reason),
        }
        budget
    }

    fn figures(&self, results: &[Measured], rounds: u32) -> Result<Figures, String> {
        match &self.source {
            Source::Contestants { ours, against } => {
                let (ours, against) = (times(results, ours)?, times(results, against)?);
                let best = ours.min().as_secs_f64() / against.min().as_secs_f64();
                let pair = Pair { ours: ours.median(), against: against.median() };
                Ok(Figures { ratio_of_best: Some(best), ..pair.into() })
            }
            Source::Probe(probe) => {
                probe(rounds).map(Figures::from).map_err(|error| format!("{error:#}"))
            }
            Source::Memory(memory) => memory.clone().map(|memory| Figures {
                unit: "KiB",
                ours: memory.ours_kib,
                against: memory.against_kib,
                ratio_of_best: None,
            }),
        }
    }
}

impl From<Pair> for Figures {
    fn from(Pair { ours, against }: Pair) -> Self {
        let [ours, against] = [ours, against].map(|time| time.as_secs_f64() * 1e6);
        Self { unit: "us", ours, against, ratio_of_best: None }
    }
}

fn times<'a>(results: &'a [Measured], name: &str) -> Result<&'a Times, String> {
    let measured = results.iter().find(|measured| measured.name == name);
    match measured.map(|measured| &measured.times) {
        Some(Ok(times)) => Ok(times),
        Some(Err(reason)) => Err(format!("{name}: {reason}")),
        None => Err(format!("{name}: not measured")),
    }
}

/// As much as a wall clock is good for.
fn with_one_decimal(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

fn rounded(ratio: f64) -> f64 {
    (ratio * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &'static str, microseconds: u64) -> Measured {
        let times = vec![Duration::from_micros(microseconds)];
        Measured { name, times: Ok(Times::from(times)) }
    }

    fn rule(limit: f64) -> Rule {
        let source = Source::Contestants { ours: "ours", against: "floor" };
        Rule { name: "start", limit, source }
    }

    #[test]
    fn the_ratio_decides() {
        let results = [measured("ours", 2400), measured("floor", 2000)];
        assert!(rule(1.2).judge(&results, 1).ok);
        let missed = rule(1.19).judge(&results, 1);
        assert!(!missed.ok);
        assert_eq!(
            (missed.ours, missed.against, missed.ratio),
            (Some(2400.0), Some(2000.0), Some(1.2))
        );
    }

    #[test]
    fn no_figures_is_missed_with_a_reason() {
        let failed = Measured { name: "ours", times: Err("exit status: 125".to_owned()) };
        let budget = rule(1.2).judge(&[failed, measured("floor", 2000)], 1);
        assert!(!budget.ok);
        assert_eq!(budget.reason.as_deref(), Some("ours: exit status: 125"));
        let json = serde_json::to_string(&budget).unwrap();
        assert_eq!(
            json,
            "{\"name\":\"start\",\"unit\":\"us\",\"ours\":null,\"against\":null,\"ratio\":null,\
             \"limit\":1.2,\"ok\":false,\"reason\":\"ours: exit status: 125\"}"
        );
    }

    #[test]
    fn a_probe_measures_for_itself() {
        let pair = Pair { ours: Duration::from_micros(90), against: Duration::from_micros(100) };
        let source = Source::Probe(Box::new(move |_| Ok(pair)));
        let budget = Rule { name: "filter", limit: 1.0, source }.judge(&[], 1);
        assert!(budget.ok);
        assert_eq!(budget.ratio, Some(0.9));
    }
}
