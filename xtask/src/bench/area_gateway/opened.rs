//! Requests in TLS that is opened, with a secret put in.

use super::{ATOLL, Collected, DIRECT, Group, Results, SECRET, Scene, compare, rounds};
use crate::bench::budget::{Pair, Rule, Source};
use anyhow::{Context as _, Result};
use std::time::Duration;

pub(super) const RATE: Group = Group {
    heading: "each request, 16 at once",
    budgets: &["gateway-requests-mitmproxy"],
    measure: rate,
};
pub(super) const LATENCY: Group = Group {
    heading: "request, one after the other",
    budgets: &["gateway-request-added"],
    measure: latency,
};

const MITMPROXY: &str = "mitmproxy";
const ADDED_MAX: Duration = Duration::from_millis(1);
const ROUNDS_MAX: u32 = 9;

/// Has each carry such an order out; the last word of it is what the request brings along.
fn asked(scene: &Scene, count: u32, ours: &str, of_mitmproxy: &str) -> Result<Results> {
    let mut ways = scene.ways.borrow_mut();
    let mut wanted: Vec<_> =
        ways.iter_mut().filter(|way| [DIRECT, ATOLL].contains(&way.name)).collect();
    let [direct, inside] = &mut wanted[..] else { anyhow::bail!("a way is missing") };
    let mut by_none = |times: &mut Collected| {
        times.note(DIRECT, direct.load.order(&format!("{ours} {SECRET}")));
    };
    // The server refuses whoever comes without: what is measured is put in.
    let mut by_us = |times: &mut Collected| {
        times.note(ATOLL, inside.load.order(&format!("{ours} nothing")));
    };
    let mut contestants: Vec<&mut dyn FnMut(&mut Collected)> = vec![&mut by_none, &mut by_us];
    let mut mitmproxy = scene.mitmproxy.as_ref().map(|load| {
        |times: &mut Collected| {
            let order = format!("{of_mitmproxy} nothing");
            times.note(MITMPROXY, load.borrow_mut().order(&order));
        }
    });
    if let Some(mitmproxy) = &mut mitmproxy {
        contestants.push(mitmproxy);
    }
    Ok((rounds(count.min(ROUNDS_MAX), &mut contestants)?, Vec::new()))
}

fn rate(scene: &Scene, count: u32) -> Result<Results> {
    let (results, _) = asked(scene, count, "request 16 1000", "request 16 40")?;
    let rule = || compare("gateway-requests-mitmproxy", ATOLL, MITMPROXY, 1.0 / 25.0);
    Ok((results, scene.mitmproxy.iter().map(|_| rule()).collect()))
}

fn latency(scene: &Scene, count: u32) -> Result<Results> {
    let (results, _) = asked(scene, count, "latency 1000", "latency 100")?;
    let median = |name: &str| {
        let times = results.iter().find(|one| one.name == name).map(|one| &one.times);
        let times = times.context("not measured")?;
        times.as_ref().map(|times| times.median()).map_err(|why| anyhow::anyhow!("{name}: {why}"))
    };
    let added = median(ATOLL).and_then(|ours| Ok(ours.saturating_sub(median(DIRECT)?)));
    let added = added.map_err(|error| format!("{error:#}"));
    let probe = move |_| {
        let ours = added.clone().map_err(anyhow::Error::msg)?;
        Ok(Pair { ours, against: ADDED_MAX })
    };
    let source = Source::Probe(Box::new(probe));
    Ok((results, vec![Rule { name: "gateway-request-added", limit: 1.0, source }]))
}
