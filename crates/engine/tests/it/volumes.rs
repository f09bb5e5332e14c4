//! Volumes on a machine in memory: who has which, what a death leaves, and what fails.

use crate::support::{World, live, named, state};
use atoll_api::error::{ErrorCode, Retry, TookEffect};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, EventKind, State};
use atoll_api::snapshot::CreateSnapshot;
use atoll_api::volume::{CreateVolume, ListVolumes, Volume, VolumeAccess, VolumeMount, VolumeRef};
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Fake, Host, Moment};
use atoll_engine::backend::{Backend as _, Capabilities, Processes};
use atoll_engine::error::{CreateError, VolumeError};

fn called(name: &str) -> VolumeRef {
    name.parse().unwrap()
}

async fn make(engine: &Engine, name: &str) -> Result<Volume, VolumeError> {
    let request = CreateVolume {
        name: name.parse().unwrap(),
        labels: [].into(),
        copy_of: None,
        is_read_only: false,
        limit_bytes: None,
        host_path: None,
    };
    engine.create_volume(request, "uid:0".to_owned()).await
}

async fn snapshot(engine: &Engine, of: &str, name: &str) -> Result<Volume, VolumeError> {
    let request = CreateVolume {
        name: name.parse().unwrap(),
        labels: [].into(),
        copy_of: Some(called(of)),
        is_read_only: true,
        limit_bytes: None,
        host_path: None,
    };
    engine.create_volume(request, "uid:0".to_owned()).await
}

async fn delete(engine: &Engine, name: &str) -> Result<(), VolumeError> {
    engine.delete_volume(called(name), "uid:0".to_owned()).await
}

fn names(engine: &Engine) -> Vec<String> {
    let page = engine.list_volumes(&ListVolumes::default()).unwrap();
    page.volumes.iter().map(|volume| volume.name.to_string()).collect()
}

/// A request for a sandbox with a volume.
fn with(name: &str, volume: &str, access: VolumeAccess) -> CreateSandbox {
    let mount = VolumeMount { volume: called(volume), path: "/data".to_owned(), access };
    CreateSandbox { volumes: vec![mount], ..named(name) }
}

async fn writer(engine: &Engine, name: &str) -> SandboxId {
    engine.create(with(name, "data", VolumeAccess::Writer)).await.unwrap().id
}

#[test]
fn a_second_writer_is_told_who_holds_it_and_leaves_nothing() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, "data").await.unwrap();
        assert_eq!(world.host.volumes(), [volume.id]);
        let first = writer(&engine, "one").await;
        let refused = engine.create(with("two", "data", VolumeAccess::Writer)).await.unwrap_err();
        let answer = refused.to_api();
        insta::assert_snapshot!(
            answer.message.replace(&first.to_string(), "ID"),
            @"volume data cannot be had as writer: sandbox one (ID) has it as writer"
        );
        assert_eq!((answer.code, answer.took_effect), (ErrorCode::Conflict, TookEffect::No));
        assert_eq!((answer.retry, answer.details.sandbox_id), (Retry::Safe, Some(first)));
        // Its name is free and nothing of it is on the host.
        world.nothing_is_left_behind(&engine);
        let reader = engine.create(with("two", "data", VolumeAccess::ReadOnly)).await.unwrap();
        assert_eq!(world.host.writers(volume.id), [first]);
        let shown = &reader.volumes[0];
        assert_eq!((shown.volume_id, shown.path.as_str()), (volume.id, "/data"));
        assert_eq!(shown.warning, None);
        // A sandbox that is there is given, though it holds what the request asks for.
        let got = engine.get_or_create(with("one", "data", VolumeAccess::Writer)).await.unwrap();
        assert_eq!((got.sandbox.id, got.is_new), (first, false));
        engine.shutdown().await;
    });
}

#[test]
fn one_that_was_stopped_lets_go_and_is_not_woken_beside_another_writer() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, "data").await.unwrap();
        let one = writer(&engine, "one").await;
        engine.pause(one).await.unwrap();
        // One that stands still goes on some time.
        assert!(engine.create(with("two", "data", VolumeAccess::Writer)).await.is_err());
        engine.stop(one).await.unwrap();
        let two = writer(&engine, "two").await;
        let refused = engine.resume(one).await.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::Conflict);
        assert!(refused.message.contains("has it as writer"), "{}", refused.message);
        assert_eq!(state(&engine, one), State::Stopped);
        // Ended by itself it lets go too.
        world.host.end(two);
        let mut view = engine.subscribe();
        while state(&engine, two) != State::Stopped {
            view.recv().await.unwrap();
        }
        engine.resume(one).await.unwrap();
        assert_eq!(world.host.writers(volume.id), [one]);
        engine.shutdown().await;
    });
}

#[test]
fn those_that_share_are_warned_in_the_answer_and_by_an_event() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, "data").await.unwrap();
        let shared = |name| with(name, "data", VolumeAccess::Shared);
        let one = engine.create(shared("one")).await.unwrap();
        assert!(one.volumes[0].warning.is_some());
        let two = engine.create(shared("two")).await.unwrap();
        let told = engine.events(0, 100).await.unwrap();
        let shared: Vec<_> = told
            .iter()
            .filter_map(|event| match &event.what {
                EventKind::VolumeShared { volume_id, with } => {
                    Some((event.sandbox_id, *volume_id, with.clone()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(shared, [(two.id, volume.id, vec![one.id])]);
        assert!(engine.create(with("three", "data", VolumeAccess::Writer)).await.is_err());
        engine.shutdown().await;
    });
}

#[test]
fn a_volume_goes_when_no_sandbox_has_it() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        let taken = make(&engine, "data").await.unwrap_err().to_api();
        assert_eq!(taken.code, ErrorCode::Conflict);
        let id = writer(&engine, "one").await;
        engine.stop(id).await.unwrap();
        let refused = delete(&engine, "data").await.unwrap_err().to_api();
        assert_eq!((refused.code, refused.details.sandbox_id), (ErrorCode::Conflict, Some(id)));
        let used = engine.get_volume(&called("data")).unwrap().used_by;
        assert_eq!((used.len(), used[0].is_held, used[0].sandbox_id), (1, false, id));
        engine.delete(id).await.unwrap();
        // Its files may be there still.
        delete(&engine, "data").await.unwrap();
        assert_eq!((names(&engine).len(), world.host.volumes().len()), (0, 0));
        let gone = delete(&engine, "data").await.unwrap_err().to_api();
        assert_eq!(gone.code, ErrorCode::NotFound);
        let missing = engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap_err();
        assert_eq!(missing.to_api().code, ErrorCode::Invalid);
        assert_eq!(missing.to_api().details.field.as_deref(), Some("volumes"));
        engine.shutdown().await;
    });
}

#[test]
fn one_volume_by_its_name_and_its_id_is_one() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, "data").await.unwrap();
        let mut request = with("one", "data", VolumeAccess::Writer);
        let (path, access) = ("/again".to_owned(), VolumeAccess::ReadOnly);
        request.volumes.push(VolumeMount { volume: VolumeRef::Id(volume.id), path, access });
        let refused = engine.create(request).await.unwrap_err();
        assert!(matches!(refused, CreateError::Volume(VolumeError::Twice { .. })), "{refused:?}");
        engine.shutdown().await;
    });
}

#[test]
fn a_host_that_fails_leaves_no_volume_and_no_claim() {
    for moment in [Moment::Before, Moment::After] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            world.host.fail(Call::CreateVolume, moment);
            let failed = make(&engine, "data").await.unwrap_err().to_api();
            assert_eq!((failed.code, failed.took_effect), (ErrorCode::Internal, TookEffect::No));
            assert_eq!((names(&engine).len(), world.host.volumes().len()), (0, 0));
            world.host.heal();
            make(&engine, "data").await.unwrap();
            // A sandbox that could not be made has let go of it.
            world.host.fail(Call::Start, moment);
            engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap_err();
            world.host.heal();
            let id = writer(&engine, "one").await;
            // And one that could not be started again.
            engine.stop(id).await.unwrap();
            world.host.fail(Call::Start, moment);
            engine.resume(id).await.unwrap_err();
            world.host.heal();
            writer(&engine, "two").await;
            engine.shutdown().await;
        });
    }
}

#[test]
fn one_that_cannot_be_killed_keeps_what_it_writes_to() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        let id = writer(&engine, "one").await;
        world.host.fail(Call::Kill, Moment::Before);
        engine.kill(id).await.unwrap_err();
        assert_eq!(state(&engine, id), State::Failed);
        assert!(engine.create(with("two", "data", VolumeAccess::Writer)).await.is_err());
        // Nor does its deletion let go before it is dead.
        engine.delete(id).await.unwrap();
        assert!(engine.create(with("two", "data", VolumeAccess::Writer)).await.is_err());
        world.host.heal();
        // It is tried again a while after it has failed, whenever that is.
        while !engine.get_volume(&called("data")).unwrap().used_by.is_empty() {
            world.clock.advance(std::time::Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        writer(&engine, "two").await;
        engine.shutdown().await;
    });
}

#[test]
fn a_fork_has_no_volume_unless_it_names_one() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        let id = writer(&engine, "one").await;
        let snapshot = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        let fork = CreateSandbox { snapshot: Some(snapshot), ..named("two") };
        assert_eq!(engine.create(fork).await.unwrap().volumes, []);
        let wanted = with("three", "data", VolumeAccess::ReadOnly);
        let fork = CreateSandbox { snapshot: Some(snapshot), ..wanted };
        assert_eq!(engine.create(fork).await.unwrap().volumes.len(), 1);
        engine.shutdown().await;
    });
}

#[test]
fn without_the_flag_no_sandbox_is_made() {
    let world = World::new();
    let can = Fake::on(&world.host).capabilities();
    live(async {
        let fake = Fake::on(&world.host).with(Capabilities { volumes: false, ..can });
        let engine = world.start_with(fake).await;
        make(&engine, "data").await.unwrap();
        let refused = engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap_err();
        let answer = refused.to_api();
        assert_eq!(answer.details.capability.as_deref(), Some("volumes"));
        engine.shutdown().await;
    });
}

#[test]
fn the_next_server_knows_who_has_what() {
    let world = World::new();
    let [runs, stopped] = live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        make(&engine, "more").await.unwrap();
        let stopped = writer(&engine, "stopped").await;
        engine.stop(stopped).await.unwrap();
        [writer(&engine, "runs").await, stopped]
    });
    live(async {
        let engine = world.start().await;
        assert_eq!(names(&engine), ["data", "more"]);
        assert_eq!(state(&engine, runs), State::Running);
        let mut used = engine.get_volume(&called("data")).unwrap().used_by;
        used.sort_by_key(|it| !it.is_held);
        let told: Vec<_> = used.iter().map(|it| (it.sandbox_id, it.is_held)).collect();
        assert_eq!(told, [(runs, true), (stopped, false)]);
        assert!(engine.create(with("new", "data", VolumeAccess::Writer)).await.is_err());
        assert!(engine.resume(stopped).await.is_err());
        engine.delete(runs).await.unwrap();
        engine.resume(stopped).await.unwrap();
        engine.shutdown().await;
    });
}

/// Lets a server die while it is at a moment of a call that `act` brings about.
fn dies_at<A>(world: &World, call: Call, moment: Moment, act: A)
where
    A: AsyncFnOnce(&Engine),
{
    let gate = live(async {
        let engine = world.start().await;
        make(&engine, "kept").await.unwrap();
        let gate = world.host.hold(call, moment);
        tokio::select! {
            () = act(&engine) => panic!("{call:?} does not come to {moment:?}"),
            () = gate.reached(1) => {}
        }
        gate
    });
    gate.caller_is_gone();
    world.host.heal();
}

fn only_kept(world: &World) {
    live(async {
        let engine = world.start().await;
        assert_eq!(names(&engine), ["kept"]);
        let kept = engine.get_volume(&called("kept")).unwrap().id;
        let host: &Host = &world.host;
        host.until(|host| host.volumes() == [kept]).await;
        make(&engine, "data").await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_death_in_the_midst_of_a_volume_leaves_none() {
    for moment in [Moment::Before, Moment::After] {
        let world = World::new();
        dies_at(&world, Call::CreateVolume, moment, async |engine| {
            make(engine, "data").await.unwrap();
        });
        only_kept(&world);
        let world = World::new();
        dies_at(&world, Call::RemoveVolume, moment, async |engine| {
            // Its removal is held, not its making.
            make(engine, "data").await.unwrap();
            delete(engine, "data").await.unwrap();
        });
        only_kept(&world);
    }
}

#[test]
fn who_goes_away_changes_nothing() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let gate = world.host.hold(Call::CreateVolume, Moment::Before);
        tokio::select! {
            _ = make(&engine, "data") => panic!("it is held"),
            () = gate.reached(1) => {}
        }
        assert_eq!(names(&engine), [""; 0]);
        gate.open();
        world.host.until(|host| host.volumes().len() == 1).await;
        // It is as if the caller had waited.
        while names(&engine).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(names(&engine), ["data"]);
        engine.shutdown().await;
    });
}

#[test]
fn who_writes_stands_still_for_a_copy_and_goes_on_whatever_comes_of_it() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, "data").await.unwrap();
        let shared = |name| with(name, "data", VolumeAccess::Shared);
        let writers = [
            engine.create(shared("one")).await.unwrap().id,
            engine.create(shared("two")).await.unwrap().id,
        ];
        let reader = engine.create(with("three", "data", VolumeAccess::ReadOnly)).await.unwrap().id;
        engine.pause(writers[1]).await.unwrap();
        let gate = world.host.hold(Call::CopyVolume, Moment::Before);
        let (copied, ()) = tokio::join!(snapshot(&engine, "data", "monday"), async {
            gate.reached(1).await;
            let states = writers.map(|id| world.host.processes(id));
            assert_eq!(states, [Processes::Frozen; 2]);
            assert_eq!(world.host.processes(reader), Processes::Running);
            // Nobody begins to write meanwhile, and it is not deleted; who reads may come.
            let refused = engine.create(shared("four")).await.unwrap_err().to_api();
            assert_eq!((refused.code, refused.took_effect), (ErrorCode::Conflict, TookEffect::No));
            assert!(matches!(refused.retry, Retry::After { .. }), "{refused:?}");
            engine.create(with("five", "data", VolumeAccess::ReadOnly)).await.unwrap();
            assert!(engine.get_volume(&called("monday")).is_err());
            gate.open();
        });
        let copied = copied.unwrap();
        assert!(copied.is_read_only);
        let how = copied.copied.unwrap();
        assert!(how.of == volume.id && how.frozen_us > 0, "{how:?}");
        assert_eq!(state(&engine, writers[0]), State::Running);
        // Who copies does not wait for that.
        world.host.until(|host| host.processes(writers[0]) == Processes::Running).await;
        // The one that was paused still is.
        assert_eq!(world.host.processes(writers[1]), Processes::Frozen);
        world.host.heal();
        let refused = engine.create(with("six", "monday", VolumeAccess::Writer)).await.unwrap_err();
        assert!(matches!(refused, CreateError::Volume(VolumeError::ReadOnly { .. })));
        engine.create(with("six", "monday", VolumeAccess::ReadOnly)).await.unwrap();
        // One that fails leaves nothing, and all go on.
        for (call, moment) in [
            (Call::CopyVolume, Moment::Before),
            (Call::CopyVolume, Moment::After),
            (Call::Freeze, Moment::Before),
            (Call::Freeze, Moment::After),
        ] {
            world.host.fail(call, moment);
            let failed = snapshot(&engine, "data", "failed").await.unwrap_err().to_api();
            assert_eq!(failed.took_effect, TookEffect::No, "{call:?} {moment:?}");
            world.host.heal();
            world.host.until(|host| host.processes(writers[0]) == Processes::Running).await;
            assert_eq!(names(&engine), ["data", "monday"]);
            assert_eq!(world.host.volumes().len(), 2);
        }
        engine.create(shared("four")).await.unwrap();
        let none = snapshot(&engine, "none", "failed").await.unwrap_err().to_api();
        assert_eq!(none.details.field.as_deref(), Some("copy_of"));
        engine.shutdown().await;
    });
}

#[test]
fn one_that_may_write_and_cannot_stand_still_keeps_the_volume_from_being_copied() {
    let world = World::new();
    let can = Fake::on(&world.host).capabilities();
    live(async {
        let fake = Fake::on(&world.host).with(Capabilities { pause: false, ..can });
        let engine = world.start_with(fake).await;
        make(&engine, "data").await.unwrap();
        let id = writer(&engine, "one").await;
        let refused = snapshot(&engine, "data", "monday").await.unwrap_err().to_api();
        assert_eq!(refused.details.capability.as_deref(), Some("pause"), "{refused:?}");
        engine.stop(id).await.unwrap();
        snapshot(&engine, "data", "monday").await.unwrap();
        engine.shutdown().await;
    });
    let world = World::new();
    live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        let id = writer(&engine, "one").await;
        world.host.fail(Call::Kill, Moment::Before);
        engine.kill(id).await.unwrap_err();
        let refused = snapshot(&engine, "data", "monday").await.unwrap_err().to_api();
        assert_eq!(refused.details.state, Some(State::Failed), "{refused:?}");
        engine.shutdown().await;
    });
}

#[test]
fn a_death_in_the_midst_of_a_copy_leaves_none_and_all_go_on() {
    for moment in [Moment::Before, Moment::After] {
        let world = World::new();
        dies_at(&world, Call::CopyVolume, moment, async |engine| {
            engine.create(with("one", "kept", VolumeAccess::Writer)).await.unwrap();
            snapshot(engine, "kept", "monday").await.unwrap();
        });
        let [id] = world.host.ids()[..] else { panic!("one sandbox") };
        assert_eq!(world.host.processes(id), Processes::Frozen);
        only_kept(&world);
        assert_eq!(world.host.processes(id), Processes::Running);
    }
}

#[test]
fn whoever_deletes_a_sandbox_may_take_copy_and_delete_what_it_wrote_to() {
    let world = World::new();
    world.host.end_slowly();
    live(async {
        let engine = world.start().await;
        make(&engine, "data").await.unwrap();
        let one = writer(&engine, "one").await;
        // What is left of it on the host is nothing to a volume.
        let gate = world.host.hold(Call::Remove, Moment::Before);
        engine.delete(one).await.unwrap();
        snapshot(&engine, "data", "monday").await.unwrap();
        let two = writer(&engine, "two").await;
        engine.delete(two).await.unwrap();
        delete(&engine, "data").await.unwrap();
        world.host.heal();
        gate.open();
        engine.shutdown().await;
    });
}

/// All that is exported, or where it breaks off.
async fn exported(engine: &Engine, name: &str) -> Result<Vec<u8>, std::io::Error> {
    let mut export = engine.export_volume(&called(name)).unwrap();
    let mut all = Vec::new();
    while let Some(piece) = export.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[test]
fn a_volume_is_exported_while_nobody_writes() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = make(&engine, "data").await.unwrap().id;
        let one = writer(&engine, "one").await;
        let refused = engine.export_volume(&called("data")).unwrap_err().to_api();
        assert_eq!((refused.code, refused.details.sandbox_id), (ErrorCode::Conflict, Some(one)));
        engine.stop(one).await.unwrap();
        let gate = world.host.hold(Call::ExportVolume, Moment::Before);
        let (all, ()) = tokio::join!(exported(&engine, "data"), async {
            gate.reached(1).await;
            let refused = engine.resume(one).await.unwrap_err().to_api();
            assert!(matches!(refused.retry, Retry::After { .. }), "{refused:?}");
            let refused = delete(&engine, "data").await.unwrap_err().to_api();
            assert_eq!(refused.code, ErrorCode::Conflict);
            gate.open();
        });
        assert_eq!(all.unwrap(), id.to_string().into_bytes());
        world.host.heal();
        // It is let go of a moment after the last piece.
        while engine.resume(one).await.is_err() {
            tokio::task::yield_now().await;
        }
        engine.stop(one).await.unwrap();
        // What breaks off is no archive that looks whole.
        world.host.fail(Call::ExportVolume, Moment::After);
        exported(&engine, "data").await.unwrap_err();
        world.host.heal();
        let none = engine.export_volume(&called("none")).unwrap_err().to_api();
        assert_eq!(none.code, ErrorCode::NotFound);
        // Who goes away gives it up.
        drop(engine.export_volume(&called("data")).unwrap());
        while engine.resume(one).await.is_err() {
            tokio::task::yield_now().await;
        }
        engine.shutdown().await;
    });
}
