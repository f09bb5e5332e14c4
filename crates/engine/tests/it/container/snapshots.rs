//! Snapshots of real sandboxes: what runs in them notices nothing, and what is made of them has
//! the files of that moment.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_api::snapshot::{CreateSnapshot, Fork, ForkSnapshot, Snapshot, SnapshotWay};
use atoll_engine::Engine;
use atoll_protocol::request::Request;
use atoll_testkit::guest::sh;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

async fn snapshot(engine: &Engine, id: SandboxId) -> Snapshot {
    engine.snapshot(id, CreateSnapshot::default()).await.unwrap()
}

fn from(id: SnapshotId) -> CreateSandbox {
    CreateSandbox { snapshot: Some(id), ..CreateSandbox::default() }
}

fn lacks_pause(engine: &Engine) -> bool {
    let lacks = !engine.tier().1.pause;
    if lacks {
        atoll_testkit::skip::skip(
            "snapshot-pause",
            "no cgroup tree can be written, as by an ordinary user",
        );
    }
    lacks
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

const FILL: &str = "mkdir -p a/b; echo one > a/b/file; ln -s b/file a/link; ln a/b/file a/hard; \
                    echo gone > gone; mkdir -m 711 shut; echo script > run; chmod 755 run";

#[test]
fn what_is_made_of_a_stopped_sandbox_has_its_files_and_writes_its_own() {
    also_as_ordinary(
        "snapshots::what_is_made_of_a_stopped_sandbox_has_its_files_and_writes_its_own",
    );
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh(FILL);
        engine.stop(id).await.unwrap();
        let taken = snapshot(&engine, id).await;
        assert_eq!((taken.way, taken.copied_bytes), (SnapshotWay::Rename, 0));
        let forks = engine.fork(taken.id, ForkSnapshot { count: 3, ..Default::default() });
        let forks = forks.await.unwrap().forks;
        let forks: Vec<SandboxId> = forks
            .into_iter()
            .map(|fork| match fork {
                Fork::Sandbox(sandbox) => sandbox.id,
                Fork::Error(error) => panic!("{error:?}"),
            })
            .collect();
        let look = "cat a/b/file a/link; stat -c '%h %a %U' a/hard run shut; stat -c '%a %U' .";
        let seen = "one\none\n2 644 user\n1 755 user\n2 711 user\n700 user\n";
        for (number, fork) in forks.iter().enumerate() {
            let guest = machine.guest(*fork);
            assert_eq!(guest.sh(look).text(), seen);
            let change = format!("echo {number} > a/b/file; rm gone; echo new > new; ls");
            assert_eq!(guest.sh(&change).text(), "a\nnew\nrun\nshut\n");
        }
        // Each has its own, and the origin what it had.
        engine.resume(id).await.unwrap();
        let guest = machine.guest(id);
        assert_eq!(guest.sh("ls; cat a/b/file").text(), "a\ngone\nrun\nshut\none\n");
        guest.sh("echo more >> a/b/file");
        assert_eq!(machine.guest(forks[2]).sh("cat a/b/file").text(), "2\n");
        // Once more, from what is above a layer already.
        engine.stop(forks[1]).await.unwrap();
        let second = snapshot(&engine, forks[1]).await;
        assert_eq!(second.parent_id, Some(taken.id));
        let last = engine.create(from(second.id)).await.unwrap().id;
        assert_eq!(machine.guest(last).sh("cat a/b/file; ls").text(), "1\na\nnew\nrun\nshut\n");
        // What is needed by nobody is removed; the rest stays.
        for id in [id, forks[0], forks[1], forks[2]] {
            engine.delete(id).await.unwrap();
        }
        engine.delete_snapshot(taken.id).await.unwrap();
        engine.delete_snapshot(second.id).await.unwrap();
        assert_eq!(machine.guest(last).sh("cat a/link").text(), "1\n");
        engine.delete(last).await.unwrap();
        let layers = machine.state().join("layers");
        eventually("no layer is left", || names(&layers).is_empty()).await;
        let trash = machine.state().join(".trash");
        eventually("nothing is left of them", || names(&trash).is_empty()).await;
        engine.shutdown().await;
    });
}

#[test]
fn what_runs_notices_nothing_and_its_snapshot_is_of_one_moment() {
    also_as_ordinary("snapshots::what_runs_notices_nothing_and_its_snapshot_is_of_one_moment");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        if lacks_pause(&engine) {
            return engine.shutdown().await;
        }
        let id = engine.create(named("web")).await.unwrap().id;
        let guest = machine.guest(id);
        guest.sh(FILL);
        guest.sh("head -c 4000000 /dev/urandom > large; sync large");
        // It holds a file open that is written, one that has no name, and a directory. What it
        // writes to the one is written to the other at once.
        let work = "mkdir -p here; cd here; exec 3>>../log 4>>../again 5<>../unlinked; \
                    rm ../unlinked; n=0; while :; do n=$((n+1)); echo $n >&3; echo $n >&4; done";
        let mut running = guest.ask(&Request::Start(sh(work)));
        running.started();
        eventually("it writes", || guest.sh("test -s log && echo yes").text() == "yes\n").await;
        let first = snapshot(&engine, id).await;
        assert!(matches!(first.way, SnapshotWay::Copy | SnapshotWay::Reflink), "{first:?}");
        assert!(first.frozen_us > 0 && first.frozen_us <= first.took_us, "{first:?}");
        let length = || guest.sh("wc -c < log").text().trim().parse::<u64>().unwrap();
        let at = length();
        eventually("it goes on", || length() > at).await;
        let second = snapshot(&engine, id).await;
        // Of what had not changed nothing was copied, and nothing is left of what was ahead.
        assert_eq!(second.files, first.files);
        assert!(first.copied_bytes >= 4_000_000, "{first:?}");
        assert!(second.copied_bytes < 4_000_000, "{first:?} {second:?}");
        assert_eq!(names(&machine.state().join("layers")).len(), 2);
        for snapshot in [&first, &second] {
            let fork = engine.create(from(snapshot.id)).await.unwrap().id;
            let look = "cat a/link; ls -d here; \
                        l=$(wc -l < log); a=$(wc -l < again); echo $((l - a))";
            let seen = machine.guest(fork).sh(look);
            let seen = seen.text();
            assert!(seen == "one\nhere\n0\n" || seen == "one\nhere\n1\n", "{seen}");
        }
        engine.shutdown().await;
    });
}

#[test]
fn the_way_back_is_to_the_files_of_the_snapshot() {
    also_as_ordinary("snapshots::the_way_back_is_to_the_files_of_the_snapshot");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let guest = machine.guest(id);
        guest.sh(FILL);
        engine.stop(id).await.unwrap();
        let taken = snapshot(&engine, id).await;
        engine.resume(id).await.unwrap();
        for round in 0..3 {
            guest.sh("rm -r a; echo changed > run; echo new > new");
            let back = engine.restore(id, taken.id).await.unwrap();
            assert_eq!(back.state, State::Running, "{round}");
            assert_eq!(guest.sh("cat a/link run; ls").text(), "one\nscript\na\ngone\nrun\nshut\n");
        }
        assert_eq!(names(&machine.state().join("layers")).len(), 1);
        engine.shutdown().await;
    });
}

/// Five rounds, each of which is above the one before.
#[test]
fn round_after_round_the_files_are_intact() {
    also_as_ordinary("snapshots::round_after_round_the_files_are_intact");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let guest = machine.guest(id);
        for round in 1..=5 {
            let add =
                format!("echo {round} >> all; echo {round} > of-{round}; cat all | wc -l; ls");
            let seen = guest.sh(&add);
            assert!(seen.text().starts_with(&format!("{round}\nall\nof-1\n")), "{}", seen.text());
            engine.stop(id).await.unwrap();
            snapshot(&engine, id).await;
            engine.resume(id).await.unwrap();
        }
        assert_eq!(guest.sh("cat all of-3").text(), "1\n2\n3\n4\n5\n3\n");
        engine.shutdown().await;
    });
}

/// A server that died between both halves leaves what it lists.
#[test]
fn what_was_half_made_is_told_from_what_is_whole() {
    also_as_ordinary("snapshots::what_was_half_made_is_told_from_what_is_whole");
    let machine = Machine::new();
    let (id, taken) = live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh(FILL);
        engine.stop(id).await.unwrap();
        let taken = snapshot(&engine, id).await;
        engine.shutdown().await;
        (id, taken)
    });
    let layers = machine.state().join("layers");
    let [whole] = &names(&layers)[..] else { panic!("{:?}", names(&layers)) };
    // One that was being copied, one that was to be exchanged, and one that nobody knows of.
    let half = layers.join(format!(".new-{}", whole.replace("lay_", "lay_0").split_at(24).0));
    std::fs::create_dir_all(half.join("home")).unwrap();
    let unchanged = layers.join("lay_00000000000000000000");
    std::fs::create_dir_all(unchanged.join("home")).unwrap();
    std::fs::write(unchanged.join("below"), "lay_00000000000000000000\n").unwrap();
    std::fs::create_dir_all(layers.join("lay_11111111111111111111/home")).unwrap();
    live(async {
        let engine = machine.start().await;
        eventually("the rest is removed", || names(&layers).len() == 1).await;
        assert_eq!(engine.get_snapshot(taken.id).unwrap(), taken);
        let fork = engine.create(from(taken.id)).await.unwrap().id;
        assert_eq!(machine.guest(fork).sh("cat a/link").text(), "one\n");
        engine.resume(id).await.unwrap();
        assert_eq!(machine.guest(id).sh("cat a/link").text(), "one\n");
        engine.shutdown().await;
    });
}

/// Twenty of one snapshot: nothing by which one is told from another is the same.
#[test]
fn forks_share_neither_names_nor_randomness() {
    also_as_ordinary("snapshots::forks_share_neither_names_nor_randomness");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        engine.stop(id).await.unwrap();
        let taken = snapshot(&engine, id).await;
        engine.resume(id).await.unwrap();
        let forks = engine.fork(taken.id, ForkSnapshot { count: 20, ..Default::default() });
        let forks = forks.await.unwrap().forks.into_iter().map(|fork| match fork {
            Fork::Sandbox(sandbox) => sandbox.id,
            Fork::Error(error) => panic!("{error:?}"),
        });
        let all: Vec<SandboxId> = forks.chain([id]).collect();
        let look = "hostname; cat /etc/hostname; getent hosts $(hostname) | wc -l; \
                    cat /etc/machine-id; echo $ATOLL_SANDBOX; echo $ATOLL_START; \
                    cat /proc/sys/kernel/random/uuid; od -An -N8 -tx8 /dev/urandom; \
                    python3 -c 'import random, uuid; print(random.random()); print(uuid.uuid4()); \
                    print(uuid.uuid1())'; date +%s";
        let seen: Vec<Vec<String>> = all
            .iter()
            .map(|id| machine.guest(*id).sh(look).text().lines().map(str::to_owned).collect())
            .collect();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        for (id, lines) in all.iter().zip(&seen) {
            assert_eq!(lines.len(), 12, "{lines:?}");
            assert_eq!((&lines[0], lines[2].as_str()), (&lines[1], "1"), "{lines:?}");
            assert_eq!((lines[3].len(), &lines[4]), (32, &id.to_string()), "{lines:?}");
            assert!(now.abs_diff(lines[11].parse::<u64>().unwrap()) < 60, "{lines:?}");
        }
        for line in [0, 3, 4, 5, 6, 7, 8, 9, 10] {
            let different: BTreeSet<&String> = seen.iter().map(|lines| &lines[line]).collect();
            assert_eq!(different.len(), all.len(), "line {line}: {seen:?}");
        }
        // The next start of the same one is told from the one before, and it is the same machine.
        let before = seen.last().unwrap();
        engine.stop(id).await.unwrap();
        engine.resume(id).await.unwrap();
        let again = machine.guest(id).sh(look);
        let again: Vec<&str> = again.text().lines().collect();
        assert_eq!((again[0], again[3]), (before[0].as_str(), before[3].as_str()));
        assert_ne!(again[5], before[5]);
        engine.shutdown().await;
    });
}

/// A file system of its own, in a mount table of this thread and of those that it starts.
pub(super) struct Disk {
    pub(super) place: tempfile::TempDir,
    _image: tempfile::NamedTempFile,
}

impl Disk {
    /// One of btrfs, where it can be had.
    pub(super) fn btrfs() -> Option<Self> {
        let none = || {
            atoll_testkit::skip::skip(
                "tree-disks",
                "run by an ordinary user, or nothing can be mounted",
            )
        };
        if !rustix::process::geteuid().is_root() || atoll_sys::mount::unshare_mounts().is_err() {
            none();
            return None;
        }
        let (place, image) =
            (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        image.as_file().set_len(512 << 20).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).arg(image.path()).output().unwrap()
        };
        let made = run("mkfs.btrfs", &["-q"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut mount = Command::new("mount");
        mount.args(["-t", "btrfs", "-o", "loop"]).arg(image.path()).arg(place.path());
        if !mount.output().unwrap().status.success() {
            none();
            return None;
        }
        Some(Self { place, _image: image })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(self.place.path(), flags).ok();
    }
}

#[test]
fn on_btrfs_what_runs_is_copied_as_a_whole() {
    let Some(disk) = Disk::btrfs() else { return };
    let machine = Machine::below(disk.place.path());
    live(async {
        let engine = machine.start().await;
        if lacks_pause(&engine) {
            return engine.shutdown().await;
        }
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh(FILL);
        machine.guest(id).sh("head -c 4000000 /dev/urandom > large; sync large");
        // What it keeps is a subvolume, and has a device of its own.
        let disk = engine.usage(id).await.unwrap().disk.unwrap();
        assert!(disk.bytes >= 4_000_000, "{disk:?}");
        machine.guest(id).sh("rm large");
        let first = snapshot(&engine, id).await;
        assert_eq!((first.way, first.files), (SnapshotWay::Subvolume, None));
        machine.guest(id).sh("echo two > a/b/file");
        engine.stop(id).await.unwrap();
        let second = snapshot(&engine, id).await;
        assert_eq!(second.way, SnapshotWay::Rename);
        for (taken, said) in [(&first, "one\n"), (&second, "two\n")] {
            let fork = engine.create(from(taken.id)).await.unwrap().id;
            assert_eq!(
                machine.guest(fork).sh("cat a/link; ls").text(),
                format!("{said}a\ngone\nrun\nshut\n")
            );
            // What is above a layer is copied as a whole too.
            let again = snapshot(&engine, fork).await;
            assert_eq!(again.way, SnapshotWay::Subvolume);
            let last = engine.create(from(again.id)).await.unwrap().id;
            assert_eq!(machine.guest(last).sh("cat a/link").text(), said);
            for id in [fork, last] {
                engine.delete(id).await.unwrap();
            }
            engine.delete_snapshot(again.id).await.unwrap();
        }
        engine.restore(id, first.id).await.unwrap();
        engine.resume(id).await.unwrap();
        assert_eq!(machine.guest(id).sh("cat a/link").text(), "one\n");
        engine.delete(id).await.unwrap();
        for taken in [&first, &second] {
            engine.delete_snapshot(taken.id).await.unwrap();
        }
        let left = [machine.state().join("layers"), machine.state().join(".trash")];
        eventually("nothing is left", || left.iter().all(|path| names(path).is_empty())).await;
        engine.shutdown().await;
    });
}
