//! Many sandboxes: how fast they come, and what each takes while it idles.

use super::{Collected, Group, Results, Scene, TRUE, compare, rounds};
use crate::bench::area_run::bubblewrap;
use crate::bench::budget::{Memory, Rule, Source};
use crate::bench::kernel_memory::KernelMemory;
use crate::bench::peers::Bubble;
use crate::bench::process_memory;
use crate::bench::resident::Resident;
use crate::served::{Answer, Client, Served, create, delete, path};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

pub(super) const RATE: Group =
    Group { heading: "each of 64, 8 at once", budgets: &["create-rate-bubblewrap"], measure: rate };

pub(super) const MEMORY: Group =
    Group { heading: "", budgets: &["idle-process-memory", "idle-kernel-memory"], measure: memory };

const AT_ONCE: usize = 8;
const EACH: u32 = 8;
/// It takes long enough to need few of them.
const ROUNDS_MAX: u32 = 15;

/// Until something runs in it: a sandbox that is made has its first process.
fn rate(scene: &Scene, count: u32) -> Result<Results> {
    let bubblewrap = bubblewrap();
    let mut by_bubblewrap = |times: &mut Collected| {
        let mut places = vec![(); AT_ONCE];
        let one = |(): &mut ()| Bubble::start(&bubblewrap);
        times.note("bubblewrap", at_once(&mut places, one).map(|(took, _)| took));
    };
    let floors = (0..AT_ONCE).map(|_| scene.floor().map(|(floor, _)| floor));
    let mut floors: Vec<Resident> = floors.collect::<Result<_>>()?;
    let mut by_floor = |times: &mut Collected| {
        let made = at_once(&mut floors, |floor| floor.order("make"));
        times.note("floor", made.map(|(took, _)| took));
        floors.iter_mut().for_each(|floor| drop(floor.order("drop")));
    };
    let clients = (0..AT_ONCE).map(|_| scene.served.client());
    let mut clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let mut by_atoll = |times: &mut Collected| {
        let one = |client: &mut Client| client.timed("POST", "/v1/sandboxes", Some(&json!({})));
        times.note("atoll", made_and_deleted(scene, &mut clients, one));
    };
    let clients = (0..AT_ONCE).map(|_| scene.served.client());
    let mut clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let mut with_command = |times: &mut Collected| {
        let one = |client: &mut Client| {
            let created = client.timed("POST", "/v1/sandboxes", Some(&json!({})))?;
            let command = json!({ "command": [TRUE] });
            client.ask("POST", &path(&created.read()?, "/execs"), Some(&command))?;
            Ok(created)
        };
        times.note("atoll, command begun", made_and_deleted(scene, &mut clients, one));
    };
    let results = rounds(
        count.min(ROUNDS_MAX),
        &mut [&mut by_bubblewrap, &mut by_floor, &mut by_atoll, &mut with_command],
    )?;
    // Debian 12's is 0.8. Twice the rate takes half the time.
    Ok((results, vec![compare("create-rate-bubblewrap", "atoll", "bubblewrap", 0.5)]))
}

/// Has each of these make some, at once; gives the time for one, and all that were made.
fn at_once<T: Send, M: Send>(
    makers: &mut [T],
    make: impl Fn(&mut T) -> Result<M> + Sync,
) -> Result<(Duration, Vec<M>)> {
    let count = EACH * u32::try_from(makers.len())?;
    let begin = Instant::now();
    let made = std::thread::scope(|threads| {
        let makers: Vec<_> = makers
            .iter_mut()
            .map(|maker| threads.spawn(|| (0..EACH).map(|_| make(maker)).collect::<Vec<_>>()))
            .collect();
        let made = makers.into_iter().map(|maker| maker.join().expect("no thread panics"));
        made.collect::<Vec<_>>()
    });
    let took = begin.elapsed() / count;
    let made: Vec<M> = made.into_iter().flatten().collect::<Result<_>>()?;
    Ok((took, made))
}

fn made_and_deleted(
    scene: &Scene,
    clients: &mut [Client],
    make: impl Fn(&mut Client) -> Result<Answer> + Sync,
) -> Result<Duration> {
    let (took, created) = at_once(clients, make)?;
    for answer in &created {
        delete(&mut clients[0], &answer.read()?)?;
    }
    // Their directories go later, and are not for the next one to wait for.
    scene.served.wait_for_so_few(0)?;
    Ok(took)
}

/// Sandboxes that idle.
const IDLE: u32 = 50;
/// What each may take of the memory of processes.
const PROCESS_KIB_MAX: f64 = 1024.0;

fn memory(scene: &Scene, _: u32) -> Result<Results> {
    let measured = idle(scene).map_err(|error| format!("{error:#}"));
    let kernel = measured.clone().map(|(_, memory)| memory);
    let process = measured.map(|(ours_kib, _)| Memory { ours_kib, against_kib: PROCESS_KIB_MAX });
    let rules = vec![
        Rule { name: "idle-process-memory", limit: 1.0, source: Source::Memory(process) },
        Rule { name: "idle-kernel-memory", limit: 2.0, source: Source::Memory(kernel) },
    ];
    Ok((Vec::new(), rules))
}

/// Memory of processes for each idle sandbox, and of the kernel beside that of the floor.
fn idle(scene: &Scene) -> Result<(f64, Memory)> {
    // First processes of sandboxes are nobody's children but ours then.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let own = scene.folder.join("idle");
    fs::create_dir(&own)?;
    let kernel = KernelMemory::new("atoll-bench-server")?;
    let served = kernel.with(|| Served::start(&scene.atoll, &own, None))?;
    let mut client = served.client()?;
    // What the first ones bring about stays.
    let warm: Vec<Value> = (0..3).map(|_| create(&mut client)).collect::<Result<_>>()?;
    let before = (process_memory::kib()?, kernel.kib()?);
    for _ in 0..IDLE {
        create(&mut client)?;
    }
    let after = (process_memory::kib()?, kernel.kib()?);
    drop((warm, client, served));
    let (process, ours_kib) = (each(before.0, after.0), each(before.1, after.1));

    let kernel = KernelMemory::new("atoll-bench-floor")?;
    let (mut floor, _) = kernel.with(|| scene.floor())?;
    for _ in 0..3 {
        floor.order("make")?;
    }
    let before = kernel.kib()?;
    for _ in 0..IDLE {
        floor.order("make")?;
    }
    let against_kib = each(before, kernel.kib()?);
    drop(floor);
    Ok((process, Memory { ours_kib, against_kib }))
}

fn each(before: u64, after: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer KiB than 2^52")]
    let more = after.saturating_sub(before) as f64;
    more / f64::from(IDLE)
}
