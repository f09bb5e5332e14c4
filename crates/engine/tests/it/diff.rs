//! What differs between snapshots, on a machine in memory.

use crate::support::{World, live, named};
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::{CreateSnapshot, DiffSnapshots, Difference, SnapshotDiff};
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Moment};

async fn snapshot(engine: &Engine, id: SandboxId) -> SnapshotId {
    engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id
}

fn with(with: SnapshotId) -> DiffSnapshots {
    DiffSnapshots { with: Some(with), limit: None }
}

fn told(found: &SnapshotDiff) -> Vec<String> {
    let line = |entry: &atoll_api::snapshot::DiffEntry| {
        let bytes = |side: &Option<atoll_api::snapshot::DiffSide>| {
            side.as_ref().map_or("-".to_owned(), |side| side.bytes.to_string())
        };
        let (before, after) = (bytes(&entry.before), bytes(&entry.after));
        format!("{} {} {before} {after}", entry.difference.as_str(), entry.path)
    };
    found.entries.iter().map(line).collect()
}

#[test]
fn a_snapshot_is_compared_with_the_one_before_or_with_any() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        engine.stop(id).await.unwrap();
        world.host.write(id, "/a", Some(1));
        world.host.write(id, "/b", Some(2));
        let first = snapshot(&engine, id).await;
        world.host.write(id, "/b", Some(3));
        world.host.write(id, "/a", None);
        let second = snapshot(&engine, id).await;
        world.host.write(id, "/c", Some(4));
        let third = snapshot(&engine, id).await;

        let ask = async |id, request| engine.diff_snapshots(id, request).await.unwrap();
        let of_first = ask(first, DiffSnapshots::default()).await;
        assert_eq!((of_first.snapshot_id, of_first.with_id), (first, None));
        assert_eq!(told(&of_first), ["added /a - 1", "added /b - 2"]);
        let of_second = ask(second, DiffSnapshots::default()).await;
        assert_eq!((of_second.with_id, of_second.is_cut), (Some(first), false));
        assert_eq!(told(&of_second), ["removed /a 1 -", "modified /b 2 3"]);
        assert_eq!(
            told(&ask(third, with(first)).await),
            ["removed /a 1 -", "modified /b 2 3", "added /c - 4"]
        );
        assert_eq!(
            told(&ask(first, with(third)).await),
            ["added /a - 1", "modified /b 3 2", "removed /c 4 -"]
        );
        assert_eq!(told(&ask(third, with(third)).await), [""; 0]);
        let some = ask(third, DiffSnapshots { limit: Some(1), ..with(first) }).await;
        assert_eq!((some.entries.len(), some.is_cut), (1, true));
        assert_eq!(some.entries[0].difference, Difference::Removed);
        // One that is gone leaves its place to its own.
        engine.delete_snapshot(second).await.unwrap();
        assert_eq!(ask(third, DiffSnapshots::default()).await.with_id, Some(first));
        engine.shutdown().await;
    });
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let image = "/an/image".to_owned();
        let other = engine.create(CreateSandbox { image, ..named("other") }).await.unwrap().id;
        let (first, other) = (snapshot(&engine, id).await, snapshot(&engine, other).await);
        let gone = SnapshotId::from_random([9; 10]);
        let refused = async |id, request| {
            let refused = engine.diff_snapshots(id, request).await.unwrap_err();
            (refused.to_api(), refused.to_string())
        };
        let (answer, text) = refused(first, with(other)).await;
        assert_eq!((answer.code, answer.took_effect), (ErrorCode::Conflict, TookEffect::No));
        assert!(text.contains("another image"), "{text}");
        for (id, request) in [(gone, DiffSnapshots::default()), (first, with(gone))] {
            let (answer, text) = refused(id, request).await;
            assert_eq!(answer.code, ErrorCode::NotFound);
            assert!(text.contains(&gone.to_string()), "{text}");
        }
        for limit in [0, 10_001] {
            let (answer, _) =
                refused(first, DiffSnapshots { with: None, limit: Some(limit) }).await;
            assert_eq!(answer.details.field.as_deref(), Some("limit"));
        }
        for moment in Moment::ALL {
            world.host.fail(Call::Diff, moment);
        }
        let (answer, _) = refused(first, DiffSnapshots::default()).await;
        assert_eq!((answer.code, answer.took_effect), (ErrorCode::Internal, TookEffect::No));
        world.host.heal();
        assert!(engine.diff_snapshots(first, DiffSnapshots::default()).await.is_ok());
        engine.shutdown().await;
    });
}

#[test]
fn one_that_is_deleted_meanwhile_is_not_half_told() {
    for moment in [Moment::Before, Moment::After] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            let id = engine.create(named("web")).await.unwrap().id;
            let first = snapshot(&engine, id).await;
            let second = snapshot(&engine, id).await;
            let held = world.host.hold(Call::Diff, moment);
            let (found, ()) = tokio::join!(engine.diff_snapshots(second, with(first)), async {
                held.reached(1).await;
                engine.delete_snapshot(first).await.unwrap();
                held.open();
            });
            let answer = found.unwrap_err().to_api();
            assert_eq!(answer.code, ErrorCode::NotFound, "{moment:?}");
            assert!(answer.message.contains(&first.to_string()), "{answer:?}");
            engine.shutdown().await;
        });
    }
}

#[test]
fn what_nobody_waits_for_is_given_up() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let first = snapshot(&engine, id).await;
        let held = world.host.hold(Call::Diff, Moment::Before);
        tokio::select! {
            found = engine.diff_snapshots(first, DiffSnapshots::default()) => panic!("{found:?}"),
            () = held.reached(1) => {}
        }
        held.open();
        world.host.until(|host| host.given_up() == 1).await;
        // And keeps nobody else from it.
        world.host.heal();
        engine.diff_snapshots(first, DiffSnapshots::default()).await.unwrap();
        engine.shutdown().await;
    });
}
