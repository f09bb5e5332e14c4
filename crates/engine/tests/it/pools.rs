//! Pools on a machine in memory: who gets a member, what it becomes, and what is left when something
//! fails.

use crate::support::{World, all, live, live_in_parallel, named, state};
use atoll_api::error::{ErrorCode, Retry};
use atoll_api::id::SandboxId;
use atoll_api::pool::{CreatePool, OfPool, Pool, SetPool, WhenExhausted};
use atoll_api::sandbox::{CreateSandbox, Env, Lifecycle, Limits, Sandbox, State};
use atoll_engine::backend::fake::{Call, Moment};
use atoll_engine::error::{CreateError, PoolError};
use atoll_engine::{Beside, Engine};
use atoll_testkit::stand_in::StandIn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A machine with guests, which note the variables that are set in them.
struct Site {
    world: World,
    done: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
        let done = Arc::default();
        let guest = StandIn { done: Some(Arc::clone(&done)), ..StandIn::default() };
        let path = folder.path().join("guest");
        guest.listen(&path);
        world.host.guests_at(path);
        Self { world, done, _folder: folder }
    }

    /// What was done since this was asked last.
    fn done(&self) -> Vec<String> {
        std::mem::take(&mut *self.done.lock().unwrap())
    }
}

fn wanted(size: u32) -> CreatePool {
    let name = "web".parse().unwrap();
    let (when_exhausted, sandbox) = (WhenExhausted::Refuse, CreateSandbox::default());
    CreatePool { name, size, refill_ms: 0, when_exhausted, sandbox }
}

fn cold(size: u32) -> CreatePool {
    CreatePool { when_exhausted: WhenExhausted::Cold, ..wanted(size) }
}

async fn make(engine: &Engine, wanted: CreatePool) -> Pool {
    engine.create_pool(wanted, "uid:0".to_owned()).await.unwrap()
}

fn of_pool(request: CreateSandbox) -> CreateSandbox {
    CreateSandbox { pool: Some("web".parse().unwrap()), ..request }
}

fn show(engine: &Engine) -> Pool {
    engine.get_pool(&"web".parse().unwrap()).unwrap()
}

/// Waits until the pool is like this, while time goes by.
async fn until(world: &World, engine: &Engine, is_it: impl Fn(&Pool) -> bool) -> Pool {
    loop {
        let pool = show(engine);
        if is_it(&pool) {
            return pool;
        }
        world.clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
}

async fn ready(world: &World, engine: &Engine, count: u32) {
    until(world, engine, |pool| pool.ready == count && pool.making == 0).await;
}

/// Waits until so many sandboxes are on the host, whoever knows them.
async fn there(world: &World, count: usize) -> Vec<SandboxId> {
    world.host.until(|host| host.ids().len() == count).await;
    world.host.ids()
}

fn warm(sandbox: &Sandbox) -> bool {
    sandbox.pool == Some(OfPool { name: "web".parse().unwrap(), cold_because: None })
}

fn cold_because(sandbox: &Sandbox) -> Option<&str> {
    sandbox.pool.as_ref().and_then(|pool| pool.cold_because.as_deref())
}

#[test]
fn a_member_becomes_what_the_request_says_and_the_pool_is_filled_again() {
    let site = Site::new();
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        let base = CreateSandbox {
            env: Env([("A".to_owned(), "pool".to_owned())].into()),
            labels: [("team".to_owned(), "red".to_owned())].into(),
            lifecycle: Lifecycle { idle_stop_ms: Some(1000), ..Lifecycle::default() },
            ..CreateSandbox::default()
        };
        make(&engine, CreatePool { sandbox: base, ..wanted(2) }).await;
        ready(world, &engine, 2).await;
        let members = world.host.ids();
        // Nobody finds them, and they have used nothing.
        assert!(all(&engine).is_empty());
        assert!(members.iter().all(|id| engine.get(*id).is_err()));
        assert!(engine.last_event().await.unwrap() == 0);
        let created = world.host.count(Call::Create);
        let request = CreateSandbox {
            env: Env([("B".to_owned(), "mine".to_owned())].into()),
            labels: [("n".to_owned(), "1".to_owned())].into(),
            lifecycle: Lifecycle { lease_ms: Some(60_000), ..Lifecycle::default() },
            ..named("one")
        };
        let one = engine.create(of_pool(request)).await.unwrap();
        assert!(members.contains(&one.id) && warm(&one), "{one:?}");
        assert_eq!((one.name.unwrap().as_str(), one.state), ("one", State::Running));
        let labels: Vec<_> = one.labels.into_iter().collect();
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(labels, [label("n", "1"), label("team", "red")]);
        assert_eq!(
            (one.lifecycle.lease_ms, one.lifecycle.idle_stop_ms),
            (Some(60_000), Some(1000))
        );
        assert_eq!(site.done(), ["bind A=pool", "bind B=mine"]);
        assert_eq!(all(&engine).len(), 1);
        ready(world, &engine, 2).await;
        assert_eq!(world.host.count(Call::Create), created + 1);
        assert_eq!(show(&engine).given, 1);
        // From here on it is a sandbox like every other one.
        engine.stop(one.id).await.unwrap();
        engine.resume(one.id).await.unwrap();
        engine.delete(one.id).await.unwrap();
        there(world, 2).await;
        engine.shutdown().await;
        assert!(world.host.ids().is_empty(), "{:?}", world.host.ids());
    });
}

#[test]
fn a_hundred_requests_get_a_hundred_sandboxes_and_none_gets_anothers() {
    let site = Site::new();
    let world = &site.world;
    live_in_parallel(async {
        let engine = Arc::new(world.start().await);
        make(&engine, cold(10)).await;
        ready(world, &engine, 10).await;
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..100 {
            let engine = engine.clone();
            asked.spawn(async move {
                let env = Env([("N".to_owned(), number.to_string())].into());
                let request = CreateSandbox { env, ..named(&format!("n{number}")) };
                engine.create(of_pool(request)).await.unwrap()
            });
        }
        let made = asked.join_all().await;
        let ids: std::collections::BTreeSet<_> = made.iter().map(|sandbox| sandbox.id).collect();
        assert_eq!(ids.len(), 100);
        let given = made.iter().filter(|sandbox| warm(sandbox)).count();
        assert!(given >= 10, "{given}");
        let is_exhausted = |sandbox: &&Sandbox| cold_because(sandbox) == Some("exhausted");
        assert_eq!(made.iter().filter(is_exhausted).count(), 100 - given);
        let pool = show(&engine);
        assert_eq!((pool.given, pool.missed), (given as u64, 100 - given as u64));
        // Each got its own variables once.
        let bound = site.done();
        assert_eq!(bound.len(), given);
        assert_eq!(bound.iter().collect::<std::collections::BTreeSet<_>>().len(), given);
        let Ok(engine) = Arc::try_unwrap(engine) else { panic!("somebody has it still") };
        engine.shutdown().await;
        assert_eq!(world.host.ids().len(), 100);
    });
}

#[test]
fn an_empty_pool_answers_at_once() {
    let site = Site::new();
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        let gate = world.host.hold(Call::Create, Moment::Before);
        make(&engine, wanted(1)).await;
        gate.reached(1).await;
        let refused = engine.create(of_pool(named("one"))).await.unwrap_err();
        let answer = refused.to_api();
        assert_eq!(answer.message, "no member of pool web is ready");
        assert_eq!(answer.code, ErrorCode::Capacity);
        assert!(matches!(answer.retry, Retry::After { .. }), "{answer:?}");
        assert_eq!(answer.details.limit.as_deref(), Some("pool.size"));
        assert!(engine.find(&"one".parse().unwrap()).is_none());
        world.host.heal();
        gate.open();
        ready(world, &engine, 1).await;
        assert!(warm(&engine.create(of_pool(named("one"))).await.unwrap()));
        engine.shutdown().await;
    });
}

#[test]
fn what_a_member_cannot_become_is_made_from_the_start() {
    let site = Site::new();
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        make(&engine, wanted(1)).await;
        ready(world, &engine, 1).await;
        let limits = Limits { pids: Some(100), ..Limits::default() };
        let one = engine.create(of_pool(CreateSandbox { limits, ..named("one") })).await.unwrap();
        assert_eq!(cold_because(&one), Some("limits"));
        assert_eq!((one.limits.pids, show(&engine).ready), (Some(100), 1));
        // A name that is taken takes no member either.
        let taken = engine.create(of_pool(named("one"))).await.unwrap_err();
        assert!(matches!(taken, CreateError::NameTaken { .. }), "{taken}");
        assert_eq!(show(&engine).ready, 1);
        let got = engine.get_or_create(of_pool(named("one"))).await.unwrap();
        assert_eq!((got.is_new, got.sandbox.id), (false, one.id));
        let got = engine.get_or_create(of_pool(named("two"))).await.unwrap();
        assert!(got.is_new && warm(&got.sandbox));
        let none = CreateSandbox { pool: Some("none".parse().unwrap()), ..named("three") };
        let refused = engine.create(none).await.unwrap_err().to_api();
        assert_eq!(
            (refused.code, refused.details.field.as_deref()),
            (ErrorCode::Invalid, Some("pool"))
        );
        let both = CreateSandbox { image: "debian".to_owned(), ..named("four") };
        let refused = engine.create(of_pool(both)).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("pool"));
        engine.shutdown().await;
    });
}

#[test]
fn members_take_places_and_no_pool_grows_beyond_them() {
    let mut site = Site::new();
    site.world.config.sandboxes_max = 3;
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        make(&engine, wanted(5)).await;
        let pool = until(world, &engine, |pool| pool.ready == 3 && pool.error.is_some()).await;
        assert!(pool.error.unwrap().contains("3 sandboxes, which is the most"));
        let refused = engine.create(named("one")).await.unwrap_err();
        assert!(matches!(refused, CreateError::Capacity { .. }), "{refused}");
        engine.create(of_pool(named("one"))).await.unwrap();
        let set = engine.set_pool(&"web".parse().unwrap(), SetPool { size: 1 }).await.unwrap();
        assert_eq!((set.size, set.ready), (1, 1));
        there(world, 2).await;
        // The place is free when nothing of it is left.
        while engine.create(named("two")).await.is_err() {
            tokio::task::yield_now().await;
        }
        engine.shutdown().await;
    });
}

#[test]
fn a_server_that_dies_leaves_pools_and_no_member() {
    let site = Site::new();
    let world = &site.world;
    let id = live(async {
        let engine = world.start().await;
        make(&engine, wanted(2)).await;
        ready(world, &engine, 2).await;
        let id = engine.create(of_pool(named("one"))).await.unwrap().id;
        ready(world, &engine, 2).await;
        // The server dies here.
        id
    });
    let before = world.host.ids();
    assert_eq!(before.len(), 3);
    live(async {
        let engine = world.start().await;
        assert_eq!(state(&engine, id), State::Running);
        assert!(warm(&engine.get(id).unwrap()));
        ready(world, &engine, 2).await;
        let after = there(world, 3).await;
        let kept: Vec<_> = after.iter().filter(|id| before.contains(id)).collect();
        assert_eq!(kept, [&id]);
        let name = "web".parse().unwrap();
        engine.delete_pool(&name, "uid:0".to_owned()).await.unwrap();
        there(world, 1).await;
        let gone = engine.delete_pool(&name, "uid:0".to_owned()).await.unwrap_err();
        assert!(matches!(gone, PoolError::NotFound { .. }));
        assert_eq!(state(&engine, id), State::Running);
        engine.shutdown().await;
        let engine = world.start().await;
        assert!(engine.pools().is_empty());
        engine.shutdown().await;
    });
}

#[test]
fn a_death_or_a_caller_that_goes_away_in_the_midst_of_a_request_leaves_nothing_of_it() {
    let site = Site::new();
    let world = &site.world;
    // Its workspace never comes.
    let request =
        || of_pool(CreateSandbox { labels: [("a".into(), "b".into())].into(), ..named("one") });
    let beside = || {
        let (archive, _other) = tokio::io::duplex(64);
        (Beside { archive: Some(Box::new(archive)), once: None }, _other)
    };
    let member = live(async {
        let engine = world.start().await;
        make(&engine, wanted(1)).await;
        for round in 0..2 {
            ready(world, &engine, 1).await;
            let [member] = world.host.ids()[..] else { panic!("{:?}", world.host.ids()) };
            let (beside, _other) = beside();
            let asked = std::pin::pin!(engine.create_with(request(), beside));
            let is_there = async {
                while engine.get(member).is_err() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                made = asked => panic!("{made:?}"),
                () = is_there => {}
            }
            assert_eq!(state(&engine, member), State::Creating);
            if round == 1 {
                // The server dies here.
                return member;
            }
            // Nobody waits for it any more.
            while engine.get(member).is_ok() || world.host.ids().contains(&member) {
                world.clock.advance(Duration::from_millis(10));
                tokio::task::yield_now().await;
            }
        }
        unreachable!("it dies in the second round")
    });
    live(async {
        let engine = world.start().await;
        ready(world, &engine, 1).await;
        let there = there(world, 1).await;
        assert!(!there.contains(&member) && all(&engine).is_empty());
        engine.shutdown().await;
    });
}

#[test]
fn a_host_that_fails_is_tried_less_and_less_often_and_leaves_nothing() {
    for (call, moment) in [
        (Call::Create, Moment::Before),
        (Call::Create, Moment::Midway),
        (Call::Create, Moment::After),
        (Call::Start, Moment::Before),
        (Call::Start, Moment::Midway),
        (Call::Start, Moment::After),
    ] {
        let site = Site::new();
        let world = &site.world;
        live(async {
            let engine = world.start().await;
            world.host.fail(call, moment);
            make(&engine, cold(1)).await;
            let pool = until(world, &engine, |pool| pool.error.is_some() && pool.making == 0).await;
            assert_eq!(pool.ready, 0);
            there(world, 0).await;
            world.host.heal();
            ready(world, &engine, 1).await;
            assert_eq!(show(&engine).error, None);
            engine.create(of_pool(named("one"))).await.unwrap();
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_member_that_ends_by_itself_is_replaced() {
    let site = Site::new();
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        make(&engine, wanted(1)).await;
        ready(world, &engine, 1).await;
        let [id] = world.host.ids()[..] else { panic!("one member") };
        world.host.end(id);
        loop {
            ready(world, &engine, 1).await;
            let ids = there(world, 1).await;
            if ids != [id] {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert!(warm(&engine.create(of_pool(named("one"))).await.unwrap()));
        engine.shutdown().await;
    });
}

#[test]
fn one_that_ends_while_it_is_given_keeps_no_name_and_no_place() {
    let mut site = Site::new();
    site.world.config.sandboxes_max = 2;
    let world = &site.world;
    live_in_parallel(async {
        let engine = world.start().await;
        make(&engine, cold(1)).await;
        for _ in 0..100 {
            ready(world, &engine, 1).await;
            for id in world.host.ids() {
                world.host.end(id);
            }
            match engine.create(of_pool(named("one"))).await {
                Ok(made) => drop(engine.delete(made.id).await.unwrap()),
                Err(CreateError::Cancelled { .. } | CreateError::Capacity { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
            assert!(engine.find(&"one".parse().unwrap()).is_none());
        }
        engine.delete_pool(&"web".parse().unwrap(), "uid:0".to_owned()).await.unwrap();
        there(world, 0).await;
        for name in ["one", "two"] {
            while let Err(error) = engine.create(named(name)).await {
                assert!(matches!(error, CreateError::Capacity { .. }), "{error:?}");
                tokio::task::yield_now().await;
            }
        }
        engine.shutdown().await;
    });
}

#[test]
fn what_a_member_used_while_it_waited_is_nobodys() {
    let site = Site::new();
    let world = &site.world;
    live(async {
        let engine = world.start().await;
        make(&engine, wanted(1)).await;
        ready(world, &engine, 1).await;
        let [id] = world.host.ids()[..] else { panic!("one member") };
        world.host.use_cpu(id, Duration::from_secs(100));
        assert_eq!(engine.create(of_pool(named("one"))).await.unwrap().id, id);
        world.host.use_cpu(id, Duration::from_secs(2));
        assert_eq!(engine.usage(id).await.unwrap().used.cpu_us, Some(2_000_000));
        engine.shutdown().await;
    });
}

#[test]
fn a_pool_that_could_have_no_member_is_refused() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let template =
            CreateSandbox { template: Some("none".parse().unwrap()), ..Default::default() };
        let refused = engine
            .create_pool(CreatePool { sandbox: template, ..wanted(1) }, "uid:0".to_owned())
            .await
            .unwrap_err()
            .to_api();
        assert_eq!(refused.details.field.as_deref(), Some("sandbox.template"));
        assert!(refused.message.contains("there is no template none"), "{refused:?}");
        make(&engine, wanted(1)).await;
        let taken = engine.create_pool(wanted(1), "uid:0".to_owned()).await.unwrap_err();
        assert_eq!(taken.to_api().code, ErrorCode::Conflict);
        engine.shutdown().await;
    });
}
