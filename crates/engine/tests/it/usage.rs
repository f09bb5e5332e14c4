//! What sandboxes have used: added up over stops and servers, and there when they are gone.

use crate::support::{World, live, named};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::CreateSandbox;
use atoll_api::time::Timestamp;
use atoll_api::usage::{ListUsage, UsagePage, Used};
use atoll_egress::control::Counts;
use atoll_engine::Engine;
use atoll_engine::records::{Database, GONE_KEPT, LABELS_KEPT};
use atoll_engine::usage::{Tally, Wanted};
use std::collections::BTreeMap;
use std::time::Duration;

async fn used(engine: &Engine, id: SandboxId) -> Used {
    engine.usage(id).await.unwrap().used
}

fn of(key: &str, value: &str) -> ListUsage {
    let labels = [(key.to_owned(), value.to_owned())].into();
    ListUsage { labels, ..ListUsage::default() }
}

#[test]
fn processor_time_is_of_the_whole_life_and_never_counted_twice() {
    let world = World::new();
    let used_ms = |used: Used| used.cpu_us.map(|us| us / 1000);
    let mut id = None;
    live(async {
        let engine = world.start().await;
        let web = engine.create(named("web")).await.unwrap().id;
        id = Some(web);
        world.host.use_cpu(web, Duration::from_millis(300));
        assert_eq!(used_ms(used(&engine, web).await), Some(300));
        assert_eq!(used_ms(used(&engine, web).await), Some(300));
        // What was used since the last look is not lost with the processes.
        world.host.use_cpu(web, Duration::from_millis(20));
        engine.kill(web).await.unwrap();
        assert_eq!(used_ms(used(&engine, web).await), Some(320));
        engine.resume(web).await.unwrap();
        world.host.use_cpu(web, Duration::from_millis(400));
        assert_eq!(used_ms(used(&engine, web).await), Some(720));
        engine.shutdown().await;
    });
    let web = id.unwrap();
    // It goes on while no server runs, and the next one dies.
    world.host.use_cpu(web, Duration::from_millis(80));
    live(async {
        let engine = world.start().await;
        assert_eq!(used_ms(used(&engine, web).await), Some(800));
        engine.list_usage(&ListUsage::default()).await.unwrap();
    });
    live(async {
        let engine = world.start().await;
        assert_eq!(used_ms(used(&engine, web).await), Some(800));
        engine.delete(web).await.unwrap();
        world.settled(&engine).await;
        let usage = engine.usage(web).await.unwrap();
        assert_eq!((used_ms(usage.used), usage.deleted_at.is_some()), (Some(800), true));
        engine.shutdown().await;
    });
    // Its record is gone, and what it has used is not.
    live(async {
        let engine = world.start().await;
        assert!(engine.get(web).is_err());
        let usage = engine.usage(web).await.unwrap();
        assert_eq!((used_ms(usage.used), usage.name.unwrap().as_str()), (Some(800), "web"));
        assert!(usage.deleted_at.is_some() && usage.disk.is_none());
        let other = SandboxId::from_random([9; 10]);
        assert!(engine.usage(other).await.is_err());
    });
}

#[test]
fn memory_is_looked_at_while_it_is_held_and_files_when_somebody_asks() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let web = engine.create(named("web")).await.unwrap().id;
        let first = engine.usage(web).await.unwrap();
        assert_eq!(first.used.memory_mib_seconds, None);
        assert_eq!(first.disk.map(|disk| (disk.bytes, disk.is_complete)), Some((4096, true)));
        world.host.use_memory(web, 64 << 20);
        engine.usage(web).await.unwrap();
        world.clock.advance(Duration::from_secs(10));
        assert_eq!(used(&engine, web).await.memory_mib_seconds, Some(640));
        // Nobody asks, and it is looked at all the same.
        world.host.use_memory(web, 128 << 20);
        for seconds in [30, 30] {
            world.clock.awaited(Duration::from_secs(5)).await;
            world.clock.advance(Duration::from_secs(seconds));
        }
        let listed = async || {
            let page = engine.list_usage(&ListUsage::default()).await.unwrap();
            page.total.used.memory_mib_seconds.unwrap()
        };
        // 30 s of the mean of both, and 30 s of the second.
        while listed().await != 640 + 96 * 30 + 128 * 30 {
            tokio::task::yield_now().await;
        }
        engine.stop(web).await.unwrap();
        world.clock.advance(Duration::from_secs(1000));
        assert_eq!(used(&engine, web).await.memory_mib_seconds, Some(640 + 224 * 30));
        engine.shutdown().await;
    });
}

#[test]
fn totals_are_of_labels_and_do_not_vanish_with_sandboxes() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let mut ids = Vec::new();
        for (number, team) in ["red", "red", "blue"].into_iter().enumerate() {
            let labels = [("team".to_owned(), team.to_owned())].into();
            let wanted = CreateSandbox { labels, ..CreateSandbox::default() };
            ids.push(engine.create(wanted).await.unwrap().id);
            let more = Duration::from_millis(100 * (number as u64 + 1));
            world.host.use_cpu(ids[number], more);
        }
        engine.delete(ids[0]).await.unwrap();
        engine.kill(ids[1]).await.unwrap();
        engine.kill(ids[2]).await.unwrap();
        let red = engine.list_usage(&of("team", "red")).await.unwrap();
        assert_eq!((red.total.sandboxes, red.total.used.cpu_us), (2, Some(300_000)));
        let found: Vec<_> = red.sandboxes.iter().map(|usage| usage.sandbox_id).collect();
        assert_eq!((found.len(), found.contains(&ids[2])), (2, false));
        let none = engine.list_usage(&of("team", "green")).await.unwrap();
        assert_eq!((none.total.sandboxes, none.total.used.cpu_us), (0, None));
        // Page by page each is there once, with the same sum on all.
        let (mut wanted, mut seen) = (ListUsage { page_count: Some(1), ..ListUsage::default() }, 0);
        loop {
            let page: UsagePage = engine.list_usage(&wanted).await.unwrap();
            assert_eq!((page.total.sandboxes, page.sandboxes.len()), (3, 1));
            seen += 1;
            wanted.cursor = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(seen, 3);
        engine.shutdown().await;
    });
}

/// One that is gone.
fn gone(number: u32, labels: &[(&str, String)]) -> Tally {
    let [a, b, c, d] = number.to_be_bytes();
    let at = |seconds: u32| Timestamp::UNIX_EPOCH.after(Duration::from_secs(seconds.into()));
    Tally {
        id: SandboxId::from_random([0, 0, 0, 0, 0, 0, a, b, c, d]),
        name: None,
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        created_at: at(number),
        deleted_at: Some(at(number + 10)),
        cpu_us: Some(1),
        cpu_seen_us: 1,
        memory_byte_us: None,
        memory_seen: None,
        network: number.is_multiple_of(2).then(|| Counts { requests: 1, ..Counts::default() }),
    }
}

#[test]
fn those_that_are_long_gone_are_added_up_and_the_file_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("records.sqlite")).unwrap();
    let team = |team: &str| vec![("team", team.to_owned())];
    let all = GONE_KEPT + 100;
    let tallies: Vec<Tally> =
        (0..all).map(|n| gone(n, &team(if n % 4 == 0 { "red" } else { "blue" }))).collect();
    database.save_usage(&tallies, &[]).unwrap();
    let wanted = |labels: &[(&str, String)]| Wanted {
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        behind: None,
        count: 100_000,
    };
    let found = database.usage(&wanted(&[])).unwrap();
    assert_eq!(found.tallies.len(), GONE_KEPT as usize);
    // The first ones are known together only.
    assert_eq!(found.tallies[0], tallies[100]);
    assert_eq!((found.older.sandboxes, found.older.used.cpu_us), (100, Some(100)));
    assert_eq!((found.total.sandboxes, found.total.used.cpu_us), (all.into(), Some(all.into())));
    let requests = found.total.used.network.unwrap().requests;
    assert_eq!((requests, found.total.used.memory_mib_seconds), (u64::from(all) / 2, None));
    let red = database.usage(&wanted(&team("red"))).unwrap();
    assert_eq!((red.older.sandboxes, red.total.sandboxes), (25, u64::from(all) / 4));
    assert_eq!(database.usage_of(tallies[0].id).unwrap(), None);

    // Each with labels of its own: the last ones are added up without.
    let many = LABELS_KEPT + 50;
    let tallies: Vec<Tally> =
        (all..all + many).map(|n| gone(n, &[("job", n.to_string())])).collect();
    database.save_usage(&tallies, &[]).unwrap();
    let later: Vec<Tally> = (0..GONE_KEPT).map(|n| gone(all + many + n, &team("blue"))).collect();
    database.save_usage(&later, &[]).unwrap();
    let found = database.usage(&wanted(&[])).unwrap();
    assert_eq!(found.tallies.len(), GONE_KEPT as usize);
    let sum = u64::from(all + many + GONE_KEPT);
    assert_eq!((found.total.sandboxes, found.total.used.cpu_us), (sum, Some(sum)));
    let blue = database.usage(&wanted(&team("blue"))).unwrap();
    assert_eq!(blue.total.sandboxes, u64::from(all) * 3 / 4 + u64::from(GONE_KEPT));
    // Nothing is done twice.
    database.save_usage(&later, &[]).unwrap();
    assert_eq!(database.usage(&wanted(&[])).unwrap().total, found.total);
    let labels: BTreeMap<String, String> = BTreeMap::new();
    assert!(found.tallies.iter().all(|tally| tally.labels != labels));
}

#[test]
fn what_never_used_anything_and_is_gone_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("records.sqlite")).unwrap();
    let there = Tally { deleted_at: None, cpu_us: None, network: None, ..gone(1, &[]) };
    database.save_usage(std::slice::from_ref(&there), &[]).unwrap();
    assert_eq!(database.usage_of_all().unwrap(), std::slice::from_ref(&there));
    database.save_usage(&[Tally { deleted_at: Some(there.created_at), ..there }], &[]).unwrap();
    let found = database.usage(&Wanted { count: 9, ..Wanted::default() }).unwrap();
    assert_eq!((found.tallies.len(), found.total.sandboxes), (0, 0));
}
