//! A sandbox from the request to the first instruction of a command, and commands in one
//! that runs.

use super::{Collected, Group, Results, Scene, TRUE, compare, rounds};
use crate::bench::measure::Measured;
use crate::bench::peers::Crun;
use crate::served::{self, Client, create, delete, path};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

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

/// What the server answers from what it knows: so much of a request is HTTP.
const QUESTION: &str = "(a question over HTTP)";
const READY_AND_BEGUN: &str = "(ready, and begun)";

/// Adds what takes as long as another, less the shortest question: what is asked of the
/// engine itself.
fn less_question(results: &mut Vec<Measured>, of: &str, name: &'static str) {
    let find = |name: &str| results.iter().find(|result| result.name == name);
    let times = |name: &str| match find(name).map(|result| &result.times) {
        Some(Ok(times)) => Ok(times),
        Some(Err(reason)) => Err(reason.clone()),
        None => Err("not measured".to_owned()),
    };
    let less = times(QUESTION).and_then(|question| Ok(times(of)?.less(question.min())));
    results.push(Measured { name, times: less });
}

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
        Ok(Made { ready_and_begun, http, question }) => {
            times.note(READY_AND_BEGUN, Ok(ready_and_begun));
            times.note("atoll over HTTP", Ok(http));
            times.note(QUESTION, Ok(question));
        }
        Err(error) => times.note(READY_AND_BEGUN, Err(error)),
    };
    let mut tcp = Client::connect(&scene.served.tcp()?)?;
    let mut by_tcp = |times: &mut Collected| {
        times.note("atoll over TCP, by key", create_one(&mut tcp).map(|made| made.http));
    };
    let mut results = rounds(count, &mut [&mut by_floor, &mut by_unix, &mut by_tcp])?;
    less_question(&mut results, READY_AND_BEGUN, "atoll inside the engine");
    let rules = vec![
        compare("create-engine-floor", "atoll inside the engine", "floor", 1.5),
        compare("create-http-floor", "atoll over HTTP", "floor", 2.5),
    ];
    Ok((results, rules))
}

/// How long it took until a command had begun in a new sandbox.
struct Made {
    /// By the sandbox's own timeline, and for the command over HTTP.
    ready_and_begun: Duration,
    http: Duration,
    question: Duration,
}

fn create_one(client: &mut Client) -> Result<Made> {
    let created = client.timed("POST", "/v1/sandboxes", Some(&json!({})))?;
    let sandbox = created.read()?;
    let command = json!({ "command": [TRUE] });
    let begun = client.timed("POST", &path(&sandbox, "/execs"), Some(&command))?;
    begun.read()?;
    let question = question(client, &sandbox)?;
    let timeline = &sandbox["timeline"];
    let ready = timeline["runtime_ready_us"].as_u64().context("it has a timeline")?;
    delete(client, &sandbox)?;
    let ready_and_begun = Duration::from_micros(ready) + begun.took;
    Ok(Made { ready_and_begun, http: created.took + begun.took, question })
}

/// How long it takes to ask the server something that it knows.
fn question(client: &mut Client, sandbox: &Value) -> Result<Duration> {
    Ok(client.timed("GET", &path(sandbox, ""), None)?.took)
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
        let ran = run(&mut unix, &sandbox, &of_static);
        times.note("atoll over HTTP, static", ran);
        let ran = run(&mut unix, &sandbox, &json!([TRUE]));
        times.note("atoll over HTTP, dynamic", ran);
        times.note(QUESTION, question(&mut unix, &sandbox));
    };
    let mut tcp = Client::connect(&scene.served.tcp()?)?;
    let mut by_tcp = |times: &mut Collected| {
        run(&mut tcp, &sandbox, &json!([TRUE])).ok();
        times.note("over TCP by key, dynamic", run(&mut tcp, &sandbox, &json!([TRUE])));
    };
    let crun = scene.crun();
    let mut by_crun = |times: &mut Collected| {
        let crun = crun.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
        let warm = |crun: &Crun| crun.exec(TRUE).and_then(|_| crun.exec(TRUE));
        times.note("crun exec, dynamic", crun.and_then(warm));
    };
    let mut results = rounds(count, &mut [&mut by_floor, &mut by_unix, &mut by_tcp, &mut by_crun])?;
    less_question(&mut results, "atoll over HTTP, static", "atoll, static");
    less_question(&mut results, "atoll over HTTP, dynamic", "atoll, dynamic");
    delete(&mut scene.served.client()?, &sandbox)?;
    let mut rules = vec![
        compare("exec-static-floor", "atoll, static", "floor, static", 1.5),
        compare("exec-dynamic-floor", "atoll, dynamic", "floor, dynamic", 1.5),
    ];
    // An ordinary user's crun would need a user namespace, and be another one.
    if rustix::process::geteuid().is_root() {
        rules.push(compare("exec-crun", "atoll, dynamic", "crun exec, dynamic", 0.1));
    }
    Ok((results, rules))
}

fn run(client: &mut Client, sandbox: &Value, command: &Value) -> Result<Duration> {
    served::run(client, sandbox, &json!({ "command": command })).map(|ran| ran.took)
}
