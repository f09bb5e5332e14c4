//! Budgets: what is used up stops what uses it, and does not start again before there is more.

use crate::support::{World, live, named, state, told};
use atoll_api::budget::{Budget, BudgetPeriod};
use atoll_api::error::{ErrorCode, Retry};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, EventKind, Limits, State};
use atoll_api::snapshot::CreateSnapshot;
use atoll_engine::Engine;
use atoll_engine::backend::Backend as _;
use atoll_engine::backend::fake::Fake;
use atoll_engine::budgets::Rule;
use atoll_engine::error::{CreateError, OperationError};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn cpu(seconds: u64) -> Budget {
    Budget { cpu_us: Some(seconds * 1_000_000), ..Budget::default() }
}

fn with_budget(name: &str, budget: Budget) -> CreateSandbox {
    CreateSandbox { budget, ..named(name) }
}

/// Of a team, which has a budget together.
fn of_team(name: &str, team: &str) -> CreateSandbox {
    let labels = [("team".to_owned(), team.to_owned())].into();
    CreateSandbox { labels, ..named(name) }
}

fn for_red(budget: Budget, period: Option<BudgetPeriod>) -> World {
    let labels = [("team".to_owned(), "red".to_owned())].into();
    let rule = Rule { name: "reds".to_owned(), labels, period, budget };
    let mut world = World::new();
    world.config.budgets = vec![rule];
    world
}

/// Waits until it is stopped, for its budget.
async fn stopped(engine: &Engine, id: SandboxId) -> String {
    let mut events = engine.subscribe();
    if state(engine, id) != State::Stopped {
        told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. })).await;
    }
    engine.get(id).unwrap().cause.unwrap()
}

/// Has what it uses looked at.
async fn look(engine: &Engine, id: SandboxId) {
    engine.usage(id).await.unwrap();
}

#[test]
fn one_that_used_up_its_own_is_stopped_and_starts_when_it_has_more() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_budget("web", cpu(10))).await.unwrap().id;
        world.host.use_cpu(id, 9 * SECOND);
        look(&engine, id).await;
        assert_eq!(state(&engine, id), State::Running);
        world.host.use_cpu(id, SECOND);
        look(&engine, id).await;
        let cause = stopped(&engine, id).await;
        assert_eq!(cause, "its budget is used up: cpu_us is 10000000, of 10000000");
        let error = engine.resume(id).await.unwrap_err();
        assert!(matches!(error, OperationError::Spent { .. }), "{error}");
        let answer = error.to_api();
        assert_eq!((answer.code, answer.retry), (ErrorCode::Capacity, Retry::Unsafe));
        assert_eq!(answer.details.limit.as_deref(), Some("budget.cpu_us"));
        assert_eq!(answer.details.limit_value, Some(10_000_000));
        assert_eq!(answer.details.sandbox_id, Some(id));
        engine.set_budget(id, cpu(12)).await.unwrap();
        let sandbox = engine.resume(id).await.unwrap();
        assert_eq!((sandbox.state, sandbox.budget), (State::Running, cpu(12)));
        // What it had used counts on.
        world.host.use_cpu(id, 2 * SECOND);
        look(&engine, id).await;
        stopped(&engine, id).await;
        // Without a budget there is no end.
        engine.set_budget(id, Budget::default()).await.unwrap();
        engine.resume(id).await.unwrap();
        world.host.use_cpu(id, 1000 * SECOND);
        look(&engine, id).await;
        assert_eq!(state(&engine, id), State::Running);
    });
}

#[test]
fn a_smaller_budget_stops_at_once_also_what_is_paused() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        world.host.use_cpu(id, 5 * SECOND);
        look(&engine, id).await;
        engine.pause(id).await.unwrap();
        engine.set_budget(id, cpu(5)).await.unwrap();
        stopped(&engine, id).await;
        assert_eq!(world.host.leaks(&[id]), [""; 0]);
    });
}

#[test]
fn memory_counts_over_time_and_has_to_be_limited() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let budget = Budget { memory_mib_seconds: Some(640), ..Budget::default() };
        let error = engine.create(with_budget("web", budget)).await.unwrap_err();
        let answer = error.to_api();
        assert_eq!(answer.code, ErrorCode::Invalid);
        assert_eq!(answer.details.field.as_deref(), Some("limits.memory_bytes"));
        let limits = Limits { memory_bytes: Some(128 << 20), ..Limits::default() };
        let request = CreateSandbox { limits, ..with_budget("web", budget) };
        let id = engine.create(request).await.unwrap().id;
        world.host.use_memory(id, 64 << 20);
        look(&engine, id).await;
        world.clock.advance(Duration::from_secs(9));
        look(&engine, id).await;
        assert_eq!(state(&engine, id), State::Running);
        world.clock.advance(2 * SECOND);
        look(&engine, id).await;
        let cause = stopped(&engine, id).await;
        assert!(cause.contains("memory_mib_seconds is 7"), "{cause}");
    });
}

#[test]
fn a_budget_that_is_shared_stops_all_who_have_it_and_nobody_else_starts() {
    let world = for_red(cpu(10), None);
    live(async {
        let engine = world.start().await;
        let one = engine.create(of_team("one", "red")).await.unwrap().id;
        let two = engine.create(of_team("two", "red")).await.unwrap().id;
        let blue = engine.create(of_team("three", "blue")).await.unwrap().id;
        for id in [one, two, blue] {
            world.host.use_cpu(id, 6 * SECOND);
            look(&engine, id).await;
        }
        for id in [one, two] {
            let cause = stopped(&engine, id).await;
            assert_eq!(cause, "the budget reds is used up: cpu_us is 12000000, of 10000000");
        }
        assert_eq!(state(&engine, blue), State::Running);
        let error = engine.create(of_team("four", "red")).await.unwrap_err();
        assert!(matches!(error, CreateError::Spent(_)), "{error}");
        let answer = error.to_api();
        assert_eq!((answer.code, answer.retry), (ErrorCode::Capacity, Retry::Unsafe));
        assert_eq!(answer.details.budget.as_deref(), Some("reds"));
        engine.create(of_team("four", "blue")).await.unwrap();
        let [shown] = &engine.budgets().budgets[..] else { panic!("there is one") };
        assert_eq!(shown.used.cpu_us, Some(12_000_000));
        assert_eq!(shown.overdrawn.as_deref(), Some("cpu_us"));
        // A larger one of its own does not help.
        engine.set_budget(one, cpu(1000)).await.unwrap();
        assert!(engine.resume(one).await.is_err());
    });
}

#[test]
fn what_was_drawn_is_kept_by_the_next_server_until_the_period_is_over() {
    let world = for_red(cpu(10), Some(BudgetPeriod::Day));
    let id = live(async {
        let engine = world.start().await;
        let id = engine.create(of_team("one", "red")).await.unwrap().id;
        world.host.use_cpu(id, 10 * SECOND);
        look(&engine, id).await;
        stopped(&engine, id).await;
        engine.shutdown().await;
        id
    });
    live(async {
        let engine = world.start().await;
        let answer = engine.resume(id).await.unwrap_err().to_api();
        let Retry::After { after_ms } = answer.retry else { panic!("{answer:?}") };
        assert!((1..=86_400_000).contains(&after_ms), "{after_ms}");
        world.clock.advance(Duration::from_millis(after_ms));
        engine.resume(id).await.unwrap();
        assert_eq!(engine.budgets().budgets[0].used.cpu_us.unwrap_or(0), 0);
        engine.shutdown().await;
    });
}

#[test]
fn one_that_begins_with_a_snapshot_has_as_much_anew() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_budget("web", cpu(10))).await.unwrap().id;
        world.host.use_cpu(id, 9 * SECOND);
        look(&engine, id).await;
        let snapshot = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        let begun = CreateSandbox { snapshot: Some(snapshot), ..CreateSandbox::default() };
        let fork = engine.create(begun).await.unwrap();
        assert_eq!(fork.budget, cpu(10));
        world.host.use_cpu(fork.id, 9 * SECOND);
        look(&engine, fork.id).await;
        assert_eq!(state(&engine, fork.id), State::Running);
    });
}

#[test]
fn a_budget_of_what_the_host_does_not_count_is_refused() {
    let world = World::new();
    live(async {
        let fake = Fake::on(&world.host);
        let mut can = fake.capabilities();
        can.measure_cpu = false;
        let engine = world.start_with(fake.with(can)).await;
        let answer = engine.create(with_budget("web", cpu(1))).await.unwrap_err().to_api();
        assert_eq!(answer.code, ErrorCode::UnsupportedByTier);
        assert_eq!(answer.details.capability.as_deref(), Some("measure_cpu"));
        let id = engine.create(named("web")).await.unwrap().id;
        let answer = engine.set_budget(id, cpu(1)).await.unwrap_err().to_api();
        assert_eq!(answer.details.capability.as_deref(), Some("measure_cpu"));
    });
}
