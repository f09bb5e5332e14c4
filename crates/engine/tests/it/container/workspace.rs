//! Files that real sandboxes begin with.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::sandbox::{CreateSandbox, Workspace, WorkspaceGit};
use atoll_api::service::{Restart, Service, ServiceState};
use atoll_engine::{Archive, Beside, Config};
use atoll_testkit::image::copy_programs;
use std::io::{self, Cursor};
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// An archive with one file, which says `begun`.
fn packed() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/state"), "begun").unwrap();
    let packed = Command::new("tar").arg("-C").arg(dir.path()).args(["-c", "."]).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    packed.stdout
}

fn beside(archive: impl AsyncRead + Send + Unpin + 'static) -> Beside {
    Beside { archive: Some(Box::new(archive) as Archive), once: None }
}

/// Says what a test has it say when it is asked for bytes.
struct Then(fn() -> Poll<io::Result<()>>);

impl AsyncRead for Then {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0()
    }
}

#[test]
fn an_archive_is_there_before_services_start() {
    also_as_ordinary("workspace::an_archive_is_there_before_services_start");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let once = Service {
            name: "once".to_owned(),
            shell: Some("cat state > ../seen".to_owned()),
            command: None,
            user: Default::default(),
            directory: Some("/home/user/app/src".to_owned()),
            env: Default::default(),
            restart: Restart::Never,
            ready: None,
            ready_timeout_ms: None,
        };
        let workspace = Workspace { path: Some("/home/user/app".try_into().unwrap()), git: None };
        let request =
            CreateSandbox { workspace: Some(workspace), services: vec![once], ..named("web") };
        let made = engine.create_with(request, beside(Cursor::new(packed()))).await.unwrap();
        assert_eq!(made.workspace.unwrap().to_string(), "/home/user/app");
        eventually("the service has ended well", || {
            engine.services(made.id).unwrap()[0].state == ServiceState::Stopped
        })
        .await;
        let guest = machine.guest(made.id);
        assert_eq!(guest.sh("cat app/seen; stat -c %U app/src/state").text(), "begunuser\n");
        // It is kept like everything in the home.
        engine.stop(made.id).await.unwrap();
        engine.resume(made.id).await.unwrap();
        assert_eq!(machine.guest(made.id).sh("cat app/src/state").text(), "begun");
        engine.delete(made.id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn an_archive_that_breaks_off_leaves_neither_a_sandbox_nor_its_name() {
    also_as_ordinary("workspace::an_archive_that_breaks_off_leaves_neither_a_sandbox_nor_its_name");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let half = || Cursor::new(packed()[..1000].to_vec());
        let broken = Then(|| Poll::Ready(Err(io::Error::other("torn"))));
        let cut = engine.create_with(named("web"), beside(half().chain(broken))).await;
        let cut = cut.unwrap_err().to_api();
        assert_eq!((cut.code, cut.took_effect), (ErrorCode::Invalid, TookEffect::No), "{cut:?}");
        // One that ends too soon, and one that is none.
        for archive in [half(), Cursor::new(vec![b'x'; 2000])] {
            let refused = engine.create_with(named("web"), beside(archive)).await.unwrap_err();
            let refused = refused.to_api();
            assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
            assert_eq!(refused.details.field.as_deref(), Some("workspace"));
        }
        // One that goes on for ever, of which the caller has had enough.
        let endless = half().chain(Then(|| Poll::Pending));
        let caller = engine.create_with(named("web"), beside(endless));
        let unpacked = eventually("the workspace is begun", || {
            let found = engine.find(&"web".parse().unwrap());
            found.is_some_and(|web| {
                machine.state().join(web.id.to_string()).join("top/home/workspace").exists()
            })
        });
        tokio::select! {
            _ = caller => panic!("it waits for the rest"),
            () = unpacked => {}
        }
        eventually("nothing is left", || machine.left().is_empty()).await;
        let made = engine.create_with(named("web"), beside(Cursor::new(packed()))).await.unwrap();
        assert_eq!(machine.guest(made.id).sh("cat workspace/src/state").text(), "begun");
        engine.delete(made.id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn an_archive_that_does_not_come_in_time_is_given_up() {
    also_as_ordinary("workspace::an_archive_that_does_not_come_in_time_is_given_up");
    let machine = Machine::new();
    live(async {
        let workspace_timeout = Duration::from_millis(500);
        let config = Config { workspace_timeout, ..Config::default() };
        let engine = machine.start_with(config).await;
        let endless = Cursor::new(packed()[..1000].to_vec()).chain(Then(|| Poll::Pending));
        let late = engine.create_with(named("web"), beside(endless)).await.unwrap_err().to_api();
        assert_eq!((late.code, late.took_effect), (ErrorCode::TimedOut, TookEffect::No));
        assert_eq!(late.details.limit.as_deref(), Some("workspace_timeout_ms"));
        assert_eq!(machine.left(), [""; 0]);
        let made = engine.create_with(named("web"), beside(Cursor::new(packed()))).await.unwrap();
        engine.delete(made.id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_repository_of_the_image_is_cloned_and_one_elsewhere_refused() {
    also_as_ordinary("workspace::a_repository_of_the_image_is_cloned_and_one_elsewhere_refused");
    let machine = Machine::new();
    let image = tempfile::tempdir().unwrap();
    image_with_bundle(image.path());
    live(async {
        let engine = machine.start().await;
        let from = |url: &str, branch: Option<&str>| CreateSandbox {
            image: image.path().to_str().unwrap().to_owned(),
            workspace: Some(Workspace {
                path: None,
                git: Some(WorkspaceGit {
                    url: url.to_owned(),
                    branch: branch.map(str::to_owned),
                    depth: None,
                }),
            }),
            ..named("web")
        };
        let made = engine.create(from("/srv/app.bundle", Some("next"))).await.unwrap();
        assert_eq!(machine.guest(made.id).sh("cat workspace/file").text(), "two\n");
        assert!(made.timeline.dependencies_ready_us > made.timeline.runtime_ready_us);
        engine.delete(made.id).await.unwrap();
        for (url, branch, code, field) in [
            ("https://example.com/a.git", None, ErrorCode::RefusedByPolicy, "workspace"),
            ("ext::sh -c id", None, ErrorCode::Invalid, "workspace.git.url"),
            ("/srv/none", None, ErrorCode::Invalid, "workspace"),
            ("/srv/app.bundle", Some("none"), ErrorCode::Invalid, "workspace"),
        ] {
            let refused = engine.create(from(url, branch)).await.unwrap_err().to_api();
            assert_eq!(refused.code, code, "{url}: {refused:?}");
            assert_eq!(refused.details.field.as_deref(), Some(field), "{refused:?}");
            assert_eq!(refused.took_effect, TookEffect::No);
            assert!(engine.find(&"web".parse().unwrap()).is_none());
        }
        eventually("nothing is left", || machine.left().is_empty()).await;
        engine.shutdown().await;
    });
}

/// Git, a shell, and a bundle with two branches. A bundle is nobody's repository, so git
/// does not ask whose it is.
fn image_with_bundle(root: &Path) {
    copy_programs(root, &["sh", "git", "cat"]);
    std::fs::create_dir_all(root.join("srv")).unwrap();
    let work = tempfile::tempdir().unwrap();
    let script = "git init -q -b main . && echo one > file && git add . && git commit -q -m first \
        && git checkout -q -b next && echo two > file && git commit -q -a -m second \
        && git bundle create -q \"$OUT\" main next";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(work.path())
        .env("OUT", root.join("srv/app.bundle"))
        .env("HOME", work.path())
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "a")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn who_waited_for_a_creation_that_was_given_up_has_its_own_archive_still() {
    also_as_ordinary(
        "workspace::who_waited_for_a_creation_that_was_given_up_has_its_own_archive_still",
    );
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let endless = Cursor::new(packed()[..1000].to_vec()).chain(Then(|| Poll::Pending));
        let mut first = Box::pin(engine.get_or_create_with(named("web"), beside(endless)));
        let begun = eventually("the workspace is begun", || {
            let found = engine.find(&"web".parse().unwrap());
            found.is_some_and(|web| {
                machine.state().join(web.id.to_string()).join("top/home/workspace").exists()
            })
        });
        tokio::select! {
            _ = &mut first => panic!("it waits for the rest"),
            () = begun => {}
        }
        let own = beside(Cursor::new(packed()));
        let mut second = Box::pin(engine.get_or_create_with(named("web"), own));
        // It waits with the first one, as long as that one is there.
        tokio::select! {
            biased;
            _ = &mut second => panic!("the name is taken by one that is not whole"),
            () = std::future::ready(()) => {}
        }
        engine.delete(engine.find(&"web".parse().unwrap()).unwrap().id).await.unwrap();
        drop(first);
        let got = second.await.unwrap();
        assert!(got.is_new);
        assert_eq!(machine.guest(got.sandbox.id).sh("cat workspace/src/state").text(), "begun");
        engine.delete(got.sandbox.id).await.unwrap();
        engine.shutdown().await;
    });
}
