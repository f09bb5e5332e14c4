//! What differs between snapshots of real sandboxes, as these see it.

use super::images::{change, image, lacks_writable_root, request};
use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::snapshot::{CreateSnapshot, DiffSide, DiffSnapshots, SnapshotDiff};
use atoll_engine::Engine;
use std::collections::BTreeSet;

async fn snapshot(engine: &Engine, id: SandboxId) -> SnapshotId {
    engine.stop(id).await.unwrap();
    let taken = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
    engine.resume(id).await.unwrap();
    taken
}

/// A line for each path, as `added /a: - -> file 3 0644`.
fn told(found: &SnapshotDiff) -> Vec<String> {
    assert!(found.uncompared.is_empty() && !found.is_cut, "{found:?}");
    let side = |side: &Option<DiffSide>| match side {
        None => "-".to_owned(),
        Some(DiffSide { kind, bytes, mode, target }) => {
            let target = target.as_ref().map(|target| format!(" to {target}"));
            format!("{kind:?} {bytes} {mode}{}", target.unwrap_or_default())
        }
    };
    let line = |entry: &atoll_api::snapshot::DiffEntry| {
        let (before, after) = (side(&entry.before), side(&entry.after));
        format!("{} {:?}: {before} -> {after}", entry.difference.as_str(), entry.path)
    };
    found.entries.iter().map(line).collect()
}

const FILL: &str = "umask 022; mkdir -p a/b; echo one > a/b/file; ln -s b/file a/link; \
                    echo gone > gone; echo script > run; echo kind > kind; echo same > same";
const CHANGE: &str = "umask 022; echo other > a/b/file; rm gone; chmod 755 run; rm kind; mkdir kind; \
                      ln -s /etc/passwd kind/out; echo new > $(printf 'n\\377'); cat same > x; \
                      mv x same; ln -sfn /etc a/link; ln run hard";

#[test]
fn a_home_is_told_as_it_is_seen() {
    also_as_ordinary("diff::a_home_is_told_as_it_is_seen");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh(FILL);
        let first = snapshot(&engine, id).await;
        machine.guest(id).sh(CHANGE);
        let second = snapshot(&engine, id).await;
        let nothing = snapshot(&engine, id).await;
        let changed = [
            r#"modified "/home/user/a/b/file": File 4 0644 -> File 6 0644"#,
            r#"modified "/home/user/a/link": Link 0 0777 to b/file -> Link 0 0777 to /etc"#,
            r#"removed "/home/user/gone": File 5 0644 -> -"#,
            r#"added "/home/user/hard": - -> File 7 0755"#,
            r#"type "/home/user/kind": File 5 0644 -> Directory 0 0755"#,
            r#"added "/home/user/kind/out": - -> Link 0 0777 to /etc/passwd"#,
            r#"added "/home/user/n\xFF": - -> File 4 0644"#,
            r#"attributes "/home/user/run": File 7 0644 -> File 7 0755"#,
        ];
        let diff = async |id, with| {
            let found = engine.diff_snapshots(id, DiffSnapshots { with, limit: None }).await;
            found.unwrap()
        };
        let found = diff(second, None).await;
        assert_eq!((told(&found), found.with_id), (changed.map(str::to_owned).into(), Some(first)));
        assert_eq!(told(&diff(nothing, Some(first)).await), changed);
        assert_eq!(told(&diff(nothing, None).await), [""; 0]);
        assert_eq!(diff(first, Some(second)).await.entries.len(), changed.len());
        // The first one has nothing before it: everything was added.
        let found = diff(first, None).await;
        let words: BTreeSet<&str> =
            found.entries.iter().map(|entry| entry.difference.as_str()).collect();
        assert_eq!((words.len(), found.entries.len(), found.with_id), (1, 8, None), "{found:?}");
        let some = DiffSnapshots { with: None, limit: Some(2) };
        let some = engine.diff_snapshots(second, some).await.unwrap();
        assert_eq!((some.entries.len(), some.is_cut), (2, true));
        assert_eq!(some.entries[1].path.to_string(), "/home/user/a/link");
        // Nothing that was read is kept for it.
        for snapshot in [first, second, nothing] {
            engine.delete_snapshot(snapshot).await.unwrap();
        }
        engine.delete(id).await.unwrap();
        let layers = machine.state().join("layers");
        let is_empty = || std::fs::read_dir(&layers).unwrap().count() == 0;
        eventually("no layer is left", is_empty).await;
        engine.shutdown().await;
    });
}

#[test]
fn a_root_file_system_is_told_too_and_what_is_mounted_over_it_is_not() {
    also_as_ordinary("diff::a_root_file_system_is_told_too_and_what_is_mounted_over_it_is_not");
    let machine = Machine::new();
    if lacks_writable_root(&machine, "writable-root") {
        return;
    }
    let [root, archive] = image(&machine, |_| {});
    live(async {
        let engine = machine.start().await;
        let id = engine.create(request("one", &root)).await.unwrap().id;
        let other = engine.create(request("other", &archive)).await.unwrap().id;
        let first = snapshot(&engine, id).await;
        let writes = "umask 022; mkdir /opt/x; echo more > /opt/x/file; rm /usr/share/own/again; \
                      chmod 600 /etc/os-release; touch /tmp/gone; echo written";
        assert_eq!(change(&machine, id, writes), "written\n");
        machine.guest(id).sh("umask 022; echo at home > here");
        let second = snapshot(&engine, id).await;
        let found = engine.diff_snapshots(second, DiffSnapshots::default()).await.unwrap();
        assert_eq!(
            told(&found),
            [
                r#"attributes "/etc/os-release": File 8 0644 -> File 8 0600"#,
                r#"added "/home/user/here": - -> File 8 0644"#,
                r#"added "/opt/x": - -> Directory 0 0755"#,
                r#"added "/opt/x/file": - -> File 5 0644"#,
                r#"removed "/usr/share/own/again": File 13 0644 -> -"#,
            ]
        );
        // With the image alone: what each sandbox has of its own in /etc, and nothing of the
        // places that something is mounted on.
        let found = engine.diff_snapshots(first, DiffSnapshots::default()).await.unwrap();
        let paths: Vec<_> = found.entries.iter().map(|entry| entry.path.to_string()).collect();
        assert!(paths.contains(&"/etc/passwd".to_owned()), "{paths:?}");
        let is_own = |path: &String| path.starts_with("/etc/") || path == "/home";
        assert!(paths.iter().all(is_own), "{paths:?}");
        let of_other = snapshot(&engine, other).await;
        let with = DiffSnapshots { with: Some(of_other), limit: None };
        let refused = engine.diff_snapshots(first, with).await.unwrap_err();
        assert!(refused.to_string().contains("another image"), "{refused}");
        engine.shutdown().await;
    });
}
