//! How much may lie on a volume, and folders of the host, on a machine in memory.

use crate::support::{World, live, named, state, told};
use atoll_api::error::{ErrorCode, Retry};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, EventKind, State};
use atoll_api::volume::{
    CreateVolume, ListVolumes, SetVolumeLimit, Volume, VolumeAccess, VolumeLimit, VolumeLimitBy,
    VolumeMount,
};
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Moment};
use atoll_engine::error::VolumeError;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn wanted(name: &str) -> CreateVolume {
    CreateVolume {
        name: name.parse().unwrap(),
        labels: [].into(),
        copy_of: None,
        is_read_only: false,
        limit_bytes: None,
        host_path: None,
    }
}

fn limited(name: &str, bytes: u64) -> CreateVolume {
    CreateVolume { limit_bytes: Some(bytes), ..wanted(name) }
}

fn folder(name: &str, path: &str) -> CreateVolume {
    CreateVolume { host_path: Some(path.to_owned()), ..wanted(name) }
}

async fn make(engine: &Engine, wanted: CreateVolume) -> Result<Volume, VolumeError> {
    engine.create_volume(wanted, "uid:0".to_owned()).await
}

async fn set(engine: &Engine, name: &str, bytes: Option<u64>) -> Result<Volume, VolumeError> {
    let (volume, by) = (name.parse().unwrap(), "uid:0".to_owned());
    engine.set_volume_limit(volume, SetVolumeLimit { bytes }, by).await
}

async fn delete(engine: &Engine, name: &str) -> Result<(), VolumeError> {
    engine.delete_volume(name.parse().unwrap(), "uid:0".to_owned()).await
}

fn show(engine: &Engine, name: &str) -> Volume {
    engine.get_volume(&name.parse().unwrap()).unwrap()
}

fn with(name: &str, volume: &str, access: VolumeAccess) -> CreateSandbox {
    let (volume, path) = (volume.parse().unwrap(), "/data".to_owned());
    CreateSandbox { volumes: vec![VolumeMount { volume, path, access }], ..named(name) }
}

/// Lets the time go by until a sandbox is stopped; says why.
async fn stopped(world: &World, engine: &Engine, id: SandboxId) -> String {
    let mut events = engine.subscribe();
    let is_told = told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. }));
    let mut is_told = std::pin::pin!(is_told);
    loop {
        if state(engine, id) == State::Stopped {
            return engine.get(id).unwrap().cause.unwrap();
        }
        world.clock.advance(Duration::from_secs(1));
        tokio::select! {
            _ = &mut is_told => return engine.get(id).unwrap().cause.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    }
}

#[test]
fn who_writes_to_a_full_volume_is_stopped_and_none_begins_to_before_there_is_room() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, limited("data", 10 * MIB)).await.unwrap();
        let limit = VolumeLimit { bytes: 10 * MIB, enforced_by: VolumeLimitBy::Measurement };
        assert_eq!((volume.limit, volume.used_bytes), (Some(limit), Some(0)));
        let writer = engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap().id;
        let reader = engine.create(with("two", "data", VolumeAccess::ReadOnly)).await.unwrap().id;
        let other = engine.create(named("three")).await.unwrap().id;
        world.host.fill_volume(volume.id, 10 * MIB + 1);
        let cause = stopped(&world, &engine, writer).await;
        assert_eq!(cause, "volume data is full: it takes 10485761 of at most 10485760 bytes");
        for id in [reader, other] {
            assert_eq!(state(&engine, id), State::Running);
        }
        let refused = engine.resume(writer).await.unwrap_err().to_api();
        assert_eq!((refused.code, refused.retry), (ErrorCode::Capacity, Retry::Unsafe));
        assert_eq!(refused.details.limit.as_deref(), Some("limit_bytes"));
        assert_eq!(refused.details.limit_value, Some(10 * MIB));
        let refused = engine.create(with("four", "data", VolumeAccess::Shared)).await.unwrap_err();
        assert_eq!(refused.to_api().code, ErrorCode::Capacity);
        // No less than what lies there, and then there is room.
        let refused = set(&engine, "data", Some(5 * MIB)).await.unwrap_err();
        assert!(matches!(refused, VolumeError::Full(_)), "{refused}");
        assert_eq!(show(&engine, "data").limit, Some(limit));
        let raised = set(&engine, "data", Some(20 * MIB)).await.unwrap();
        assert_eq!(raised.limit.unwrap().bytes, 20 * MIB);
        assert_eq!(raised.used_bytes, Some(10 * MIB + 1));
        engine.resume(writer).await.unwrap();
        // Without a limit nothing is measured.
        let free = set(&engine, "data", None).await.unwrap();
        assert_eq!((free.limit, free.used_bytes), (None, None));
        world.host.fill_volume(volume.id, 1 << 40);
        let measured = world.host.count(Call::MeasureVolume);
        for _ in 0..100 {
            world.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        assert_eq!(state(&engine, writer), State::Running);
        assert_eq!(world.host.count(Call::MeasureVolume), measured);
        engine.shutdown().await;
    });
}

#[test]
fn a_limit_outlives_the_server_and_holds_from_the_first_measurement_on() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, limited("data", 10 * MIB)).await.unwrap();
        let writer = engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap().id;
        engine.shutdown().await;
        let engine = world.start().await;
        let shown = show(&engine, "data");
        assert_eq!((shown.limit, shown.used_bytes), (volume.limit, None));
        world.host.fill_volume(volume.id, 11 * MIB);
        stopped(&world, &engine, writer).await;
        assert_eq!(show(&engine, "data").used_bytes, Some(11 * MIB));
        engine.shutdown().await;
    });
}

#[test]
fn a_file_system_with_quotas_sees_to_it_itself() {
    let world = World::new();
    world.host.have_quotas();
    live(async {
        let engine = world.start().await;
        let volume = make(&engine, limited("data", 10 * MIB)).await.unwrap();
        assert_eq!(volume.limit.unwrap().enforced_by, VolumeLimitBy::FileSystem);
        assert_eq!(world.host.volume_limit(volume.id), Some(10 * MIB));
        // It may be filled to the brim; nobody is stopped for that.
        world.host.fill_volume(volume.id, 10 * MIB);
        engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap();
        assert_eq!(set(&engine, "data", None).await.unwrap().limit, None);
        assert_eq!(world.host.volume_limit(volume.id), None);
        engine.shutdown().await;
    });
}

#[test]
fn a_copy_that_is_larger_than_its_limit_is_not_made() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let limit = CreateVolume { copy_of: Some("data".parse().unwrap()), ..limited("b", MIB) };
        make(&engine, wanted("data")).await.unwrap();
        let copy = make(&engine, limit.clone()).await.unwrap();
        assert_eq!(copy.used_bytes, Some(0));
        delete(&engine, "b").await.unwrap();
        world.host.fill_volumes(2 * MIB);
        let refused = make(&engine, limit).await.unwrap_err();
        assert!(matches!(refused, VolumeError::Full(_)), "{refused}");
        assert_eq!(world.host.volumes().len(), 1);
        engine.shutdown().await;
    });
}

#[test]
fn whatever_fails_leaves_the_limit_as_it_was() {
    for call in [Call::LimitVolume, Call::MeasureVolume] {
        for moment in [Moment::Before, Moment::After] {
            let world = World::new();
            live(async {
                let engine = world.start().await;
                world.host.fail(call, moment);
                make(&engine, limited("data", MIB)).await.unwrap_err();
                assert!(world.host.volumes().is_empty());
                world.host.heal();
                let made = make(&engine, limited("data", MIB)).await.unwrap();
                world.host.fail(call, moment);
                let refused = set(&engine, "data", Some(2 * MIB)).await.unwrap_err();
                assert_eq!(refused.to_api().code, ErrorCode::Internal);
                world.host.heal();
                assert_eq!(show(&engine, "data").limit, made.limit);
                engine.shutdown().await;
            });
        }
    }
}

#[test]
fn a_volume_that_is_deleted_while_it_is_limited_does_not_come_back() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        make(&engine, wanted("data")).await.unwrap();
        let gate = world.host.hold(Call::MeasureVolume, Moment::Before);
        let (set, deleted, ()) =
            tokio::join!(set(&engine, "data", Some(MIB)), delete(&engine, "data"), async {
                gate.reached(1).await;
                // Whoever deletes it does so now, or waits.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
                gate.open();
            });
        deleted.unwrap();
        drop(set);
        engine.shutdown().await;
        let engine = world.start().await;
        let found = engine.list_volumes(&ListVolumes::default()).unwrap().volumes;
        assert!(found.is_empty(), "{found:?}");
        engine.shutdown().await;
    });
}

#[test]
fn a_folder_that_is_granted_is_a_volume_and_stays_when_that_goes() {
    let mut world = World::new();
    world.config.host_folders = vec!["/srv/data".into()];
    live(async {
        let engine = world.start().await;
        for path in ["/srv", "/srv/data2", "/etc"] {
            let refused = make(&engine, folder("data", path)).await.unwrap_err().to_api();
            assert_eq!(refused.code, ErrorCode::Forbidden, "{path}");
            assert_eq!(refused.details.field.as_deref(), Some("host_path"));
        }
        let refused = make(&engine, folder("data", "/srv/data/no-folder")).await.unwrap_err();
        assert_eq!(refused.to_api().code, ErrorCode::Invalid);
        let made = make(&engine, folder("data", "/srv/data/models")).await.unwrap();
        assert_eq!(made.host_path.as_deref(), Some("/srv/data/models"));
        assert!(world.host.volumes().is_empty());
        engine.create(with("one", "data", VolumeAccess::Writer)).await.unwrap();
        let refused = engine.create(with("two", "data", VolumeAccess::Writer)).await.unwrap_err();
        assert_eq!(refused.to_api().code, ErrorCode::Conflict);
        // What others may change meanwhile is not read with the server's rights.
        let copy = CreateVolume { copy_of: Some("data".parse().unwrap()), ..wanted("copy") };
        for refused in [
            make(&engine, copy).await.unwrap_err(),
            engine.export_volume(&"data".parse().unwrap()).unwrap_err(),
            set(&engine, "data", Some(MIB)).await.unwrap_err(),
        ] {
            assert!(matches!(refused, VolumeError::OfHost { .. }), "{refused}");
        }
        engine.shutdown().await;
        // A later server has it still, and removes nothing of it.
        let engine = world.start().await;
        assert_eq!(engine.list_volumes(&ListVolumes::default()).unwrap().volumes.len(), 1);
        let id = engine.find(&"one".parse().unwrap()).unwrap().id;
        engine.delete(id).await.unwrap();
        delete(&engine, "data").await.unwrap();
        assert!(engine.list_volumes(&ListVolumes::default()).unwrap().volumes.is_empty());
        engine.shutdown().await;
    });
}
