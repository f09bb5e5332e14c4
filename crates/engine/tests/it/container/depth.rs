//! Long chains of layers below real sandboxes, made short in the background.

use super::images::{change, image, lacks_writable_root, request};
use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, live_long, named};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::CreateSnapshot;
use atoll_engine::Engine;
use atoll_engine::snapshots::LAYERS_MAX;
use std::path::Path;

async fn snapshot(engine: &Engine, id: SandboxId) -> SnapshotId {
    engine.stop(id).await.unwrap();
    engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id
}

async fn create(engine: &Engine, snapshot: SnapshotId) -> SandboxId {
    let from = CreateSandbox { snapshot: Some(snapshot), ..CreateSandbox::default() };
    engine.create(from).await.unwrap().id
}

/// Everything that a round may do to a file system, and a look at what came of it.
fn round(number: usize) -> String {
    let (old, older) = (number.saturating_sub(2), number.saturating_sub(7));
    format!(
        "echo {number} >> all; echo {number} > of-{number}; ln of-{number} again-{number}; \
         rm -f of-{old}; rm -rf dir; mkdir -p dir/deep deep/{number}; echo {number} > dir/deep/file; \
         mv deep/{old} deep/moved-{old} 2>/dev/null; rm -rf deep/moved-{older}; \
         echo {number} > deep/{number}/file; ln -sfn of-{number} last; chmod $((700 + {number} % 8)) dir; \
         mkfifo pipe-{number}; {}",
        look(Some(number))
    )
}

/// All that a file has, with the first of its names in place of how many there are: how many the
/// kernel tells includes names in other layers. The time of the home itself is that of its making.
const LOOK: &str = r"import hashlib, os, stat, sys
if sys.argv[1:]: os.setxattr('all', 'user.round', sys.argv[1].encode())
first = {}
for top, dirs, files in sorted(os.walk('.')):
    for name in sorted(dirs + files) + ['.']:
        path = os.path.join(top, name); s = os.lstat(path); content = ''
        if stat.S_ISREG(s.st_mode): content = hashlib.sha256(open(path, 'rb').read()).hexdigest()
        if stat.S_ISLNK(s.st_mode): content = os.readlink(path)
        attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(os.listxattr(path, follow_symlinks=False))]
        links = first.setdefault(s.st_ino, path)
        print(path, oct(s.st_mode), s.st_uid, s.st_gid, s.st_size * stat.S_ISREG(s.st_mode), 0 if path == './.' else s.st_mtime_ns, links, content, attributes)
";

/// The script that tells all that, and before changes an attribute.
fn look(number: Option<usize>) -> String {
    let number = number.map_or_else(String::new, |number| number.to_string());
    format!("python3 - {number} <<'END'\n{LOOK}END")
}

/// Layers below a sandbox, as its next start would have them.
fn depth(machine: &Machine, id: SandboxId) -> usize {
    let below = machine.state().join(id.to_string()).join("top/below");
    std::fs::read_to_string(below).unwrap_or_default().lines().count()
}

fn count(path: &Path) -> usize {
    std::fs::read_dir(path).map_or(0, Iterator::count)
}

#[test]
fn thirty_generations_are_as_they_were_and_not_deep() {
    also_as_ordinary("depth::thirty_generations_are_as_they_were_and_not_deep");
    let machine = Machine::new();
    live_long(async {
        let engine = machine.start().await;
        let mut id = engine.create(named("web")).await.unwrap().id;
        let mut kept = Vec::new();
        let mut runs = None;
        for number in 1..=30 {
            let seen = machine.guest(id).sh(&round(number)).text().to_owned();
            assert!(seen.contains("./of-"), "{seen}");
            let taken = snapshot(&engine, id).await;
            let next = create(&engine, taken).await;
            assert_eq!(machine.guest(next).sh(&look(None)).text(), seen, "{number}");
            match number {
                // One that runs all the while, above layers that are made one.
                12 => runs = Some((create(&engine, taken).await, seen)),
                _ if number % 6 == 0 => kept.push((taken, seen)),
                _ => engine.delete_snapshot(taken).await.unwrap(),
            }
            engine.delete(id).await.unwrap();
            id = next;
        }
        let (runs, ran) = runs.unwrap();
        let is_short = || depth(&machine, id) <= LAYERS_MAX && depth(&machine, runs) <= LAYERS_MAX;
        eventually("it is not deep", is_short).await;
        // What has not been read yet is read where it was mounted.
        assert_eq!(machine.guest(runs).sh(&look(None)).text(), ran);
        engine.stop(runs).await.unwrap();
        engine.resume(runs).await.unwrap();
        assert_eq!(machine.guest(runs).sh(&look(None)).text(), ran);
        for (snapshot, seen) in &kept {
            let fork = create(&engine, *snapshot).await;
            assert!(depth(&machine, fork) <= LAYERS_MAX + 1, "{}", depth(&machine, fork));
            assert_eq!(machine.guest(fork).sh(&look(None)).text(), seen);
            engine.restore(runs, *snapshot).await.unwrap();
            assert_eq!(machine.guest(runs).sh(&look(None)).text(), seen);
            engine.delete(fork).await.unwrap();
        }
        // The next server finds nothing that is not whole.
        engine.shutdown().await;
        let engine = machine.start().await;
        engine.stop(id).await.unwrap();
        engine.resume(id).await.unwrap();
        machine.guest(id).sh("echo more >> all");
        for id in [id, runs] {
            engine.delete(id).await.unwrap();
        }
        for (snapshot, _) in kept {
            engine.delete_snapshot(snapshot).await.unwrap();
        }
        for snapshot in engine.list_snapshots(&Default::default()).unwrap().snapshots {
            engine.delete_snapshot(snapshot.id).await.unwrap();
        }
        let left = [machine.state().join("layers"), machine.state().join(".trash")];
        eventually("nothing is left", || left.iter().all(|path| count(path) == 0)).await;
        engine.shutdown().await;
    });
}

#[test]
fn a_root_file_system_is_not_deep_either() {
    also_as_ordinary("depth::a_root_file_system_is_not_deep_either");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let [root, _] = image(&machine, |_| {});
    live(async {
        let engine = machine.start().await;
        let mut id = engine.create(request("one", &root)).await.unwrap().id;
        let look =
            "ls -R /opt /usr/share /var; cat /opt/all /etc/os-release; stat -c '%a %u' /opt/* /opt";
        for number in 1..=13 {
            let writes = format!(
                "echo {number} >> /opt/all; mkdir /opt/{number}; echo {number} > /opt/{number}/file; \
                 rm -r /opt/$(({number} - 3)); rm /usr/share/own/again; mv /usr/share/own /usr/share/own-{number}; \
                 mkdir /usr/share/own; ln /opt/all /opt/hard-{number}; true"
            );
            change(&machine, id, &writes);
            let seen = machine.guest(id).sh(look).text().to_owned();
            assert!(seen.contains(&format!("own-{number}")), "{seen}");
            let taken = snapshot(&engine, id).await;
            let next = create(&engine, taken).await;
            assert_eq!(machine.guest(next).sh(look).text(), seen, "{number}");
            engine.delete(id).await.unwrap();
            id = next;
        }
        eventually("it is not deep", || depth(&machine, id) <= LAYERS_MAX).await;
        let seen = machine.guest(id).sh(look).text().to_owned();
        engine.stop(id).await.unwrap();
        engine.resume(id).await.unwrap();
        assert_eq!(machine.guest(id).sh(look).text(), seen);
        engine.shutdown().await;
    });
}
