//! Volumes on the real kernel: shown in several sandboxes, with owners that are right in each, and
//! without power over anything else.

use super::images::{change, image, lacks_writable_root, request};
use super::snapshots::Disk;
use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::error::ErrorCode;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_api::snapshot::SnapshotWay;
use atoll_api::volume::{CreateVolume, VolumeAccess, VolumeMount};
use atoll_engine::Engine;
use atoll_protocol::request::Request;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

async fn make(engine: &Engine, name: &str) -> String {
    let request = wanted(name, None);
    engine.create_volume(request, "uid:0".to_owned()).await.unwrap().id.to_string()
}

pub(super) fn wanted(name: &str, copy_of: Option<&str>) -> CreateVolume {
    CreateVolume {
        name: name.parse().unwrap(),
        labels: [].into(),
        is_read_only: copy_of.is_some(),
        copy_of: copy_of.map(|name| name.parse().unwrap()),
        limit_bytes: None,
        host_path: None,
    }
}

pub(super) fn at(path: &str, access: VolumeAccess) -> VolumeMount {
    VolumeMount { volume: "data".parse().unwrap(), path: path.to_owned(), access }
}

pub(super) fn with(name: &str, path: &str, access: VolumeAccess) -> CreateSandbox {
    CreateSandbox { volumes: vec![at(path, access)], ..named(name) }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a line of shell prints as the sandbox's user.
pub(super) fn sh(machine: &Machine, id: SandboxId, script: &str) -> String {
    let ran = machine.guest(id).sh(&format!("exec 2>&1; {script}"));
    ran.text().to_owned()
}

#[test]
fn what_one_wrote_another_reads_and_goes_on_with_as_its_own() {
    let test = "volumes::what_one_wrote_another_reads_and_goes_on_with_as_its_own";
    also_as_ordinary(test);
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        let id = make(&engine, "data").await;
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        let reader = with("two", "/home/user/in", VolumeAccess::ReadOnly);
        let two = engine.create(reader).await.unwrap().id;
        assert_eq!(
            sh(&machine, one, "cd /data && echo one > file && stat -c %U:%a ."),
            "user:755\n"
        );
        assert_eq!(sh(&machine, two, "cat in/file; stat -c %U in/file"), "one\nuser\n");
        let refused = sh(&machine, two, "echo no > in/file; rm in/file; touch in/new");
        assert_eq!(refused.matches("Read-only file system").count(), 3, "{refused}");
        // It outlives who wrote it, and the next one may do the same.
        engine.delete(one).await.unwrap();
        eventually("it is gone", || machine.left().len() == 1).await;
        let three = engine.create(with("three", "/data", VolumeAccess::Writer)).await.unwrap().id;
        assert_eq!(sh(&machine, three, "cd /data && echo more >> file; cat file"), "one\nmore\n");
        // Stopped and started it has it still, as have those that a later server takes up.
        engine.stop(three).await.unwrap();
        engine.resume(three).await.unwrap();
        assert_eq!(sh(&machine, three, "cat /data/file"), "one\nmore\n");
        engine.shutdown().await;
        let engine = machine.start().await;
        assert_eq!(sh(&machine, three, "echo last > /data/file"), "");
        assert_eq!(sh(&machine, two, "cat in/file"), "last\n");
        let refused = engine.create(with("four", "/data", VolumeAccess::Writer)).await;
        assert_eq!(refused.unwrap_err().to_api().code, ErrorCode::Conflict);
        for id in [two, three] {
            engine.delete(id).await.unwrap();
        }
        eventually("they are gone", || machine.left().is_empty()).await;
        let path = machine.state().join("volumes").join(id);
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "last\n");
        engine.delete_volume("data".parse().unwrap(), "uid:0".to_owned()).await.unwrap();
        assert!(!path.exists());
        let trash = machine.state().join(".trash");
        eventually("its bytes are gone", || trash.read_dir().unwrap().count() == 0).await;
        engine.shutdown().await;
    });
}

#[test]
fn several_write_at_once_who_say_so() {
    also_as_ordinary("volumes::several_write_at_once_who_say_so");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        make(&engine, "data").await;
        let shared = |name| with(name, "/data", VolumeAccess::Shared);
        let one = engine.create(shared("one")).await.unwrap().id;
        let two = engine.create(shared("two")).await.unwrap().id;
        assert_eq!(sh(&machine, one, "echo 1 > /data/file"), "");
        assert_eq!(sh(&machine, two, "echo 2 >> /data/file"), "");
        assert_eq!(sh(&machine, one, "cat /data/file"), "1\n2\n");
        engine.shutdown().await;
    });
}

/// The mounts at a place, as something inside sees them: options of each.
fn options(machine: &Machine, id: SandboxId, place: &str) -> Vec<String> {
    let text = sh(machine, id, "cat /proc/self/mountinfo");
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.filter(|words| words[4] == place).map(|words| words[5].to_owned()).collect()
}

#[test]
fn programs_and_devices_on_a_volume_have_no_power() {
    also_as_ordinary("volumes::programs_and_devices_on_a_volume_have_no_power");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        let id = make(&engine, "data").await;
        let [root, _] = image(&machine, |_| {});
        let wanted = CreateSandbox {
            volumes: vec![at("/data", VolumeAccess::Writer)],
            ..request("one", &root)
        };
        let one = engine.create(wanted).await.unwrap().id;
        let script = "cat \"$(command -v id)\" > /data/id; chmod 755 /data/id";
        let made = change(&machine, one, script);
        assert_eq!(made, "");
        // Who may not do that inside finds it done.
        let path = machine.state().join("volumes").join(&id).join("id");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
        assert_eq!(sh(&machine, one, "stat -c %a /data/id"), "4755\n");
        if is_root() {
            // The host's own root finds a file of nobody's, with no rights of root's in it.
            let found = path.metadata().unwrap();
            assert_eq!((found.uid(), found.mode() & 0o7777), (0x7F00_0000, 0o4755));
            // What the host puts there is not opened as a device either.
            let node = machine.state().join("volumes").join(&id).join("null");
            let device = rustix::fs::makedev(1, 3);
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            let kind = rustix::fs::FileType::CharacterDevice;
            rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, device).unwrap();
            assert!(std::fs::File::open(&node).is_ok(), "the control opens it");
            let refused = sh(&machine, one, "cat /data/null");
            assert!(refused.contains("ermission denied"), "{refused}");
        }
        // Who runs the program is who he was.
        assert_eq!(sh(&machine, one, "/data/id -u"), "1000\n");
        let found = options(&machine, one, "/data");
        assert_eq!(found.len(), 1, "{found:?}");
        let words: Vec<&str> = found[0].split(',').collect();
        assert!(words.contains(&"nosuid") && words.contains(&"nodev"), "{found:?}");
        engine.shutdown().await;
    });
}

#[test]
fn root_inside_gives_files_to_whom_it_likes_and_others_see_that() {
    let machine = Machine::new();
    if !is_root() || lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        make(&engine, "data").await;
        let [root, _] = image(&machine, |_| {});
        let of = |name: &str, access| CreateSandbox {
            volumes: vec![at("/data", access)],
            ..request(name, &root)
        };
        let one = engine.create(of("one", VolumeAccess::Writer)).await.unwrap().id;
        let two = engine.create(of("two", VolumeAccess::ReadOnly)).await.unwrap().id;
        let script = "cd /data && touch a b c && chown 0:0 a && chown 33:33 b && chown 65534 c";
        assert_eq!(change(&machine, one, script), "");
        let told = "stat -c %n:%u:%g /data/a /data/b /data/c";
        let owners = "/data/a:0:0\n/data/b:33:33\n/data/c:65534:0\n";
        assert_eq!(change(&machine, one, told), owners);
        assert_eq!(change(&machine, two, told), owners);
        engine.shutdown().await;
    });
}

#[test]
fn a_link_of_an_images_leads_a_volume_nowhere() {
    also_as_ordinary("volumes::a_link_of_an_images_leads_a_volume_nowhere");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        make(&engine, "data").await;
        let [root, _] = image(&machine, |root| {
            symlink("/proc", root.join("data")).unwrap();
            symlink("/etc", root.join("opt/way")).unwrap();
            symlink("../../../../../../etc", root.join("srv")).unwrap();
            std::fs::write(root.join("file"), "of the image").unwrap();
        });
        for path in ["/data", "/data/self", "/opt/way/x", "/srv/x", "/srv", "/file", "/file/x"] {
            let mount = at(path, VolumeAccess::Writer);
            let wanted = CreateSandbox { volumes: vec![mount], ..request("one", &root) };
            let refused = engine.create(wanted).await.unwrap_err().to_api();
            assert_eq!(refused.code, ErrorCode::Invalid, "{path}: {refused:?}");
            assert_eq!(refused.details.field.as_deref(), Some("volumes"), "{path}");
            assert!(refused.message.contains(path), "{path}: {}", refused.message);
        }
        // It was let go of each time; and directories that are not there are made.
        for path in ["/new/deep", "/opt"] {
            let mount = at(path, VolumeAccess::Writer);
            let wanted = CreateSandbox { volumes: vec![mount], ..request("one", &root) };
            let made = engine.create(wanted).await.unwrap();
            assert_eq!(sh(&machine, made.id, &format!("touch {path}/it && ls {path}")), "it\n");
            engine.delete(made.id).await.unwrap();
        }
        engine.shutdown().await;
    });
}

#[test]
fn a_link_that_a_sandbox_made_in_its_home_does_not_move_its_volume() {
    also_as_ordinary("volumes::a_link_that_a_sandbox_made_in_its_home_does_not_move_its_volume");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(async {
        let engine = machine.start().await;
        make(&engine, "data").await;
        let wanted = with("one", "/home/user/deep/data", VolumeAccess::Writer);
        let id = engine.create(wanted).await.unwrap().id;
        // Something is mounted there, so only what is above can be moved away.
        assert_eq!(sh(&machine, id, "mv deep away && ln -s /tmp deep && ls away"), "data\n");
        engine.stop(id).await.unwrap();
        let refused = engine.resume(id).await.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
        assert_eq!(engine.get(id).unwrap().state, State::Stopped);
        engine.shutdown().await;
    });
}

#[test]
fn what_the_server_was_not_told_of_goes_at_its_start() {
    also_as_ordinary("volumes::what_the_server_was_not_told_of_goes_at_its_start");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = make(&engine, "data").await;
        engine.shutdown().await;
        let half_made: PathBuf = machine.state().join("volumes/vol_00000000000000000000");
        std::fs::create_dir_all(half_made.join("deep")).unwrap();
        let engine = machine.start().await;
        assert!(!half_made.exists());
        assert!(machine.state().join("volumes").join(&id).is_dir());
        engine.shutdown().await;
        // One whose files are lost is told so by its sandboxes, and nothing takes its place.
        std::fs::remove_dir(machine.state().join("volumes").join(&id)).unwrap();
        let engine = machine.start().await;
        if machine_can(&engine) {
            let wanted = with("one", "/data", VolumeAccess::Writer);
            let refused = engine.create(wanted).await.unwrap_err().to_api();
            assert!(refused.message.contains(&id), "{refused:?}");
        }
        engine.shutdown().await;
    });
}

fn machine_can(engine: &Engine) -> bool {
    engine.tier().1.volumes
}

/// Two files that are each whole at every moment, and never further apart than one step.
const STEPS: &str = "cd /data; mkdir -p deep; n=0; while :; do n=$((n+1)); \
                     echo $n > new; mv new deep/one; echo $n > new; mv new two; done";

async fn a_copy_is_of_one_moment(machine: &Machine, way: &[SnapshotWay]) {
    let engine = machine.start().await;
    make(&engine, "data").await;
    let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
    sh(
        machine,
        one,
        "cd /data; for n in 1 2 3 4 5; do echo large > file-$n; done; ln file-1 again",
    );
    let goes_on = engine.tier().1.pause;
    let writer = machine.guest(one);
    if goes_on {
        drop(writer.ask(&Request::Start(atoll_testkit::guest::sh(STEPS))));
        let wrote = || sh(machine, one, "cat /data/two").trim().parse::<u64>();
        eventually("it writes", || wrote().is_ok()).await;
    } else {
        sh(machine, one, "mkdir /data/deep; echo 1 > /data/deep/one; echo 1 > /data/two");
        engine.stop(one).await.unwrap();
    }
    for round in 0..3 {
        let name = format!("copy-{round}");
        let made = engine.create_volume(wanted(&name, Some("data")), "uid:0".to_owned()).await;
        let made = made.unwrap();
        let copied = made.copied.unwrap();
        assert!(way.contains(&copied.way), "{copied:?}");
        assert_eq!(copied.frozen_us > 0, goes_on);
        let mount = VolumeMount {
            volume: name.parse().unwrap(),
            path: "/in".to_owned(),
            access: VolumeAccess::ReadOnly,
        };
        let request = CreateSandbox { volumes: vec![mount], ..named(&format!("reader-{round}")) };
        let reader = engine.create(request).await.unwrap().id;
        let told = sh(machine, reader, "cat /in/deep/one /in/two; stat -c %U:%h /in/file-1");
        let lines: Vec<&str> = told.lines().collect();
        let [first, second, owner] = lines[..] else { panic!("{told}") };
        let [first, second] = [first, second].map(|text| text.parse::<u64>().unwrap());
        assert!(first == second || first == second + 1, "{told}");
        assert_eq!(owner, "user:2");
        // It stays so, while the original goes on.
        let again = sh(machine, reader, "cat /in/deep/one /in/two; stat -c %U:%h /in/file-1");
        assert_eq!(again, told);
        if goes_on {
            let later = || sh(machine, one, "cat /data/two").trim().parse::<u64>();
            eventually("it goes on", || later().is_ok_and(|later| later > second)).await;
        }
    }
    let left = machine.state().join("volumes").read_dir().unwrap().count();
    assert_eq!(left, 4);
    engine.shutdown().await;
}

#[test]
fn a_snapshot_is_of_one_moment_though_somebody_writes() {
    also_as_ordinary("volumes::a_snapshot_is_of_one_moment_though_somebody_writes");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    live(a_copy_is_of_one_moment(&machine, &[SnapshotWay::Copy, SnapshotWay::Reflink]));
}

#[test]
fn on_btrfs_a_snapshot_of_a_volume_is_the_file_systems_own() {
    let Some(disk) = Disk::btrfs() else { return };
    let machine = Machine::below(disk.place.path());
    live(a_copy_is_of_one_moment(&machine, &[SnapshotWay::Subvolume]));
}

#[test]
fn an_export_has_what_the_volume_holds_and_nothing_that_links_lead_to() {
    also_as_ordinary("volumes::an_export_has_what_the_volume_holds_and_nothing_that_links_lead_to");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "volumes") {
        return;
    }
    let secret = machine.dir.path().join("secret");
    std::fs::write(&secret, "of the host").unwrap();
    live(async {
        let engine = machine.start().await;
        make(&engine, "data").await;
        let one = engine.create(with("one", "/data", VolumeAccess::Writer)).await.unwrap().id;
        let script = format!(
            "cd /data; mkdir -p a/b; echo kept > a/b/file; chmod 640 a/b/file; ln a/b/file again; \
             ln -s {0} link; ln -s {1} way; mkfifo pipe; head -c 300000 /dev/zero > large; \
             n=0; mkdir deep; cd deep; while [ $n -lt 1500 ]; do mkdir d; cd d; n=$((n+1)); done",
            secret.display(),
            machine.dir.path().display(),
        );
        sh(&machine, one, &script);
        assert!(engine.export_volume(&"data".parse().unwrap()).is_err());
        engine.stop(one).await.unwrap();
        let path = machine.dir.path().join("data.tar");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut export = engine.export_volume(&"data".parse().unwrap()).unwrap();
        while let Some(piece) = export.next().await.unwrap() {
            std::io::Write::write_all(&mut file, &piece).unwrap();
        }
        let tar = |arguments: &[&str]| {
            let ran = Command::new("tar").args(arguments).arg("-f").arg(&path).output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap()
        };
        let names = tar(&["-t"]);
        for name in ["a/b/file", "again", "link", "way", "large"] {
            assert!(names.lines().any(|line| line == name), "{name}: {names:.500}");
        }
        assert!(!names.contains("secret") && !names.contains("pipe"), "{names:.500}");
        assert_eq!(names.lines().filter(|line| line.starts_with("deep/d")).count(), 1500);
        assert!(tar(&["-tv"]).lines().any(|line| line.contains(" link -> ")));
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"of the host"));
        let out = machine.dir.path().join("out");
        std::fs::create_dir(&out).unwrap();
        tar(&["-x", "-C", out.to_str().unwrap(), "a/b/file"]);
        assert_eq!(std::fs::read_to_string(out.join("a/b/file")).unwrap(), "kept\n");
        engine.shutdown().await;
    });
}
