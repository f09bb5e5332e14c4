//! Root file systems from directories and archives, and what is written to them.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, live_in_parallel, named};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_engine::Engine;
use atoll_engine::backend::Backend as _;
use atoll_engine::error::CreateError;
use atoll_protocol::exec::User;
use atoll_testkit::guest::sh;
use atoll_testkit::image::copy_programs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 14] = [
    "sh", "cat", "ls", "id", "touch", "stat", "chown", "chmod", "mkdir", "mv", "rm", "ln", "mount",
    "readlink",
];

/// A root file system and an archive of it.
pub(super) fn image(machine: &Machine, more: impl Fn(&Path)) -> [PathBuf; 2] {
    let (root, archive) = (machine.dir.path().join("rootfs"), machine.dir.path().join("image.tgz"));
    for name in ["etc", "opt", "usr/share/own", "var/lib"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    copy_programs(&root, &PROGRAMS);
    std::fs::write(root.join("etc/os-release"), "ID=tiny\n").unwrap();
    std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nown:x:33:33::/:/x\n")
        .unwrap();
    std::fs::write(root.join("usr/share/own/file"), "of the image\n").unwrap();
    std::fs::hard_link(root.join("usr/share/own/file"), root.join("usr/share/own/again")).unwrap();
    if is_root() {
        chown(root.join("var/lib"), Some(33), Some(33)).unwrap();
    }
    more(&root);
    pack(&root, &archive);
    [root, archive]
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn pack(root: &Path, archive: &Path) {
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(archive).arg("-C").arg(root).arg(".");
    assert!(tar.status().unwrap().success());
}

pub(super) fn request(name: &str, image: &Path) -> CreateSandbox {
    CreateSandbox { image: image.to_str().unwrap().to_owned(), ..named(name) }
}

/// Runs a line of shell as who may change the system: root, or the user where there is none.
pub(super) fn change(machine: &Machine, id: SandboxId, script: &str) -> String {
    let mut start = sh(script);
    start.command.user = if is_root() { User::Root } else { User::Workload };
    let ran = machine.guest(id).run(start);
    format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
}

/// Says that this host cannot do what is tested, if so.
pub(super) fn lacks_writable_root(machine: &Machine, name: &str) -> bool {
    let has = machine.backend().capabilities().writable_root;
    if !has {
        atoll_testkit::skip::skip(name, "no overlay in the directory for temporary files");
    }
    !has
}

async fn restart(engine: &Engine, id: SandboxId) {
    engine.stop(id).await.unwrap();
    assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
}

#[test]
fn what_is_written_to_the_root_is_kept_and_reaches_nothing_else() {
    also_as_ordinary("images::what_is_written_to_the_root_is_kept_and_reaches_nothing_else");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let images = image(&machine, |_| {});
    let file = images[0].join("usr/share/own/file");
    live(async {
        let engine = machine.start().await;
        for image in &images {
            let id = engine.create(request("one", image)).await.unwrap().id;
            let writes = "mkdir /opt/x /new && echo more > /opt/x/file && echo ID=mine > /etc/os-release \
                          && rm /usr/share/own/again && mv /usr/share /usr/shared && echo x > /usr/shared/y \
                          && touch /tmp/gone && echo written";
            assert_eq!(change(&machine, id, writes), "written\n");
            let look = "cat /opt/x/file /etc/os-release /usr/shared/own/file /usr/shared/y; \
                        ls /usr /usr/shared/own; ls -A /tmp; ls -d /new";
            let seen = "more\nID=mine\nof the image\nx\n\
                        /usr:\nshared\n\n/usr/shared/own:\nfile\n/new\n";
            for _ in 0..3 {
                restart(&engine, id).await;
                assert_eq!(machine.guest(id).sh(look).text(), seen);
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "of the image\n");
            assert!(!images[0].join("opt/x").exists() && !Path::new("/opt/x").exists());
            // Another of the same image has nothing of it, and is as fresh as this one was.
            let other = engine.create(request("other", image)).await.unwrap().id;
            let fresh = "cat /usr/share/own/again /etc/os-release; ls /opt";
            assert_eq!(machine.guest(other).sh(fresh).text(), "of the image\nID=tiny\n");
            for id in [id, other] {
                engine.delete(id).await.unwrap();
            }
        }
        eventually("nothing is left", || machine.left().is_empty()).await;
        engine.shutdown().await;
    });
}

#[test]
fn accounts_and_owners_are_the_images_and_the_user_is_ours() {
    also_as_ordinary("images::accounts_and_owners_are_the_images_and_the_user_is_ours");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let images = image(&machine, |_| {});
    live(async {
        let engine = machine.start().await;
        for image in &images {
            let id = engine.create(request("one", image)).await.unwrap().id;
            let guest = machine.guest(id);
            assert_eq!(
                guest.sh("id -un; id -u; echo $HOME; pwd").text(),
                "user\n1000\n/home/user\n/home/user\n"
            );
            let owners = "stat -c %u:%g:%U / /usr /var/lib /etc/passwd /home/user";
            let seen = guest.sh(owners);
            if is_root() {
                assert_eq!(
                    seen.text(),
                    "0:0:root\n0:0:root\n33:33:own\n0:0:root\n1000:1000:user\n"
                );
                // A user changes nothing of root's.
                let denied =
                    guest.sh("touch /usr/x /x /etc/x; echo x > /etc/passwd; rm /etc/os-release");
                assert_eq!(denied.text(), "");
                assert_eq!(
                    guest.sh("ls -d /usr/x /x /etc/x; cat /etc/os-release").text(),
                    "ID=tiny\n"
                );
                // Root gives and takes, and what it made has an owner after a restart.
                let own = "touch /opt/own && chown 33:1000 /opt/own && chmod 4711 /opt/own";
                assert_eq!(change(&machine, id, own), "");
                restart(&engine, id).await;
                let own = guest.sh("stat -c %u:%g:%a /opt/own; id -u own");
                assert_eq!(own.text(), "33:1000:4711\n33\n");
            } else {
                // All of it belongs to the server's user, and so to the sandbox's.
                assert!(seen.text().lines().all(|line| line == "1000:1000:user"), "{seen:?}");
            }
            engine.delete(id).await.unwrap();
        }
        engine.shutdown().await;
    });
}

#[test]
fn this_machines_own_root_stays_read_only_and_hides_what_it_hid() {
    also_as_ordinary("images::this_machines_own_root_stays_read_only_and_hides_what_it_hid");
    let machine = Machine::new();
    let secret = machine.dir.path().join("secret");
    std::fs::write(&secret, "words").unwrap();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("one")).await.unwrap().id;
        let script = format!(
            "touch /usr/x /etc/x /x /opt/x; ls -d /usr/x /etc/x /x /opt/x; cat {} /etc/shadow; \
             ls -d {}; echo end",
            secret.display(),
            machine.state().display()
        );
        let ran = change(&machine, id, &format!("({script}) 2>/dev/null"));
        assert_eq!(ran, "end\n");
        assert!(secret.exists());
        engine.shutdown().await;
    });
}

#[test]
fn what_this_host_lacks_is_said_with_a_reason() {
    also_as_ordinary("images::what_this_host_lacks_is_said_with_a_reason");
    let machine = Machine::new();
    let backend = machine.backend();
    let (can, missing) = (backend.capabilities(), backend.missing());
    assert_eq!(can.user_root, is_root());
    for (has, flag) in [(can.user_root, "user_root"), (can.writable_root, "writable_root")] {
        let reason = missing.iter().find(|(missing, _)| *missing == flag);
        assert_eq!(reason.is_none(), has, "{flag}: {missing:?}");
        assert!(reason.is_none_or(|(_, reason)| reason.len() > 20), "{missing:?}");
    }
}

#[test]
fn an_archive_is_unpacked_once_and_kept_for_those_that_were_made_of_it() {
    also_as_ordinary("images::an_archive_is_unpacked_once_and_kept_for_those_that_were_made_of_it");
    let machine = Machine::new();
    let [root, archive] = image(&machine, |_| {});
    live_in_parallel(async {
        let engine = std::sync::Arc::new(machine.start().await);
        let made: Vec<_> = (0..8)
            .map(|number| {
                let (engine, request) = (engine.clone(), request(&format!("n{number}"), &archive));
                tokio::spawn(async move { engine.create(request).await.unwrap().id })
            })
            .collect();
        let mut ids = Vec::new();
        for one in made {
            ids.push(one.await.unwrap());
        }
        let names = || {
            let entries = std::fs::read_dir(machine.state().join("images")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name != "known").collect::<Vec<_>>()
        };
        let unpacked = names();
        assert_eq!(unpacked.len(), 1, "{unpacked:?}");
        for id in &ids {
            assert_eq!(machine.guest(*id).sh("cat /etc/os-release").text(), "ID=tiny\n");
        }
        // Another archive under the same name is another image; who has the old one keeps it.
        std::fs::write(root.join("etc/os-release"), "ID=other\n").unwrap();
        pack(&root, &archive);
        let other = engine.create(request("other", &archive)).await.unwrap().id;
        std::fs::remove_file(&archive).unwrap();
        restart(&engine, ids[0]).await;
        for (id, seen) in [(ids[0], "ID=tiny\n"), (other, "ID=other\n")] {
            assert_eq!(machine.guest(id).sh("cat /etc/os-release").text(), seen);
        }
        assert_eq!(names().len(), 2);
    });
}

#[test]
fn what_a_killed_server_was_unpacking_goes_at_the_next_start() {
    let machine = Machine::new();
    drop(machine.backend());
    let half = machine.state().join("images/.new-0000000000000001/rootfs/bin");
    std::fs::create_dir_all(&half).unwrap();
    drop(machine.backend());
    assert!(!half.exists() && machine.state().join("images").exists());
}

#[test]
fn what_is_no_image_is_refused_and_leaves_nothing() {
    also_as_ordinary("images::what_is_no_image_is_refused_and_leaves_nothing");
    let machine = Machine::new();
    let path = |name: &str| machine.dir.path().join(name);
    std::fs::create_dir_all(path("empty/sub")).unwrap();
    std::fs::write(path("words"), "words").unwrap();
    pack(&path("empty"), &path("no-root.tgz"));
    let upwards = Command::new("tar")
        .args(["-cf", "up.tar", "--transform", "s,^words,../words,", "-P", "words"])
        .current_dir(machine.dir.path())
        .status();
    assert!(upwards.unwrap().success());
    live(async {
        let engine = machine.start().await;
        for (name, reason) in [
            ("absent", "could not read"),
            ("words", "no tar archive"),
            ("empty", "no root file system"),
            ("no-root.tgz", "no root file system"),
            ("up.tar", "leads out"),
        ] {
            let refused = engine.create(request("one", &path(name))).await.unwrap_err();
            assert!(matches!(refused, CreateError::Backend { .. }), "{refused:?}");
            let told = format!("{:?}", refused).to_lowercase();
            assert!(told.contains(reason), "{name}: {told}");
        }
        for (path, reason) in [(Path::new("/"), "own root"), (&machine.state(), "own root")] {
            let refused = engine.create(request("one", path)).await.unwrap_err();
            assert!(format!("{refused:?}").contains(reason), "{refused:?}");
        }
        let relative = engine.create(request("one", Path::new("debian"))).await.unwrap_err();
        assert!(format!("{relative:?}").contains("neither host nor"), "{relative:?}");
        eventually("nothing is left", || machine.left().iter().all(|name| name == "images")).await;
        engine.shutdown().await;
    });
}

#[test]
fn links_in_the_place_of_directories_lead_nowhere_else() {
    also_as_ordinary("images::links_in_the_place_of_directories_lead_nowhere_else");
    let machine = Machine::new();
    let outside = machine.dir.path().join("outside");
    std::fs::create_dir_all(outside.join("user")).unwrap();
    std::fs::write(outside.join("words"), "words").unwrap();
    std::fs::write(outside.join("passwd"), "evil:x:0:0::/:/x\n").unwrap();
    let images = image(&machine, |root| {
        std::fs::remove_dir_all(root.join("etc")).unwrap();
        for name in ["etc", "tmp", "home", "dev", "run", "proc", "root"] {
            symlink(&outside, root.join(name)).unwrap();
        }
    });
    live(async {
        let engine = machine.start().await;
        for image in &images {
            let id = engine.create(request("one", image)).await.unwrap().id;
            let look = format!(
                "ls /etc/words /tmp/words /home {0} /root/words; touch /tmp/x /run/x; \
                 cat /etc/passwd /root/words; echo end; id -un",
                outside.display()
            );
            let ran = machine.guest(id).sh(&look);
            assert!(ran.text().ends_with("end\nuser\n"), "{ran:?}");
            assert!(!ran.text().contains("words") && !ran.text().contains("evil"), "{ran:?}");
            engine.delete(id).await.unwrap();
        }
        let names = std::fs::read_dir(&outside).unwrap().count();
        assert_eq!((names, std::fs::read_dir(outside.join("user")).unwrap().count()), (3, 0));
        engine.shutdown().await;
    });
}

#[test]
fn who_moves_the_places_of_the_view_away_does_not_get_out_by_the_next_start() {
    also_as_ordinary(
        "images::who_moves_the_places_of_the_view_away_does_not_get_out_by_the_next_start",
    );
    let machine = Machine::new();
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let [root, _] = image(&machine, |_| {});
    let secret = machine.dir.path().join("secret");
    std::fs::write(&secret, "words").unwrap();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(request("one", &root)).await.unwrap().id;
        // A place that something is mounted on stays; one above it can go.
        let away = "mv /tmp /t; rm -rf /proc /dev; mv /home /h && ln -s /proc/self/root /home; \
                    ls -d /tmp /dev/null /h /home";
        let ran = change(&machine, id, &format!("({away}) 2>/dev/null"));
        assert_eq!(ran, "/dev/null\n/h\n/home\n/tmp\n");
        engine.stop(id).await.unwrap();
        let refused = engine.resume(id).await.unwrap_err();
        assert!(format!("{refused:?}").contains("/home"), "{refused:?}");
        engine.delete(id).await.unwrap();
        // One that is moved and not replaced is made again.
        let id = engine.create(request("one", &root)).await.unwrap().id;
        machine.guest(id).sh("echo kept > file");
        change(&machine, id, "mv /home /h");
        restart(&engine, id).await;
        assert_eq!(machine.guest(id).sh("pwd; cat file").text(), "/home/user\nkept\n");
        engine.shutdown().await;
    });
}

#[test]
fn root_of_a_writable_system_mounts_nothing_and_sees_nothing_of_the_layers() {
    let machine = Machine::new();
    if !is_root() {
        atoll_testkit::skip::skip("as-root", "run by an ordinary user");
        return;
    }
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let [root, _] = image(&machine, |_| {});
    live(async {
        let engine = machine.start().await;
        let id = engine.create(request("one", &root)).await.unwrap().id;
        let state = machine.state();
        // The same from outside.
        assert!(state.join(id.to_string()).join("top/upper").exists());
        let script = format!(
            "ls -d {0}; mount -t tmpfs none /opt && echo mounted; \
             mount -o remount,rw /dev && echo remounted; touch /dev/x && echo made; \
             mount --bind / /opt && echo bound; chmod 777 /dev && echo changed; \
             echo x > /proc/sys/kernel/domainname && echo set; \
             ls /proc/1/root /proc/1/cwd/ /proc/1/fd/ && echo seen; \
             ls -d /system /private-0; echo end",
            state.display()
        );
        assert_eq!(change(&machine, id, &format!("({script}) 2>/dev/null")), "end\n");
        let mounts = change(&machine, id, "cat /proc/self/mounts");
        assert!(mounts.contains(" / overlay "), "{mounts}");
        assert!(!mounts.contains(&state.display().to_string()), "{mounts}");
        engine.shutdown().await;
    });
}
