//! What a command prints, read by a client as fast as it comes.

use super::{Collected, Group, Results, Scene, compare, rounds};
use crate::served::{Address, Client, create, delete, path};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const GROUP: Group =
    Group { heading: "1 GiB of output", budgets: &["stream-pipe"], measure: stream };

const GIB: u64 = 1 << 30;
/// What prints it, in pieces that fill a pipe.
const PRINTS: [&str; 5] = ["/bin/dd", "if=/dev/zero", "bs=64K", "count=16384", "status=none"];
/// A pipe of the usual size.
const PIPE: usize = 64 << 10;
/// It takes long enough to need few of them.
const ROUNDS_MAX: u32 = 7;

fn stream(scene: &Scene, count: u32) -> Result<Results> {
    let mut by_pipe = |times: &mut Collected| times.note("pipe of 64 KiB", pipe());
    let mut unix = scene.served.client()?;
    let sandbox = create(&mut unix)?;
    // Connections of their own: one that waits for long is ended.
    let mut by_unix =
        |times: &mut Collected| times.note("atoll", read(&scene.served.unix(), &sandbox));
    let tcp = scene.served.tcp()?;
    let mut by_tcp = |times: &mut Collected| times.note("atoll over TCP", read(&tcp, &sandbox));
    let results = rounds(count.min(ROUNDS_MAX), &mut [&mut by_pipe, &mut by_unix, &mut by_tcp])?;
    delete(&mut scene.served.client()?, &sandbox)?;
    // Half the rate takes twice the time.
    Ok((results, vec![compare("stream-pipe", "atoll", "pipe of 64 KiB", 2.0)]))
}

fn pipe() -> Result<Duration> {
    let mut command = Command::new(PRINTS[0]);
    command.args(&PRINTS[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn()?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let (mut buffer, mut length) = (vec![0; PIPE], 0);
    loop {
        match stdout.read(&mut buffer)? {
            0 => break,
            count => length += count as u64,
        }
    }
    child.wait()?;
    ensure!(length == GIB, "{length} bytes came");
    Ok(begin.elapsed())
}

fn read(address: &Address, sandbox: &Value) -> Result<Duration> {
    let mut client = Client::connect(address)?;
    let begin = Instant::now();
    let exec = client.ask("POST", &path(sandbox, "/execs"), Some(&json!({ "command": PRINTS })))?;
    let id = exec["id"].as_str().context("it has an id")?;
    let length = client.drain(&path(sandbox, &format!("/execs/{id}/stdout?follow=true")))?;
    ensure!(length == GIB, "{length} bytes came");
    Ok(begin.elapsed())
}
