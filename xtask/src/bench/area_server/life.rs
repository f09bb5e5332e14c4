//! A sandbox from the request to the first instruction of a command, and commands in one
//! that runs.

use super::{Collected, Group, Results, Scene, TRUE, compare, create, delete, rounds};
use crate::bench::peers::Crun;
use crate::served::{Client, path};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

pub(super) const CREATE: Group = Group {
    heading: "create to command begun",
    budgets: &["create-engine-floor", "create-http-floor"],
    measure: create_and_start,
};

pub(super) const EXEC: Group = Group {
    heading: "command from ask to end",
    budgets: &["exec-static-floor", "exec-dynamic-floor", "exec-crun"],
    measure: exec,
};

fn create_and_start(scene: &Scene, count: u32) -> Result<Results> {
    let (mut floor, _) = scene.floor()?;
    let mut by_floor = |times: &mut Collected| {
        let mut make = || -> Result<Duration> {
            let made = floor.order("make")?;
            let begun = floor.order(&format!("start {TRUE}"))?;
            floor.order("drop")?;
            Ok(made + begun)
        };
        times.note("floor", make());
    };
    let mut unix = scene.served.client()?;
    let mut by_unix = |times: &mut Collected| match create_one(&mut unix) {
        Ok(Made { engine, http, ping }) => {
            times.note("atoll inside the engine", Ok(engine));
            times.note("atoll over HTTP", Ok(http));
            times.note("(a question over HTTP)", Ok(ping));
        }
        Err(error) => times.note("atoll inside the engine", Err(error)),
    };
    let mut tcp = Client::connect(&scene.served.tcp()?)?;
    let mut by_tcp = |times: &mut Collected| {
        times.note("atoll over TCP, by key", create_one(&mut tcp).map(|made| made.http));
    };
    let results = rounds(count, &mut [&mut by_floor, &mut by_unix, &mut by_tcp])?;
    let rules = vec![
        compare("create-engine-floor", "atoll inside the engine", "floor", 1.5),
        compare("create-http-floor", "atoll over HTTP", "floor", 2.5),
    ];
    Ok((results, rules))
}

/// How long it took until a command had begun in a new sandbox.
struct Made {
    /// By the sandbox's own timeline, and for the command what a question costs less.
    engine: Duration,
    http: Duration,
    /// What a question costs.
    ping: Duration,
}

fn create_one(client: &mut Client) -> Result<Made> {
    let begin = Instant::now();
    let sandbox = create(client)?;
    let made = begin.elapsed();
    let again = Instant::now();
    client.ask("POST", &path(&sandbox, "/execs"), Some(&json!({ "command": [TRUE] })))?;
    let begun = again.elapsed();
    let again = Instant::now();
    client.ask("GET", &path(&sandbox, ""), None)?;
    let ping = again.elapsed();
    let timeline = &sandbox["timeline"];
    let ready = timeline["runtime_ready_us"].as_u64().context("it has a timeline")?;
    delete(client, &sandbox)?;
    let engine = Duration::from_micros(ready) + begun.saturating_sub(ping);
    Ok(Made { engine, http: made + begun, ping })
}

fn exec(scene: &Scene, count: u32) -> Result<Results> {
    let (mut floor, nothing) = scene.floor()?;
    floor.order("make")?;
    let nothing = nothing.to_str().context("the project has a plain name")?;
    let (of_static, of_dynamic) = (format!("run {nothing} --nothing"), format!("run {TRUE}"));
    // The first of a turn comes after a pause, and does not count.
    let mut by_floor = |times: &mut Collected| {
        floor.order(&of_static).ok();
        times.note("floor, static", floor.order(&of_static));
        times.note("floor, dynamic", floor.order(&of_dynamic));
    };
    let mut unix = scene.served.client()?;
    let sandbox = create(&mut unix)?;
    let place = path(&sandbox, "/files/content?path=/home/user/nothing&mode=0755");
    unix.put(&place, &fs::read(&scene.floor)?)?;
    let mut by_unix = |times: &mut Collected| {
        let of_static = json!(["/home/user/nothing", "--nothing"]);
        run(&mut unix, &sandbox, &of_static).ok();
        times.note("atoll, static", run(&mut unix, &sandbox, &of_static));
        times.note("atoll, dynamic", run(&mut unix, &sandbox, &json!([TRUE])));
    };
    let mut tcp = Client::connect(&scene.served.tcp()?)?;
    let mut by_tcp = |times: &mut Collected| {
        run(&mut tcp, &sandbox, &json!([TRUE])).ok();
        times.note("atoll over TCP, dynamic", run(&mut tcp, &sandbox, &json!([TRUE])));
    };
    let crun = scene.crun();
    let mut by_crun = |times: &mut Collected| {
        let crun = crun.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
        let warm = |crun: &Crun| crun.exec(TRUE).and_then(|_| crun.exec(TRUE));
        times.note("crun exec, dynamic", crun.and_then(warm));
    };
    let results = rounds(count, &mut [&mut by_floor, &mut by_unix, &mut by_tcp, &mut by_crun])?;
    delete(&mut scene.served.client()?, &sandbox)?;
    let rules = vec![
        compare("exec-static-floor", "atoll, static", "floor, static", 1.5),
        compare("exec-dynamic-floor", "atoll, dynamic", "floor, dynamic", 1.5),
        compare("exec-crun", "atoll, dynamic", "crun exec, dynamic", 0.1),
    ];
    Ok((results, rules))
}

fn run(client: &mut Client, sandbox: &Value, command: &Value) -> Result<Duration> {
    let request = json!({ "command": command });
    let begin = Instant::now();
    let result = client.ask("POST", &path(sandbox, "/execs?wait_ms=10000"), Some(&request))?;
    let took = begin.elapsed();
    let exec = &result["exec"];
    ensure!(exec["ended"]["exit_code"] == 0, "it did not succeed: {exec}");
    Ok(took)
}
