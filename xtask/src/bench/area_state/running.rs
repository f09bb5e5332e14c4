//! A snapshot of a sandbox that runs, whose cost is to follow what changed: against tar, which
//! also has to look for that, and against the file system's own copy of a subvolume.

use super::{Collected, Group, Kind, Results, Scene, change, compare, fill, rounds, told};
use crate::process;
use crate::served::{Client, create, delete, delete_snapshot, snapshot};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) const COPY: Group = Group {
    heading: "snapshot while it runs, with 100 changed files",
    budgets: &["snapshot-copy-frozen", "snapshot-copy"],
    measure: copy,
};

pub(super) const SUBVOLUME: Group = Group {
    heading: "snapshot while it runs, with 100 changed files, on btrfs",
    budgets: &["snapshot-subvolume-frozen"],
    measure: subvolume,
};

const ROUNDS_MAX: u32 = 20;

const FROZEN: &str = "atoll, stood still";
const TOOK: &str = "atoll, all of it";
const TAR: &str = "tar of what changed";
const BTRFS: &str = "btrfs subvolume snapshot";

fn copy(scene: &Scene, count: u32) -> Result<Results> {
    let on = scene.served(Kind::Ext4)?;
    let mut client = on.served.client()?;
    let files = super::files(count);
    let mut ours = Ours::new(&mut client, files)?;
    let mut by_atoll = |times: &mut Collected| note(times, ours.once("copy"));
    let floor = on.disk.path().join("floor");
    fs::create_dir(&floor)?;
    plain_files(&floor.join("work"), 0..files)?;
    archive(&floor)?;
    let mut by_tar = |times: &mut Collected| {
        let once = || -> Result<Duration> {
            let step = usize::try_from(files / super::CHANGED)?;
            plain_files(&floor.join("work"), (0..files).step_by(step))?;
            archive(&floor)
        };
        times.note(TAR, once());
    };
    let results = rounds(count.min(ROUNDS_MAX), &mut [&mut by_atoll, &mut by_tar])?;
    let rules = vec![
        compare("snapshot-copy-frozen", FROZEN, TAR, 1.2),
        compare("snapshot-copy", TOOK, TAR, 1.2),
    ];
    Ok((results, rules))
}

fn subvolume(scene: &Scene, count: u32) -> Result<Results> {
    let on = scene.served(Kind::Btrfs)?;
    let mut client = on.served.client()?;
    let files = super::files(count);
    let mut ours = Ours::new(&mut client, files)?;
    let mut by_atoll = |times: &mut Collected| note(times, ours.once("subvolume"));
    let floor = on.disk.path().join("floor");
    let btrfs = |arguments: &[&str], path: &Path| {
        let mut command = Command::new("btrfs");
        process::output(command.arg("subvolume").args(arguments).arg(path)).map(drop)
    };
    btrfs(&["create"], &floor)?;
    plain_files(&floor.join("work"), 0..files)?;
    let taken = on.disk.path().join("taken");
    let mut by_btrfs = |times: &mut Collected| {
        let once = || -> Result<Duration> {
            let step = usize::try_from(files / super::CHANGED)?;
            plain_files(&floor.join("work"), (0..files).step_by(step))?;
            let begin = Instant::now();
            let from = floor.display().to_string();
            btrfs(&["snapshot", "-r", &from], &taken)?;
            let took = begin.elapsed();
            btrfs(&["delete"], &taken)?;
            Ok(took)
        };
        times.note(BTRFS, once());
    };
    let results = rounds(count.min(ROUNDS_MAX), &mut [&mut by_atoll, &mut by_btrfs])?;
    Ok((results, vec![compare("snapshot-subvolume-frozen", FROZEN, BTRFS, 1.2)]))
}

/// A sandbox that runs, of which snapshots are taken.
struct Ours<'a> {
    client: &'a mut Client,
    sandbox: Value,
    files: u32,
    /// The one before, which goes when the next is there.
    before: Value,
}

impl<'a> Ours<'a> {
    fn new(client: &'a mut Client, files: u32) -> Result<Self> {
        let sandbox = create(client)?;
        fill(client, &sandbox, "work", files)?;
        let before = snapshot(client, &sandbox)?;
        Ok(Self { client, sandbox, files, before })
    }

    /// How long it stood still, and how long all of it took.
    fn once(&mut self, way: &str) -> Result<(Duration, Duration)> {
        change(self.client, &self.sandbox, self.files)?;
        let begin = Instant::now();
        let taken = snapshot(self.client, &self.sandbox)?;
        let took = begin.elapsed();
        ensure!(taken["way"] == way, "it was taken in another way: {taken}");
        delete_snapshot(self.client, &self.before)?;
        let frozen = told(&taken, "frozen_us")?;
        self.before = taken;
        Ok((frozen, took))
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        delete(self.client, &self.sandbox).ok();
    }
}

fn note(times: &mut Collected, took: Result<(Duration, Duration)>) {
    match took {
        Ok((frozen, took)) => {
            times.note(FROZEN, Ok(frozen));
            times.note(TOOK, Ok(took));
        }
        Err(error) => times.note(FROZEN, Err(error)),
    }
}

/// Files as the sandbox has them, anew or for the first time.
fn plain_files(folder: &Path, numbers: impl Iterator<Item = u32>) -> Result<()> {
    for number in numbers {
        let folder = folder.join((number / 100).to_string());
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(number.to_string()), [0x5a; 1024])?;
    }
    Ok(())
}

/// What changed since the last time, to a file that is then on the disk.
fn archive(floor: &Path) -> Result<Duration> {
    let begin = Instant::now();
    let mut tar = Command::new("tar");
    tar.current_dir(floor).args(["--create", "--listed-incremental=state", "--file=out", "work"]);
    process::output(&mut tar)?;
    fs::File::open(floor.join("out"))?.sync_all()?;
    Ok(begin.elapsed())
}
