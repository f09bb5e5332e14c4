//! Building templates on a machine in memory: what is done, what is kept of it, and what is left
//! when something fails.

use crate::support::{World, all, live, state};
use atoll_api::error::ErrorCode;
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_api::snapshot::ListSnapshots;
use atoll_api::template::{
    Build, BuildState, BuildStream, BuildTemplate, FilesDigest, TemplateRef, TemplateStep,
};
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Moment};
use atoll_engine::error::CreateError;
use atoll_engine::templates::{Limits, TemplateError};
use atoll_testkit::stand_in::StandIn;
use sha2::{Digest as _, Sha256};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A machine whose guests note what they are to do.
struct Site {
    world: World,
    done: Arc<Mutex<Vec<String>>>,
    failing: Arc<Mutex<Option<String>>>,
    _folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
        let (done, failing) = (Arc::default(), Arc::default());
        let guest = StandIn {
            done: Some(Arc::clone(&done)),
            failing: Arc::clone(&failing),
            ..StandIn::default()
        };
        let path = folder.path().join("guest");
        guest.listen(&path);
        world.host.guests_at(path);
        Self { world, done, failing, _folder: folder }
    }

    /// What was done since this was asked last.
    fn done(&self) -> Vec<String> {
        std::mem::take(&mut *self.done.lock().unwrap())
    }

    fn fail_at(&self, command: Option<&str>) {
        *self.failing.lock().unwrap() = command.map(str::to_owned);
    }

    /// Waits until nothing is left of a build but what is kept on purpose.
    async fn settled(&self, engine: &Engine) {
        self.world.settled(engine).await;
        assert!(all(engine).is_empty(), "{:?}", all(engine));
        let shown = engine.list_snapshots(&ListSnapshots::default()).unwrap();
        assert!(shown.snapshots.is_empty(), "{shown:?}");
    }
}

fn run(text: &str) -> TemplateStep {
    TemplateStep::Run(text.to_owned())
}

fn wanted(steps: &[&str]) -> BuildTemplate {
    let steps: Vec<_> = steps.iter().map(|text| run(text)).collect();
    let json = serde_json::json!({ "name": "web", "steps": steps });
    serde_json::from_value(json).unwrap()
}

async fn build(engine: &Engine, request: BuildTemplate) -> Build {
    let build = engine.begin_build(request).await.unwrap();
    assert_eq!(build.state, BuildState::Waiting);
    engine.carry_out_build(build.id, pending()).await;
    engine.get_build(build.id).unwrap()
}

async fn log(engine: &Engine, build: &Build) -> Vec<String> {
    let log = engine.build_log(build.id, 0).await.unwrap();
    assert_eq!(log.state, build.state);
    log.entries.into_iter().map(|line| line.message).collect()
}

fn of(template: &str) -> CreateSandbox {
    CreateSandbox { template: Some(template.parse().unwrap()), ..CreateSandbox::default() }
}

#[test]
fn steps_are_done_once_and_each_build_is_a_version() {
    let site = Site::new();
    live(async {
        let engine = site.world.start().await;
        let first = build(&engine, wanted(&["a", "b"])).await;
        assert_eq!((first.state, first.version), (BuildState::Ready, Some(1)), "{first:?}");
        assert_eq!((first.steps_count, first.steps_cached_count), (2, 0));
        assert_eq!(site.done(), ["a", "b"]);
        assert_eq!(
            log(&engine, &first).await,
            ["built on host", "step 1 of 2: run a", "step 2 of 2: run b", "ready: web@1"]
        );
        site.settled(&engine).await;
        // Only what is new is done, and nothing if nothing is.
        let second = build(&engine, wanted(&["a", "b", "c"])).await;
        assert_eq!((second.version, second.steps_cached_count), (Some(2), 2));
        assert_eq!(site.done(), ["c"]);
        let third = build(&engine, wanted(&["a", "b"])).await;
        assert_eq!((third.version, third.steps_cached_count), (Some(3), 2));
        assert_eq!(site.done(), [""; 0]);
        let anew = BuildTemplate { no_cache: true, ..wanted(&["a"]) };
        assert_eq!(build(&engine, anew).await.steps_cached_count, 0);
        assert_eq!(site.done(), ["a"]);
        // Another step in the middle, and all behind it is done again.
        build(&engine, wanted(&["a", "x", "c"])).await;
        assert_eq!(site.done(), ["x", "c"]);
        site.settled(&engine).await;

        let sandbox = engine.create(of("web")).await.unwrap();
        assert_eq!(sandbox.template, Some("web@5".parse().unwrap()));
        assert_eq!(sandbox.snapshot_id, None);
        let pinned = engine.create(of("web@2")).await.unwrap();
        assert_eq!(pinned.template, Some("web@2".parse().unwrap()));
        for none in ["web@9", "other"] {
            let refused = engine.create(of(none)).await.unwrap_err();
            assert!(matches!(refused, CreateError::NoTemplate { .. }), "{refused}");
            assert_eq!(refused.to_api().details.field.as_deref(), Some("template"));
        }
        engine.shutdown().await;
    });
}

#[test]
fn a_step_that_fails_says_how_and_leaves_what_was_done_before_it() {
    let site = Site::new();
    live(async {
        let engine = site.world.start().await;
        site.fail_at(Some("b"));
        let failed = build(&engine, wanted(&["a", "b", "c"])).await;
        assert_eq!((failed.state, failed.version, failed.step), (BuildState::Failed, None, 2));
        let reason = failed.reason.clone().unwrap();
        assert_eq!((reason.step, reason.exit_code), (Some(2), Some(3)));
        assert_eq!(reason.output.as_deref(), Some("b"));
        assert_eq!(reason.message, "the command of step 2 ended with 3");
        let lines = engine.build_log(failed.id, 0).await.unwrap().entries;
        let printed = lines.iter().find(|line| line.stream == BuildStream::Stderr).unwrap();
        assert_eq!((printed.step, printed.message.as_str()), (Some(2), "b"));
        assert_eq!(site.done(), ["a", "b"]);
        site.settled(&engine).await;
        assert!(engine.create(of("web")).await.is_err());
        site.fail_at(None);
        let after = build(&engine, wanted(&["a", "b", "c"])).await;
        assert_eq!((after.version, after.steps_cached_count), (Some(1), 1));
        assert_eq!(site.done(), ["b", "c"]);
        engine.shutdown().await;
    });
}

#[test]
fn a_host_that_fails_at_any_call_leaves_no_sandbox_and_no_version() {
    for call in [Call::Create, Call::Start, Call::Snapshot] {
        for moment in [Moment::Before, Moment::After] {
            let site = Site::new();
            live(async {
                let engine = site.world.start().await;
                site.world.host.fail(call, moment);
                let failed = build(&engine, wanted(&["a", "b"])).await;
                assert_eq!(failed.state, BuildState::Failed, "{call:?} {moment:?}");
                assert!(failed.reason.is_some() && failed.version.is_none());
                assert!(engine.templates().templates.is_empty());
                site.world.host.heal();
                site.settled(&engine).await;
                // What failed can be done when the host is well.
                let after = build(&engine, wanted(&["a", "b"])).await;
                assert_eq!(after.version, Some(1), "{call:?} {moment:?} {after:?}");
                site.settled(&engine).await;
                engine.shutdown().await;
            });
        }
    }
}

#[test]
fn versions_are_numbered_on_kept_and_deleted() {
    let site = Site::new();
    live(async {
        let engine = site.world.start().await;
        for text in ["a", "b", "c"] {
            build(&engine, wanted(&[text])).await;
        }
        let versions = |name: &str| -> Vec<u32> {
            let template = engine.get_template(&name.parse().unwrap()).unwrap();
            template.versions.iter().map(|version| version.version).collect()
        };
        assert_eq!((versions("web"), versions("web@2")), (vec![3, 2, 1], vec![2]));
        let keep = BuildTemplate { keep: Some(2), ..wanted(&["d"]) };
        build(&engine, keep).await;
        assert_eq!(versions("web"), [4, 3]);
        // What is made of a version goes on without it, and no number is given twice.
        let id = engine.create(of("web")).await.unwrap().id;
        engine.delete_template(&"web@4".parse().unwrap()).await.unwrap();
        assert_eq!((versions("web"), state(&engine, id)), (vec![3], State::Running));
        engine.stop(id).await.unwrap();
        engine.resume(id).await.unwrap();
        assert_eq!(build(&engine, wanted(&["d"])).await.version, Some(5));
        let name: TemplateRef = "web".parse().unwrap();
        engine.delete_template(&name).await.unwrap();
        let gone = engine.get_template(&name).unwrap_err();
        assert_eq!(gone.to_api().code, ErrorCode::NotFound);
        assert_eq!(build(&engine, wanted(&["d"])).await.version, Some(1));
        engine.shutdown().await;
    });
}

#[test]
fn a_template_is_built_on_another_and_outlives_it() {
    let site = Site::new();
    live(async {
        let engine = site.world.start().await;
        let base = BuildTemplate { steps: vec![run("a")], ..wanted(&[]) };
        build(&engine, base).await;
        let on = |steps: &[&str]| BuildTemplate {
            name: "above".parse().unwrap(),
            template: Some("web".parse().unwrap()),
            ..wanted(steps)
        };
        let above = build(&engine, on(&["b"])).await;
        assert_eq!(above.version, Some(1), "{above:?}");
        assert_eq!(site.done(), ["a", "b"]);
        let shown = engine.get_template(&"above".parse().unwrap()).unwrap();
        assert_eq!(shown.versions[0].template, Some("web@1".parse().unwrap()));
        engine.delete_template(&"web".parse().unwrap()).await.unwrap();
        engine.create(of("above")).await.unwrap();
        let refused = engine.begin_build(on(&["b"])).await.unwrap_err();
        assert!(matches!(refused, TemplateError::NoBase { .. }), "{refused}");
        // One that does nothing is what it is built on.
        let nothing = build(&engine, wanted(&[])).await;
        assert_eq!((nothing.state, nothing.steps_count), (BuildState::Ready, 0), "{nothing:?}");
        engine.shutdown().await;
    });
}

#[test]
fn files_are_sent_before_they_are_copied() {
    let site = Site::new();
    live(async {
        let engine = site.world.start().await;
        let bytes = b"an archive";
        let files = FilesDigest::from_bytes(Sha256::digest(bytes).into());
        let json = serde_json::json!({
            "name": "web", "steps": [{ "copy": { "files": files, "to": "app" } }],
        });
        let request: BuildTemplate = serde_json::from_value(json).unwrap();
        let refused = engine.begin_build(request.clone()).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("steps.0.copy.files"));
        assert!(!engine.build_files(files).present);
        engine.take_build_files(files, &mut &bytes[..]).await.unwrap();
        assert!(engine.build_files(files).present);
        assert_eq!(build(&engine, request.clone()).await.version, Some(1));
        assert_eq!(site.done(), ["/home/user/app"]);
        assert_eq!(build(&engine, request).await.steps_cached_count, 1);
        assert_eq!(site.done(), [""; 0]);
        engine.shutdown().await;
    });
}

#[test]
fn a_build_that_is_cancelled_or_whose_server_ends_leaves_nothing() {
    let site = Site::new();
    let (last, id) = live(async {
        let engine = site.world.start().await;
        build(&engine, wanted(&["a"])).await;
        let gate = site.world.host.hold(Call::Snapshot, Moment::Before);
        let begun = engine.begin_build(wanted(&["a", "b"])).await.unwrap();
        let cancel = async {
            gate.reached(1).await;
            let cancelled = tokio::join!(engine.cancel_build(begun.id), async {
                // It is held until somebody lets it go on.
                site.world.host.heal();
                gate.open();
            });
            cancelled.0.unwrap()
        };
        let ((), cancelled) = tokio::join!(engine.carry_out_build(begun.id, pending()), cancel);
        assert_eq!((cancelled.state, cancelled.version), (BuildState::Cancelled, None));
        let again = engine.cancel_build(begun.id).await.unwrap_err();
        assert_eq!(again.to_api().code, ErrorCode::WrongState);
        site.settled(&engine).await;
        // A server that shuts down says so.
        let stopped = engine.begin_build(wanted(&["c"])).await.unwrap();
        engine.carry_out_build(stopped.id, async {}).await;
        let stopped = engine.get_build(stopped.id).unwrap();
        assert_eq!(stopped.state, BuildState::Failed);
        assert!(stopped.reason.unwrap().message.contains("shut down"));
        // One that dies leaves a build under way, with its sandbox.
        let gate = site.world.host.hold(Call::Snapshot, Moment::Before);
        let begun = engine.begin_build(wanted(&["a", "d"])).await.unwrap();
        tokio::select! {
            () = engine.carry_out_build(begun.id, pending()) => panic!("it is held"),
            () = gate.reached(1) => {}
        }
        let sandbox = engine.get_build(begun.id).unwrap().sandbox_id.unwrap();
        assert_eq!(engine.get_build(begun.id).unwrap().state, BuildState::Building);
        site.world.host.heal();
        gate.caller_is_gone();
        (begun.id, sandbox)
    });
    live(async {
        let engine = site.world.start().await;
        let failed = engine.get_build(last).unwrap();
        assert_eq!(failed.state, BuildState::Failed);
        assert!(failed.reason.unwrap().message.contains("ended while it was under way"));
        assert!(failed.ended_at.is_some() && failed.sandbox_id.is_none());
        site.world.host.until(|host| !host.ids().contains(&id)).await;
        site.settled(&engine).await;
        // What was there before is there.
        assert_eq!(
            engine.create(of("web")).await.unwrap().template,
            Some("web@1".parse().unwrap())
        );
        engine.shutdown().await;
    });
}

#[test]
fn outcomes_of_steps_are_let_go_of_but_not_those_of_versions() {
    let mut site = Site::new();
    let limits = Limits { steps_max: 2, builds_kept: 2, ..Limits::default() };
    site.world.config.templates = limits;
    live(async {
        let engine = site.world.start().await;
        for text in ["a", "b", "c", "d"] {
            build(&engine, wanted(&[text])).await;
            site.world.clock.advance(Duration::from_secs(1));
        }
        site.done();
        // Those of the last two are there, and the others' files because of their versions.
        site.world.host.until(|host| host.layers().len() == 4).await;
        engine.delete_template(&"web".parse().unwrap()).await.unwrap();
        site.world.host.until(|host| host.layers().len() == 2).await;
        assert_eq!(engine.builds(None).builds.len(), 2);
        build(&engine, wanted(&["d"])).await;
        build(&engine, wanted(&["a"])).await;
        assert_eq!(site.done(), ["a"]);
        // In the end time takes them all.
        engine.delete_template(&"web".parse().unwrap()).await.unwrap();
        site.world.clock.advance(limits.steps_kept_for + Duration::from_secs(1));
        site.world.host.until(|host| host.layers().is_empty()).await;
        engine.shutdown().await;
    });
}
