//! A budget: ours against something, and how much of that it may be.

use super::measure::Measured;
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
    /// Always `us`, microseconds.
    pub(super) unit: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) against: Option<f64>,
    pub(super) ratio: Option<f64>,
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

impl Rule {
    pub(super) fn needs(&self, contestant: &str) -> bool {
        match &self.source {
            Source::Contestants { ours, against } => [*ours, *against].contains(&contestant),
            Source::Probe(_) => false,
        }
    }

    /// What cannot be measured is missed.
    pub(super) fn judge(&self, results: &[Measured], rounds: u32) -> Budget {
        let pair = match &self.source {
            Source::Contestants { ours, against } => median(results, ours)
                .and_then(|ours| median(results, against).map(|against| Pair { ours, against })),
            Source::Probe(probe) => probe(rounds).map_err(|error| format!("{error:#}")),
        };
        let mut budget = Budget {
            name: self.name,
            unit: "us",
            ours: None,
            against: None,
            ratio: None,
            limit: self.limit,
            ok: false,
            reason: None,
        };
        match pair {
            Ok(Pair { ours, against }) => {
                let ratio = ours.as_secs_f64() / against.as_secs_f64();
                budget.ours = Some(microseconds(ours));
                budget.against = Some(microseconds(against));
                budget.ratio = Some((ratio * 1000.0).round() / 1000.0);
                budget.ok = ratio <= self.limit;
            }
            Err(reason) => budget.reason = Some(reason),
        }
        budget
    }
}

fn median(results: &[Measured], name: &str) -> Result<Duration, String> {
    let measured = results.iter().find(|measured| measured.name == name);
    match measured.map(|measured| &measured.times) {
        Some(Ok(times)) => Ok(times.median()),
        Some(Err(reason)) => Err(format!("{name}: {reason}")),
        None => Err(format!("{name}: not measured")),
    }
}

/// With one decimal, which is as much as a wall clock is good for.
fn microseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::measure::Times;
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
