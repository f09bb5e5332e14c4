//! A sandbox that is stopped: a snapshot of it, a sandbox of that, and the end of both. How
//! many files there are is to make no difference.

use super::{Collected, Group, Kind, Results, Scene, compare, fill, fixed, rounds, told};
use crate::served::{Client, create, delete, delete_snapshot, path, snapshot};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::time::Duration;

pub(super) const GROUP: Group = Group {
    heading: "snapshot, fork and end of a sandbox with all files, or with few",
    budgets: &[
        "snapshot-stopped",
        "snapshot-stopped-size",
        "fork-started",
        "fork-size",
        "delete-size",
    ],
    measure,
};

const FEW: u32 = 100;
/// Each makes all files anew.
const ROUNDS_MAX: u32 = 10;

/// What one round is told by.
struct Names {
    snapshot: &'static str,
    fork: &'static str,
    delete: &'static str,
}

const OF_ALL: Names =
    Names { snapshot: "snapshot of all", fork: "fork of all", delete: "delete with all" };
const OF_FEW: Names =
    Names { snapshot: "snapshot of few", fork: "fork of few", delete: "delete with few" };

fn measure(scene: &Scene, count: u32) -> Result<Results> {
    let on = scene.served(Kind::Ext4)?;
    let mut client = on.served.client()?;
    let mut second = on.served.client()?;
    let mut third = on.served.client()?;
    let mut of_all = |times: &mut Collected| {
        note(times, &OF_ALL, once(&mut client, super::files(count)));
    };
    let mut of_few = |times: &mut Collected| note(times, &OF_FEW, once(&mut second, FEW));
    let mut by_create = |times: &mut Collected| {
        let mut one = || -> Result<Duration> {
            let created = third.timed("POST", "/v1/sandboxes", Some(&json!({})))?;
            delete(&mut third, &created.read()?)?;
            Ok(created.took)
        };
        times.note("create of the image", one());
    };
    let count = count.min(ROUNDS_MAX);
    let mut results = rounds(count, &mut [&mut of_all, &mut of_few, &mut by_create])?;
    results.extend([fixed("2 ms", 2), fixed("20 ms", 20)]);
    let rules = vec![
        compare("snapshot-stopped", OF_ALL.snapshot, "2 ms", 1.0),
        compare("snapshot-stopped-size", OF_ALL.snapshot, OF_FEW.snapshot, 1.5),
        compare("fork-started", OF_ALL.fork, "20 ms", 1.0),
        compare("fork-size", OF_ALL.fork, OF_FEW.fork, 1.5),
        compare("delete-size", OF_ALL.delete, OF_FEW.delete, 1.5),
    ];
    Ok((results, rules))
}

/// How long each took.
struct Took {
    snapshot: Duration,
    fork: Duration,
    delete: Duration,
}

fn note(times: &mut Collected, names: &Names, took: Result<Took>) {
    let took = took.map_err(|error| format!("{error:#}"));
    let of = |part: fn(&Took) -> Duration| {
        took.as_ref().map(part).map_err(|text| anyhow::anyhow!("{text}"))
    };
    times.note(names.snapshot, of(|took| took.snapshot));
    times.note(names.fork, of(|took| took.fork));
    times.note(names.delete, of(|took| took.delete));
}

/// Makes the files and goes through it all.
fn once(client: &mut Client, files: u32) -> Result<Took> {
    let sandbox = create(client)?;
    fill(client, &sandbox, "work", files)?;
    client.ask("POST", &path(&sandbox, "/stop"), Some(&json!({})))?;
    let taken = snapshot(client, &sandbox)?;
    ensure!(taken["way"] == "rename", "it was taken in another way: {taken}");
    let id = taken["id"].as_str().context("it has an id")?;
    let forked = client.timed("POST", &format!("/v1/snapshots/{id}/fork"), Some(&json!({})))?;
    let fork = forked.read()?["forks"][0]["sandbox"].clone();
    // What it has of its own is as much as the snapshot has.
    fill(client, &fork, "beside", files)?;
    let deleted = client.timed("DELETE", &path(&fork, ""), None)?;
    deleted.read()?;
    delete(client, &sandbox)?;
    delete_snapshot(client, &taken)?;
    Ok(Took { snapshot: told(&taken, "took_us")?, fork: forked.took, delete: deleted.took })
}
