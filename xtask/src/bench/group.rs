//! What an area measures together: contestants in turn, each by a function.

use super::budget::{Rule, Source};
use super::measure::{self, Measured, Times};
use anyhow::Result;
use std::collections::BTreeMap;
use std::time::Duration;

/// What was measured, and what it is judged by.
pub(super) type Results = (Vec<Measured>, Vec<Rule>);

/// What is measured together.
pub(super) struct Group<S> {
    /// What the times are of.
    pub(super) heading: &'static str,
    /// The names of its budgets.
    pub(super) budgets: &'static [&'static str],
    pub(super) measure: fn(&S, u32) -> Result<Results>,
}

impl<S> Group<S> {
    /// Where nothing could be measured, the results say why.
    pub(super) fn results(&self, scene: &S, count: u32) -> Results {
        (self.measure)(scene, count).unwrap_or_else(|error| {
            let text = format!("{error:#}");
            let missed = |name: &&'static str| {
                let text = text.clone();
                let source = Source::Probe(Box::new(move |_| anyhow::bail!("{text}")));
                Rule { name, limit: 1.0, source }
            };
            (Vec::new(), self.budgets.iter().map(missed).collect())
        })
    }
}

pub(super) fn compare(
    name: &'static str,
    ours: &'static str,
    against: &'static str,
    limit: f64,
) -> Rule {
    Rule { name, limit, source: Source::Contestants { ours, against } }
}

/// Times by the name of who took them, collected round by round.
#[derive(Default)]
pub(super) struct Collected {
    /// In the order in which they first came.
    names: Vec<&'static str>,
    times: BTreeMap<&'static str, Result<Vec<Duration>, String>>,
}

impl Collected {
    /// Notes a time, or that there is none; who failed once is out.
    pub(super) fn note(&mut self, name: &'static str, time: Result<Duration>) {
        if !self.times.contains_key(name) {
            self.names.push(name);
        }
        let times = self.times.entry(name).or_insert_with(|| Ok(Vec::new()));
        match (times, time) {
            (Ok(times), Ok(time)) => times.push(time),
            (times @ Ok(_), Err(error)) => *times = Err(format!("{error:#}")),
            (Err(_), _) => {}
        }
    }

    fn finish(mut self) -> Vec<Measured> {
        let take = |name: &'static str| {
            let times = self.times.remove(name).unwrap_or_else(|| Ok(Vec::new()));
            Measured { name, times: times.map(Times::from) }
        };
        self.names.into_iter().map(take).collect()
    }
}

/// Has contestants measured in turn, after one round for warmth.
pub(super) fn rounds(
    count: u32,
    contestants: &mut [&mut dyn FnMut(&mut Collected)],
) -> Result<Vec<Measured>> {
    let mut warmth = Collected::default();
    contestants.iter_mut().for_each(|one| one(&mut warmth));
    let mut collected = Collected::default();
    for round in 1..=count {
        for at in measure::order(contestants.len(), usize::try_from(round)?) {
            measure::settle();
            contestants[at](&mut collected);
        }
    }
    Ok(collected.finish())
}
