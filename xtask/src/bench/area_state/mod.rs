//! The area of what a sandbox keeps: snapshots of many files, sandboxes of them, and what is
//! deleted, against what the file system itself and tar take.
//!
//! | budgets about | are in |
//! |---|---|
//! | a snapshot of a sandbox that is stopped, sandboxes of it, and deleting | [`stopped`] |
//! | a snapshot of a sandbox that runs | [`running`] |
//! | many sandboxes of one snapshot | [`many`] |
//! | the file systems that all of it lies on | [`disk`] |

mod disk;
mod many;
mod running;
mod stopped;

use super::build::Programs;
use super::group::{Collected, Results, compare, rounds};
use super::measure::{Measured, Times};
use crate::served::{Client, Served, run};
use anyhow::{Context as _, Result};
use disk::{Disk, Kind};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Group = super::group::Group<Scene>;

pub(super) const GROUPS: [Group; 4] =
    [stopped::GROUP, running::COPY, running::SUBVOLUME, many::GROUP];

/// How many files a workspace has that is called large.
const FILES: u32 = 50_000;
/// Fewer for who only wants to see that it can be measured.
const FILES_FOR_ONE_ROUND: u32 = 1_000;
/// How many of them are written between two snapshots.
const CHANGED: u32 = 100;

/// Where servers are to lie, and their program.
pub(super) struct Scene {
    atoll: PathBuf,
    scratch: PathBuf,
}

impl Scene {
    pub(super) fn new(programs: &Programs, scratch: &Path) -> Result<Self> {
        let scratch = scratch.join("state");
        fs::create_dir_all(&scratch)?;
        Ok(Self { atoll: programs.atoll.clone(), scratch })
    }

    /// A server whose state is on a file system of its own.
    fn served(&self, kind: Kind) -> Result<On> {
        let disk = Disk::new(&self.scratch, kind)?;
        let place = disk.path().join("server");
        fs::create_dir(&place)?;
        Ok(On { served: Served::start(&self.atoll, &place, None)?, disk })
    }
}

/// A server on a file system, which goes behind it.
struct On {
    served: Served,
    disk: Disk,
}

fn files(rounds: u32) -> u32 {
    if rounds > 1 { FILES } else { FILES_FOR_ONE_ROUND }
}

/// A time that something is to take, as a contestant.
fn fixed(name: &'static str, milliseconds: u64) -> Measured {
    Measured { name, times: Ok(Times::from(vec![Duration::from_millis(milliseconds)])) }
}

/// Makes files of 1 KiB below a directory in a sandbox's home, a hundred in each of its own.
fn fill(client: &mut Client, sandbox: &Value, top: &str, files: u32) -> Result<()> {
    let script = format!(
        "import os\n\
         for number in range({files}):\n\
         \x20   folder = f'{top}/{{number // 100}}'\n\
         \x20   if number % 100 == 0: os.makedirs(folder)\n\
         \x20   with open(f'{{folder}}/{{number}}', 'wb') as file: file.write(os.urandom(1024))\n"
    );
    python(client, sandbox, &script)
}

/// Writes to some of those below `work`, spread over all.
fn change(client: &mut Client, sandbox: &Value, files: u32) -> Result<()> {
    let step = files / CHANGED;
    let script = format!(
        "import os\n\
         for number in range(0, {files}, {step}):\n\
         \x20   with open(f'work/{{number // 100}}/{{number}}', 'wb') as file:\n\
         \x20       file.write(os.urandom(1024))\n"
    );
    python(client, sandbox, &script)
}

fn python(client: &mut Client, sandbox: &Value, script: &str) -> Result<()> {
    let request = json!({ "command": ["/usr/bin/python3", "-c", script] });
    run(client, sandbox, &request).map(drop)
}

/// One time that an answer tells of, by this name.
fn told(answer: &Value, name: &str) -> Result<Duration> {
    let time = answer[name].as_u64().with_context(|| format!("no {name}: {answer}"))?;
    Ok(Duration::from_micros(time))
}
