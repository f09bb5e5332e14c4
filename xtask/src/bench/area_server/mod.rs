//! The area of `atoll serve`: sandboxes made, commands run and output read, by a client of
//! a server that runs, against the floor and against other sandboxes that stay.
//!
//! | budgets about | are in |
//! |---|---|
//! | one sandbox, made and used | [`life`] |
//! | output | [`stream`] |
//! | many sandboxes | [`many`] |

mod life;
mod many;
mod stream;

use super::budget::{Rule, Source};
use super::build::Programs;
use super::measure::{self, Measured, Times};
use super::peers::Crun;
use super::resident::Resident;
use crate::served::{Client, Served, path};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What was measured, and what it is judged by.
type Results = (Vec<Measured>, Vec<Rule>);

/// What is measured together.
pub(super) struct Group {
    /// What the times are of.
    pub(super) heading: &'static str,
    /// The names of its budgets.
    pub(super) budgets: &'static [&'static str],
    pub(super) measure: fn(&Scene, u32) -> Result<Results>,
}

impl Group {
    /// Where nothing could be measured, the results say why.
    pub(super) fn results(&self, scene: &Scene, count: u32) -> Results {
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

pub(super) const GROUPS: [Group; 5] =
    [life::CREATE, life::EXEC, stream::GROUP, many::RATE, many::MEMORY];

const TRUE: &str = "/bin/true";

/// A server that runs, and the programs it is held against.
pub(super) struct Scene {
    served: Served,
    atoll: PathBuf,
    floor: PathBuf,
    /// Where contestants keep what they need.
    folder: PathBuf,
}

impl Scene {
    pub(super) fn new(programs: &Programs, scratch: &Path) -> Result<Self> {
        let own = |name: &str| -> Result<PathBuf> {
            let path = scratch.join(name);
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            Ok(path)
        };
        let (folder, place) = (own("contestants")?, own("server")?);
        let served = Served::start(&programs.atoll, &place, None)?;
        let Programs { atoll, floor } = programs;
        Ok(Self { served, atoll: atoll.clone(), floor: floor.clone(), folder })
    }

    /// A floor that stays, whose jails have this program in their project: the shortest
    /// there is.
    fn floor(&self) -> Result<(Resident, PathBuf)> {
        let (project, home) = (self.folder.join("project"), self.folder.join("home"));
        for path in [&project, &home] {
            fs::create_dir_all(path)?;
        }
        let nothing = project.join("nothing");
        fs::copy(&self.floor, &nothing)?;
        Ok((Resident::start(&self.floor, &project, &home)?, nothing))
    }

    fn crun(&self) -> Result<Crun> {
        let folder = self.folder.join("crun");
        fs::create_dir(&folder)?;
        Crun::start(&folder)
    }
}

fn compare(name: &'static str, ours: &'static str, against: &'static str, limit: f64) -> Rule {
    Rule { name, limit, source: Source::Contestants { ours, against } }
}

fn create(client: &mut Client) -> Result<Value> {
    client.ask("POST", "/v1/sandboxes", Some(&json!({})))
}

fn delete(client: &mut Client, sandbox: &Value) -> Result<()> {
    client.ask("DELETE", &path(sandbox, ""), None).map(drop)
}

/// Times by the name of who took them, collected round by round.
#[derive(Default)]
struct Collected {
    /// In the order in which they first came.
    names: Vec<&'static str>,
    times: BTreeMap<&'static str, Result<Vec<Duration>, String>>,
}

impl Collected {
    /// Notes a time, or that there is none; who failed once is out.
    fn note(&mut self, name: &'static str, time: Result<Duration>) {
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
fn rounds(count: u32, contestants: &mut [&mut dyn FnMut(&mut Collected)]) -> Result<Vec<Measured>> {
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
