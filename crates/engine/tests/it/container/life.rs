//! One sandbox's life on the real kernel.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::sandbox::{CreateSandbox, Limits, State};
use atoll_engine::backend::Backend as _;
use atoll_engine::error::{CreateError, OperationError};
use atoll_protocol::request::Request;
use atoll_spawner::client;
use atoll_testkit::guest::sh;
use std::io::ErrorKind;
use std::time::Duration;

#[test]
fn a_sandbox_is_created_used_stopped_started_and_deleted() {
    also_as_ordinary("life::a_sandbox_is_created_used_stopped_started_and_deleted");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let sandbox = engine.create(named("web")).await.unwrap();
        let (id, timeline) = (sandbox.id, sandbox.timeline);
        assert_eq!(sandbox.state, State::Running);
        let stages = [
            timeline.accepted_us,
            timeline.allocated_us,
            timeline.filesystem_ready_us,
            timeline.network_ready_us,
            timeline.runtime_ready_us,
        ];
        assert!(stages.iter().all(Option::is_some) && stages.is_sorted(), "{timeline:?}");
        let guest = machine.guest(id);
        assert_eq!(
            guest.sh("id -un; pwd; echo kept > file; echo $USER").text(),
            "user\n/home/user\nuser\n"
        );
        assert_eq!(engine.stop(id).await.unwrap().state, State::Stopped);
        assert!(!guest.is_there());
        // What it wrote is kept; what ran is gone.
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
        assert_eq!(guest.sh("cat file").text(), "kept\n");
        engine.delete(id).await.unwrap();
        eventually("nothing is left", || machine.left().is_empty()).await;
        assert!(!guest.is_there());
        engine.shutdown().await;
    });
}

#[test]
fn variables_and_a_directory_as_image_are_the_requests() {
    also_as_ordinary("life::variables_and_a_directory_as_image_are_the_requests");
    let machine = Machine::new();
    let root = machine.dir.path().join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::create_dir_all(root.join("home/user")).unwrap();
    std::fs::write(root.join("marker"), "mine").unwrap();
    live(async {
        let engine = machine.start().await;
        let mut request = named("web");
        request.env.0.insert("COLOUR".into(), "blue and green".into());
        request.env.0.insert("LANG".into(), "de_DE".into());
        let id = engine.create(request).await.unwrap().id;
        let ran = machine.guest(id).sh("echo $COLOUR, $LANG");
        assert_eq!(ran.text(), "blue and green, de_DE\n");
        for (image, reason) in [
            ("no-such", "neither host nor"),
            ("/no/such", "No such file"),
            (root.join("home").to_str().unwrap(), "no root file system"),
            (machine.dir.path().to_str().unwrap(), "or holds sandboxes"),
        ] {
            let request = CreateSandbox { image: image.into(), ..named("other") };
            let refused = engine.create(request).await.unwrap_err();
            let text = format!("{refused:?}");
            assert!(text.contains(reason), "{text}");
        }
        let image = root.to_str().unwrap().to_owned();
        let own = engine.create(CreateSandbox { image, ..named("own") }).await.unwrap();
        // There is no program in it, but it is there.
        assert_eq!(own.state, State::Running);
        let looked = machine.guest(own.id).answer(&Request::Look(atoll_protocol::files::Look {
            path: "/marker".try_into().unwrap(),
            follow: false,
        }));
        assert!(looked.is_ok(), "{looked:?}");
        engine.shutdown().await;
    });
}

#[test]
fn a_pause_stands_still_and_loses_nothing() {
    also_as_ordinary("life::a_pause_stands_still_and_loses_nothing");
    let machine = Machine::new();
    let can_pause = machine.backend().capabilities().pause;
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let guest = machine.guest(id);
        let start = sh(
            "echo ready; read x < /dev/null; i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done",
        );
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        let count = || {
            std::fs::read_to_string(machine.state().join(id.to_string()).join("top/home/count"))
                .unwrap_or_default()
        };
        eventually("a count", || !count().is_empty()).await;
        if !can_pause {
            let refused = engine.pause(id).await.unwrap_err();
            assert!(matches!(refused, OperationError::Unsupported { .. }), "{refused:?}");
            assert_eq!(engine.get(id).unwrap().state, State::Running);
            engine.shutdown().await;
            return;
        }
        assert_eq!(engine.pause(id).await.unwrap().state, State::Paused);
        let before = count();
        let socket = machine.state().join(id.to_string()).join("guest");
        let silent = client::ask(&socket, &Request::Guest, Duration::from_millis(300));
        assert_eq!(silent.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(count(), before);
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
        eventually("it goes on", || count() != before && !count().is_empty()).await;
        assert!(guest.status(&start.id).ended.is_none());
        // Paused, it is killed and deleted all the same.
        engine.pause(id).await.unwrap();
        engine.delete(id).await.unwrap();
        eventually("nothing is left", || machine.left().is_empty()).await;
        engine.shutdown().await;
    });
}

#[test]
fn limits_hold_or_are_refused() {
    also_as_ordinary("life::limits_hold_or_are_refused");
    let machine = Machine::new();
    let capabilities = machine.backend().capabilities();
    live(async {
        let engine = machine.start().await;
        let limits = Limits { pids: Some(20), ..Limits::default() };
        let created = engine.create(CreateSandbox { limits, ..named("web") }).await;
        if !capabilities.limit_pids {
            assert!(matches!(created, Err(CreateError::Unsupported { .. })), "{created:?}");
            engine.shutdown().await;
            return;
        }
        let guest = machine.guest(created.unwrap().id);
        let ran = guest.sh("i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; echo made");
        assert!(String::from_utf8_lossy(&ran.stderr).contains("fork"), "{ran:?}");
        engine.shutdown().await;
    });
}

#[test]
fn two_sandboxes_of_root_are_different_users() {
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let mut owners = Vec::new();
        for name in ["one", "other"] {
            let id = engine.create(named(name)).await.unwrap().id;
            machine.guest(id).sh("touch file");
            let file = machine.state().join(id.to_string()).join("top/home/file");
            owners.push(std::os::unix::fs::MetadataExt::uid(&file.metadata().unwrap()));
        }
        let own = rustix::process::geteuid().as_raw();
        if own == 0 {
            assert!(owners[0] != owners[1] && !owners.contains(&0), "{owners:?}");
        } else {
            assert_eq!(owners, [own, own]);
        }
        engine.shutdown().await;
    });
}

#[test]
fn what_a_sandbox_keeps_is_closed_to_others_on_the_host() {
    let machine = Machine::new();
    if !rustix::process::geteuid().is_root() {
        atoll_testkit::skip::skip("as-root", "run by an ordinary user");
        return;
    }
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh("echo words > file; chmod 666 file; chmod 777 .");
        let file = machine.state().join(id.to_string()).join("top/home/file");
        let read = |uid| {
            use std::os::unix::process::CommandExt as _;
            let mut cat = std::process::Command::new("cat");
            let output = cat.arg(&file).uid(uid).gid(uid).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(read(atoll_testkit::run::ORDINARY_UID), "");
        assert_eq!(read(0), "words\n");
        engine.shutdown().await;
    });
}
