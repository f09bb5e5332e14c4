//! A server that is killed in the midst of what it does, as often as one likes: what it has
//! said holds afterwards, and what it was asked for and has not said is there whole or not at
//! all. Its sandboxes are not killed, and go on.
//!
//! What may be there is known from what was asked and answered; after each cut, all of it is
//! looked at.

use crate::served::{Address, Client, Served, delete, delete_snapshot, path, pause, run, snapshot};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::Timespec;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

/// Snapshots beyond these are deleted, so that each cut is looked at in a moment.
const SNAPSHOTS_MAX: usize = 4;

/// How long what an earlier server had begun may take to end.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// As long as anything takes here, to begin with.
const FIRST_WINDOW: Duration = Duration::from_millis(40);

/// Files that never change, with their digests; and a number that does, in one step.
const FILL: &str = "for i in $(seq 200); do head -c 2000 /dev/urandom > file-$i; done; \
    sha256sum file-* > digests; echo 0 > number";
const LOOK: &str = "sha256sum --quiet -c digests && cat number";

/// The pool that some sandboxes come of.
const POOL: &str = "spare";

/// What is asked for while the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Write,
    Snapshot,
    Fork,
    Restore,
    Stop,
    DeleteSnapshot,
    Cycle,
    Claim,
}

const ACTS: [Act; 8] = [
    Act::Write,
    Act::Snapshot,
    Act::Fork,
    Act::Restore,
    Act::Stop,
    Act::DeleteSnapshot,
    Act::Cycle,
    Act::Claim,
];

/// A seed that nobody chose.
pub(super) fn any_seed() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Numbers that a seed gives again: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).expect("it is below a length")]
    }
}

/// What may be there.
struct Known {
    /// The sandbox whose state is at stake.
    main: Value,
    /// A snapshot of it can be taken while it runs.
    can_pause: bool,
    /// What its number may be; more than one if nobody was told how a change ended.
    numbers: BTreeSet<u64>,
    /// Snapshots, by id, with what their number may be.
    snapshots: BTreeMap<String, BTreeSet<u64>>,
    /// Written by a command of which nobody was told that it has ended: it may end later.
    late: Option<u64>,
    /// Deleted last, and told so.
    gone: Option<String>,
    /// Sandboxes that came of the pool.
    given: BTreeSet<String>,
    /// Written next.
    next: u64,
}

/// One request that may be cut off.
struct Attempt {
    act: Act,
    snapshot: Option<String>,
    number: u64,
}

/// Makes a sandbox and changes it while the server is killed so many times; then deletes
/// all that there is.
pub(super) fn cuts(served: &mut Served, count: u32, seed: u64) -> Result<String> {
    let begin = Instant::now();
    let mut random = Random(seed);
    let mut client = served.client()?;
    let main = client.ask("POST", "/v1/sandboxes", Some(&json!({ "name": "main" })))?;
    shell(&mut client, &main, FILL)?;
    // What the first one brings about stays.
    let capabilities = client.ask("GET", "/v1/capabilities", None)?;
    let can_pause = capabilities["flags"]["pause"] == true;
    let first = take_snapshot(&mut client, &main, can_pause)?;
    delete_snapshot(&mut client, &first)?;
    let (numbers, snapshots) = (BTreeSet::from([0]), BTreeMap::new());
    let pool = json!({ "name": POOL, "size": 2, "when_exhausted": "cold" });
    client.ask("POST", "/v1/pools", Some(&pool))?;
    let (late, gone, given, next) = (None, None, BTreeSet::new(), 1);
    let mut known = Known { main, can_pause, numbers, snapshots, late, gone, given, next };
    let mut windows: BTreeMap<Act, Duration> = BTreeMap::new();
    let (mut answered, mut unanswered) = (0, 0);
    for number in 0..count {
        let attempt = known.attempt(&mut random);
        let window = windows.entry(attempt.act).or_insert(FIRST_WINDOW);
        let window_us = u64::try_from(window.as_micros())?;
        let moment = Duration::from_micros(random.below(window_us * 3 / 2));
        let are_makers_cut = random.below(4) == 0;
        let answer = cut_off(served, &known, &attempt, moment, are_makers_cut)?;
        match &answer {
            Ok((_, took)) => {
                *window = *took;
                answered += 1;
            }
            Err(_) => unanswered += 1,
        }
        let told = answer.as_ref().map_err(ToString::to_string).map(|(told, _)| told);
        let told_text = format!("{told:?}");
        known.note(&attempt, told.ok());
        known.check(&mut served.client()?).with_context(|| {
            let Attempt { act, snapshot, .. } = &attempt;
            format!("cut {number}, {moment:?} after {act:?} of {snapshot:?}, answered {told_text}")
        })?;
    }
    let mut client = served.client()?;
    delete(&mut client, &known.main)?;
    for id in known.snapshots.keys() {
        delete_snapshot(&mut client, &json!({ "id": id }))?;
    }
    client.ask("DELETE", &format!("/v1/pools/{POOL}"), None)?;
    let took = begin.elapsed();
    Ok(format!("in {took:.0?}, after {answered} answers and before {unanswered}, lost nothing"))
}

/// Asks, and kills the server at that moment, whether it has answered or not. Gives what it
/// answered and when.
fn cut_off(
    served: &mut Served,
    known: &Known,
    attempt: &Attempt,
    moment: Duration,
    are_makers_cut: bool,
) -> Result<Result<(Value, Duration)>> {
    let address = served.unix();
    std::thread::scope(|threads| {
        let asked = threads.spawn(|| {
            let begin = Instant::now();
            known.ask(&address, attempt).map(|told| (told, begin.elapsed()))
        });
        let moment = Timespec::try_from(moment).context("it is short")?;
        rustix::event::poll(&mut [], Some(&moment))?;
        if are_makers_cut {
            served.cut_makers()?;
        }
        served.cut()?;
        Ok(asked.join().expect("no thread panics"))
    })
}

impl Known {
    fn attempt(&mut self, random: &mut Random) -> Attempt {
        let ids: Vec<&String> = self.snapshots.keys().collect();
        let act = match random.of(&ACTS) {
            Act::Fork | Act::Restore | Act::DeleteSnapshot if ids.is_empty() => Act::Snapshot,
            Act::Snapshot | Act::Stop if ids.len() >= SNAPSHOTS_MAX => Act::DeleteSnapshot,
            act => *act,
        };
        let of_snapshot = matches!(act, Act::Fork | Act::Restore | Act::DeleteSnapshot);
        let snapshot = of_snapshot.then(|| (*random.of(&ids)).clone());
        let number = self.next;
        self.next += 1;
        Attempt { act, snapshot, number }
    }

    fn ask(&self, address: &Address, attempt: &Attempt) -> Result<Value> {
        let mut client = Client::connect(address)?;
        let snapshot = attempt.snapshot.as_deref().unwrap_or_default();
        let of_main = |rest: &str| path(&self.main, rest);
        match attempt.act {
            Act::Write => {
                let number = attempt.number;
                let script = format!("echo {number} > number.new && mv number.new number");
                shell(&mut client, &self.main, &script).map(Value::from)
            }
            Act::Snapshot => take_snapshot(&mut client, &self.main, self.can_pause),
            Act::Fork => {
                let two = json!({ "count": 2 });
                client.ask("POST", &format!("/v1/snapshots/{snapshot}/fork"), Some(&two))
            }
            Act::Restore => {
                client.ask("POST", &of_main("/restore"), Some(&json!({ "snapshot": snapshot })))
            }
            Act::Stop => take_snapshot(&mut client, &self.main, false),
            Act::DeleteSnapshot => client.ask("DELETE", &format!("/v1/snapshots/{snapshot}"), None),
            Act::Claim => client.ask("POST", "/v1/sandboxes", Some(&json!({ "pool": POOL }))),
            Act::Cycle => {
                let made = client.ask("POST", "/v1/sandboxes", Some(&json!({})))?;
                client.ask("DELETE", &path(&made, ""), None)
            }
        }
    }

    /// Notes what may be there now.
    fn note(&mut self, attempt: &Attempt, told: Option<&Value>) {
        let snapshot = attempt.snapshot.clone().unwrap_or_default();
        match (attempt.act, told) {
            (Act::Write, Some(_)) => self.numbers = BTreeSet::from([attempt.number]),
            (Act::Write, None) => self.late = Some(attempt.number),
            (Act::Restore, Some(_)) => self.numbers = self.snapshots[&snapshot].clone(),
            (Act::Restore, None) => self.numbers.extend(self.snapshots[&snapshot].clone()),
            (Act::Snapshot | Act::Stop, Some(told)) => {
                let id = told["id"].as_str().unwrap_or_default().to_owned();
                self.snapshots.insert(id, self.numbers.clone());
            }
            (Act::DeleteSnapshot, told) => {
                // One that may be gone is known no more; if it is there, it is found again.
                self.snapshots.remove(&snapshot);
                self.gone = told.map(|_| snapshot);
            }
            _ => {}
        }
        self.numbers.extend(self.late);
    }

    /// Looks at everything.
    fn check(&mut self, client: &mut Client) -> Result<()> {
        self.check_main(client)?;
        self.check_snapshots(client)?;
        self.check_others(client)
    }

    fn check_main(&mut self, client: &mut Client) -> Result<()> {
        // A process that makes sandboxes and was killed takes along what it had half made: the
        // server may have seen it alive for the last time.
        let number = match self.look_at_main(client) {
            Err(error) if format!("{error:#}").contains("\"lost\"") => self.look_at_main(client)?,
            number => number?,
        };
        ensure!(self.numbers.contains(&number), "{number} is none of {:?}", self.numbers);
        self.numbers = [number].into_iter().chain(self.late.take()).collect();
        Ok(())
    }

    fn look_at_main(&self, client: &mut Client) -> Result<u64> {
        let until = Instant::now() + SETTLED_WITHIN;
        loop {
            let main = client.ask("GET", &path(&self.main, ""), None)?;
            match main["state"].as_str() {
                Some("running") => return look(client, &main),
                Some("stopped" | "paused") => {
                    client.ask("POST", &path(&main, "/resume"), None)?;
                }
                // What was begun is brought to an end.
                Some("stopping") if Instant::now() < until => pause()?,
                state => bail!("the sandbox is {state:?}: {main}"),
            }
        }
    }

    /// Those that were told of are there, and one that was not is as whole as they are.
    fn check_snapshots(&mut self, client: &mut Client) -> Result<()> {
        let listed = client.ask("GET", "/v1/snapshots?page_count=1000", None)?;
        let listed = listed["snapshots"].as_array().context("no list")?;
        let ids: BTreeSet<String> = listed
            .iter()
            .map(|one| one["id"].as_str().map(str::to_owned).context("no id"))
            .collect::<Result<_>>()?;
        let gone = self.gone.take().unwrap_or_default();
        ensure!(!ids.contains(&gone), "{gone} was deleted, and is there");
        for id in self.snapshots.keys() {
            ensure!(ids.contains(id), "{id} is gone");
        }
        for id in ids {
            let forked =
                client.ask("POST", &format!("/v1/snapshots/{id}/fork"), Some(&json!({})))?;
            let fork = &forked["forks"][0]["sandbox"];
            let number = look(client, fork).with_context(|| format!("snapshot {id}"))?;
            delete(client, fork)?;
            let may_be = self.snapshots.entry(id).or_insert_with(|| BTreeSet::from([number]));
            ensure!(may_be.contains(&number), "{number} is none of {may_be:?}");
            *may_be = BTreeSet::from([number]);
        }
        while self.snapshots.len() > SNAPSHOTS_MAX {
            let Some((id, _)) = self.snapshots.pop_first() else { break };
            delete_snapshot(client, &json!({ "id": id }))?;
        }
        Ok(())
    }

    /// Sandboxes that nobody was told of are whole too, and none of the pool is given twice.
    fn check_others(&mut self, client: &mut Client) -> Result<()> {
        let listed = client.ask("GET", "/v1/sandboxes?page_count=1000", None)?;
        for sandbox in listed["sandboxes"].as_array().context("no list")? {
            if sandbox["id"] == self.main["id"] {
                continue;
            }
            let state = sandbox["state"].as_str().unwrap_or_default();
            ensure!(
                ["running", "stopped", "stopping", "deleted"].contains(&state),
                "one is {state}: {sandbox}"
            );
            let id = sandbox["id"].as_str().unwrap_or_default().to_owned();
            if sandbox["pool"]["name"] == POOL && state == "running" {
                let left = shell(client, sandbox, "ls -A; touch mine")?;
                ensure!(left.is_empty(), "a member has what another one left: {left}");
            }
            ensure!(self.given.insert(id), "it was there before: {sandbox}");
            delete(client, sandbox)?;
        }
        Ok(())
    }
}

/// The number in a sandbox whose other files are what they were.
fn look(client: &mut Client, sandbox: &Value) -> Result<u64> {
    shell(client, sandbox, LOOK)?.trim().parse().context("it has a number")
}

/// Of one that runs, or of one that is stopped for it.
fn take_snapshot(client: &mut Client, sandbox: &Value, while_it_runs: bool) -> Result<Value> {
    if while_it_runs {
        return snapshot(client, sandbox);
    }
    client.ask("POST", &path(sandbox, "/kill"), None)?;
    let taken = snapshot(client, sandbox)?;
    client.ask("POST", &path(sandbox, "/resume"), None)?;
    Ok(taken)
}

/// What a script prints that succeeds.
fn shell(client: &mut Client, sandbox: &Value, script: &str) -> Result<String> {
    run(client, sandbox, &json!({ "shell": script })).map(|ran| ran.stdout().to_owned())
}
