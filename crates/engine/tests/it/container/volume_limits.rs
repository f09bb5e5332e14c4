//! Limits of volumes, and folders of the host as volumes, on the real kernel.

use super::images::lacks_writable_root;
use super::snapshots::Disk;
use super::volumes::{is_root, sh, wanted, with};
use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named, state};
use atoll_api::error::ErrorCode;
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_api::volume::{
    CreateVolume, SetVolumeLimit, Volume, VolumeAccess, VolumeLimitBy, VolumeMount,
};
use atoll_engine::error::VolumeError;
use atoll_engine::{Config, Engine};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;

async fn limited(engine: &Engine, bytes: u64) -> Volume {
    let request = CreateVolume { limit_bytes: Some(bytes), ..wanted("data", None) };
    engine.create_volume(request, "uid:0".to_owned()).await.unwrap()
}

async fn raise(engine: &Engine, bytes: u64) {
    let (name, by) = ("data".parse().unwrap(), "uid:0".to_owned());
    engine.set_volume_limit(name, SetVolumeLimit { bytes: Some(bytes) }, by).await.unwrap();
}

#[test]
fn who_fills_a_volume_is_stopped_and_goes_on_when_there_is_room() {
    also_as_ordinary("volume_limits::who_fills_a_volume_is_stopped_and_goes_on_when_there_is_room");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        let limit = limited(&engine, 4 * MIB).await.limit.unwrap();
        assert_eq!(limit.enforced_by, VolumeLimitBy::Measurement);
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        let two = engine.create(named("two")).await.unwrap().id;
        assert_eq!(sh(&machine, one, "head -c 8M /dev/urandom > /data/large"), "");
        eventually("it is stopped", || state(&engine, one) == State::Stopped).await;
        let cause = engine.get(one).unwrap().cause.unwrap();
        assert!(cause.starts_with("volume data is full: it takes 8"), "{cause}");
        assert_eq!(state(&engine, two), State::Running);
        let refused = engine.resume(one).await.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::Capacity);
        raise(&engine, 64 * MIB).await;
        engine.resume(one).await.unwrap();
        assert_eq!(sh(&machine, one, "stat -c %s /data/large"), "8388608\n");
        engine.shutdown().await;
    });
}

#[test]
fn on_btrfs_with_quotas_writing_beyond_the_limit_fails() {
    let Some(disk) = Disk::btrfs() else { return };
    let enabled = Command::new("btrfs").args(["quota", "enable"]).arg(disk.place.path()).output();
    assert!(enabled.unwrap().status.success());
    let machine = Machine::below(disk.place.path());
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        let limit = limited(&engine, 8 * MIB).await.limit.unwrap();
        assert_eq!(limit.enforced_by, VolumeLimitBy::FileSystem);
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        let fill = "head -c 32M /dev/urandom > /data/large; sync /data/large";
        let told = sh(&machine, one, fill);
        assert!(told.contains("Disk quota exceeded"), "{told}");
        assert_eq!(state(&engine, one), State::Running);
        // The same works where there is room.
        assert_eq!(sh(&machine, one, "rm /data/large; sync /data"), "");
        raise(&engine, 128 * MIB).await;
        assert_eq!(sh(&machine, one, fill), "");
        // A copy has a limit of its own.
        let copy = CreateVolume { is_read_only: false, ..wanted("copy", Some("data")) };
        let copy = CreateVolume { limit_bytes: Some(8 * MIB), ..copy };
        let refused = engine.create_volume(copy, "uid:0".to_owned()).await.unwrap_err();
        assert!(matches!(refused, VolumeError::Full(_)), "{refused}");
        engine.shutdown().await;
    });
}

/// A folder that a user of the host may write, which is not who runs a server of root's.
fn folder(below: &Path) -> std::path::PathBuf {
    let path = below.join("data");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("theirs"), "old\n").unwrap();
    std::fs::write(path.join("roots"), "secret\n").unwrap();
    if is_root() {
        for path in [path.clone(), path.join("theirs")] {
            chown(path, Some(4321), Some(4322)).unwrap();
        }
        std::fs::set_permissions(path.join("roots"), PermissionsExt::from_mode(0o600)).unwrap();
    }
    path
}

fn of_host(path: &Path, is_read_only: bool) -> CreateVolume {
    let host_path = Some(path.to_str().unwrap().to_owned());
    CreateVolume { host_path, is_read_only, ..wanted("data", None) }
}

#[test]
fn a_folder_of_the_host_is_written_as_its_owner_and_stays() {
    also_as_ordinary("volume_limits::a_folder_of_the_host_is_written_as_its_owner_and_stays");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let path = folder(&place);
    let config = Config { host_folders: vec![path.clone()], ..Config::default() };
    live(async {
        let engine = machine.start_with(config).await;
        engine.create_volume(of_host(&path, false), "uid:0".to_owned()).await.unwrap();
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        assert_eq!(
            sh(&machine, one, "cd /data; cat theirs; stat -c %U . theirs"),
            "old\nuser\nuser\n"
        );
        let script =
            "cd /data; echo more >> theirs; mkdir new; echo x > new/file; chmod 700 new/file";
        assert_eq!(sh(&machine, one, script), "");
        // It would have the owner's power to everybody on the host.
        let refused = sh(&machine, one, "chmod u+s /data/new/file");
        assert!(refused.contains("Operation not permitted"), "{refused}");
        let owner = |name: &str| {
            let found = path.join(name).metadata().unwrap();
            (found.uid(), found.gid())
        };
        let theirs = owner("theirs");
        assert_eq!([owner("new"), owner("new/file")], [theirs, theirs]);
        assert_eq!(std::fs::read_to_string(path.join("theirs")).unwrap(), "old\nmore\n");
        if is_root() {
            assert_eq!(theirs, (4321, 4322));
            let told = sh(&machine, one, "cd /data; cat roots; echo x > roots; stat -c %U roots");
            assert_eq!(told.matches("Permission denied").count(), 2, "{told}");
            assert!(told.ends_with("nobody\n"), "{told}");
        }
        // It is there after a stop, and nothing goes with the volume.
        engine.stop(one).await.unwrap();
        engine.resume(one).await.unwrap();
        assert_eq!(sh(&machine, one, "cat /data/new/file"), "x\n");
        engine.delete(one).await.unwrap();
        engine.delete_volume("data".parse().unwrap(), "uid:0".to_owned()).await.unwrap();
        assert!(path.join("new/file").exists());
        engine.shutdown().await;
    });
}

#[test]
fn a_folder_that_was_exchanged_for_a_link_is_not_shown() {
    also_as_ordinary("volume_limits::a_folder_that_was_exchanged_for_a_link_is_not_shown");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let path = folder(&place);
    symlink(&path, place.join("link")).unwrap();
    let config = Config { host_folders: vec![place.clone()], ..Config::default() };
    live(async {
        let engine = machine.start_with(config).await;
        for (wrong, reason) in [
            (place.join("link"), "a part of its path is a symbolic link"),
            (path.join("theirs"), "it is no directory"),
            (path.join("none"), "No such file or directory"),
        ] {
            let refused = engine.create_volume(of_host(&wrong, false), "uid:0".to_owned()).await;
            let refused = refused.unwrap_err().to_api();
            assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
            assert!(refused.message.contains(reason), "{refused:?}");
        }
        engine.create_volume(of_host(&path, false), "uid:0".to_owned()).await.unwrap();
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        engine.stop(one).await.unwrap();
        std::fs::rename(&path, place.join("away")).unwrap();
        symlink("/etc", &path).unwrap();
        let refused = engine.resume(one).await.unwrap_err().to_api();
        assert!(refused.message.contains("symbolic link"), "{refused:?}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(place.join("away"), &path).unwrap();
        engine.resume(one).await.unwrap();
        assert_eq!(sh(&machine, one, "cat /data/theirs"), "old\n");
        engine.shutdown().await;
    });
}

#[test]
fn a_folder_of_roots_is_read_and_never_written() {
    let machine = Machine::new();
    if !is_root() || lacks_writable_root(&machine, "volumes") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let path = place.join("data");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("file"), "roots\n").unwrap();
    let config = Config { host_folders: vec![place, machine.state()], ..Config::default() };
    live(async {
        let engine = machine.start_with(config).await;
        let make = async |wanted| engine.create_volume(wanted, "uid:0".to_owned()).await;
        let refused = make(of_host(&path, false)).await.unwrap_err().to_api();
        assert!(refused.message.contains("belongs to root"), "{refused:?}");
        let refused = make(of_host(&machine.state(), true)).await.unwrap_err().to_api();
        assert!(refused.message.contains("its own files"), "{refused:?}");
        make(of_host(&path, true)).await.unwrap();
        let refused = engine.create(with("one", "/data", VolumeAccess::Shared)).await.unwrap_err();
        assert_eq!(refused.to_api().code, ErrorCode::Conflict);
        let (volume, path) = ("data".parse().unwrap(), "/data".to_owned());
        let mount = VolumeMount { volume, path, access: VolumeAccess::ReadOnly };
        let wanted = CreateSandbox { volumes: vec![mount], ..named("one") };
        let one = engine.create(wanted).await.unwrap().id;
        let told = sh(&machine, one, "cat /data/file; echo x > /data/file; touch /data/new");
        assert!(told.starts_with("roots\n"), "{told}");
        assert_eq!(told.matches("Read-only file system").count(), 2, "{told}");
        engine.shutdown().await;
    });
}
