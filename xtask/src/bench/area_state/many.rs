//! Many sandboxes of one snapshot: what each takes is what one of the image takes, however
//! much is in the snapshot.

use super::{Group, Kind, On, Results, Scene, fill};
use crate::bench::budget::{Memory, Rule, Source};
use crate::bench::kernel_memory::KernelMemory;
use crate::bench::measure::{Measured, Times};
use crate::bench::process_memory;
use crate::served::{Client, create, delete, path, snapshot};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const GROUP: Group = Group {
    heading: "each of many sandboxes that idle",
    budgets: &["fork-many", "fork-process-memory", "fork-kernel-memory", "fork-disk"],
    measure,
};

const FORKS: u32 = 1000;
const FORKS_FOR_ONE_ROUND: u32 = 20;

/// Of the image, to hold the others against.
const PLAIN: u32 = 100;
const PLAIN_FOR_ONE_ROUND: u32 = 10;

/// What some sandboxes took, each of them.
struct Each {
    times: Vec<Duration>,
    process_kib: f64,
    kernel_kib: f64,
    disk_kib: f64,
}

fn measure(scene: &Scene, count: u32) -> Result<Results> {
    // First processes of sandboxes are nobody's children but ours then.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (forks, plain) = match count {
        1 => (FORKS_FOR_ONE_ROUND, PLAIN_FOR_ONE_ROUND),
        _ => (FORKS, PLAIN),
    };
    let kernel = KernelMemory::new("atoll-bench-state")?;
    let on = kernel.with(|| scene.served(Kind::Ext4))?;
    let mut client = on.served.client()?;
    let source = create(&mut client)?;
    fill(&mut client, &source, "work", super::files(count))?;
    client.ask("POST", &path(&source, "/stop"), Some(&json!({})))?;
    let taken = snapshot(&mut client, &source)?;
    let id = taken["id"].as_str().context("it has an id")?;
    let fork = format!("/v1/snapshots/{id}/fork");
    let of_image = each(&on, &kernel, plain, &mut client, "/v1/sandboxes")?;
    let of_snapshot = each(&on, &kernel, forks, &mut client, &fork)?;
    let compared = |name, limit, part: fn(&Each) -> f64| {
        let (ours_kib, against_kib) = (part(&of_snapshot), part(&of_image));
        Rule { name, limit, source: Source::Memory(Ok(Memory { ours_kib, against_kib })) }
    };
    let rules = vec![
        super::compare("fork-many", "fork", "create of the image", 1.5),
        compared("fork-process-memory", 1.2, |each| each.process_kib),
        compared("fork-kernel-memory", 1.5, |each| each.kernel_kib),
        compared("fork-disk", 1.2, |each| each.disk_kib),
    ];
    let results = vec![
        Measured { name: "fork", times: Ok(Times::from(of_snapshot.times)) },
        Measured { name: "create of the image", times: Ok(Times::from(of_image.times)) },
    ];
    Ok((results, rules))
}

/// Makes some, and deletes them when it is known what they take.
fn each(
    on: &On,
    kernel: &KernelMemory,
    count: u32,
    client: &mut Client,
    request: &str,
) -> Result<Each> {
    let now =
        || -> Result<[u64; 3]> { Ok([process_memory::kib()?, kernel.kib()?, on.disk.used_kib()?]) };
    // What the first ones bring about stays.
    let mut made: Vec<Value> = Vec::new();
    for _ in 0..3 {
        made.push(client.ask("POST", request, Some(&json!({})))?);
    }
    let before = now()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let answer = client.timed("POST", request, Some(&json!({})))?;
        made.push(answer.read()?);
        times.push(answer.took);
    }
    let after = now()?;
    for one in &made {
        let forked = &one["forks"][0]["sandbox"];
        let sandbox = if forked.is_object() { forked } else { one };
        delete(client, sandbox)?;
    }
    // The one that the snapshot is of stays.
    on.served.wait_for_so_few(1)?;
    let [process_kib, kernel_kib, disk_kib] = std::array::from_fn(|at| {
        #[expect(clippy::cast_precision_loss, reason = "far fewer KiB than 2^52")]
        let more = after[at].saturating_sub(before[at]) as f64;
        more / f64::from(count)
    });
    Ok(Each { times, process_kib, kernel_kib, disk_kib })
}
