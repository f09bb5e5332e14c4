//! What the gateway itself takes: time at the start of a run, of processors, and memory.

use super::{Collected, GIB, Group, Results, Scene, compare, gateway, processor_time, rounds};
use crate::bench::budget::{Memory, Rule, Source};
use crate::bench::measure::{self, Contestant};
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs;

pub(super) const START: Group =
    Group { heading: "start to exit of true", budgets: &["gateway-none-floor"], measure: start };
pub(super) const GATEWAY: Group = Group {
    heading: "processor time for 1 GiB",
    budgets: &["gateway-memory", "gateway-connection-memory"],
    measure: taken,
};

const TRUE: &str = "/bin/true";
const ROUNDS_MAX: u32 = 5;
/// Connections that idle.
const IDLE: u32 = 1000;
/// What a gateway may take that does nothing, and for each connection that does nothing.
const IDLE_KIB_MAX: f64 = 16.0 * 1024.0;
const CONNECTION_KIB_MAX: f64 = 32.0;

/// A run without the network costs what it did, and one with rules is beside it.
fn start(scene: &Scene, count: u32) -> Result<Results> {
    let places = &scene.places;
    let contestant = |name, program: &std::path::Path, flags: &[&str]| {
        let words = flags.iter().copied().chain([TRUE]).map(OsString::from);
        Contestant {
            name,
            command: [program.as_os_str().to_owned()].into_iter().chain(words).collect(),
            project: places.scratch.join("empty"),
            home: places.scratch.join("home"),
            files: Vec::new(),
        }
    };
    let rules = ["run", "--allow-host", "pypi.org", "--"];
    let contestants = [
        contestant("floor", &places.floor, &[]),
        contestant("atoll --net none", &places.atoll, &["run", "--net", "none", "--"]),
        contestant("atoll --net rules", &places.atoll, &rules),
    ];
    let results = measure::interleaved(&contestants, count)?;
    Ok((results, vec![compare("gateway-none-floor", "atoll --net none", "floor", 1.2)]))
}

fn taken(scene: &Scene, count: u32) -> Result<Results> {
    let mut ways = scene.ways.borrow_mut();
    let mut contestants: Vec<_> = ways
        .iter_mut()
        .filter_map(|way| way.pid.map(|pid| (way, pid)))
        .map(|(way, pid)| {
            move |times: &mut Collected| {
                let mut taken = || {
                    let before = processor_time(pid)?;
                    way.load.order(&format!("download {GIB}"))?;
                    Ok(processor_time(pid)?.saturating_sub(before))
                };
                times.note(way.name, taken());
            }
        })
        .collect();
    let mut contestants: Vec<&mut dyn FnMut(&mut Collected)> =
        contestants.iter_mut().map(|one| one as _).collect();
    let results = rounds(count.min(ROUNDS_MAX), &mut contestants)?;
    let memory = idle(scene).map_err(|error| format!("{error:#}"));
    let alone = memory.clone().map(|(alone, _)| alone);
    let connection = memory.map(|(_, connection)| connection);
    let rules = vec![
        Rule { name: "gateway-memory", limit: 1.0, source: Source::Memory(alone) },
        Rule { name: "gateway-connection-memory", limit: 1.0, source: Source::Memory(connection) },
    ];
    Ok((results, rules))
}

/// Of a gateway that has served one connection, and for each of many that idle.
fn idle(scene: &Scene) -> Result<(Memory, Memory)> {
    let mut inside = scene.places.inside()?;
    let gateway = gateway(inside.pid())?;
    let before = memory_kib(gateway)?;
    inside.order(&format!("hold {IDLE}"))?;
    let each = (memory_kib(gateway)? - before) / f64::from(IDLE);
    Ok((
        Memory { ours_kib: before, against_kib: IDLE_KIB_MAX },
        Memory { ours_kib: each, against_kib: CONNECTION_KIB_MAX },
    ))
}

/// Memory of its own, in KiB: proc_pid_smaps(5).
fn memory_kib(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .context("who is not root cannot see the gateway's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.context("no memory")
}
