//! Services of real sandboxes.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named};
use atoll_api::error::ErrorCode;
use atoll_api::exec::{StartExec, User};
use atoll_api::sandbox::{CreateSandbox, EventKind, HoldCause, Lifecycle, State};
use atoll_api::service::{Ready, ReadyLine, Restart, Service, ServiceState, ServiceStatus};
use atoll_api::wait::HttpAnswer;
use atoll_engine::error::OperationError;
use atoll_engine::{Config, Engine, Wake};
use atoll_testkit::guest::sh;
use std::time::{Duration, Instant};

fn service(name: &str, shell: &str) -> Service {
    Service {
        name: name.to_owned(),
        shell: Some(shell.to_owned()),
        command: None,
        user: Default::default(),
        directory: None,
        env: Default::default(),
        restart: Restart::OnFailure,
        ready: None,
        ready_timeout_ms: None,
    }
}

/// A server of one page that says how often it was started.
fn web() -> Service {
    let script = "echo start >> starts; exec python3 -m http.server --bind 127.0.0.1 $PORT";
    let mut web = service("web", script);
    web.env.0.insert("PORT".to_owned(), "8123".to_owned());
    web.ready = Some(Ready::Port(8123));
    web
}

fn with(services: Vec<Service>) -> CreateSandbox {
    CreateSandbox { services, ..named("web") }
}

fn status(engine: &Engine, id: atoll_api::id::SandboxId, index: usize) -> ServiceStatus {
    engine.services(id).unwrap()[index].clone()
}

#[test]
fn a_service_is_ready_when_its_sandbox_is_and_again_after_a_wake() {
    also_as_ordinary("services::a_service_is_ready_when_its_sandbox_is_and_again_after_a_wake");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let sandbox = engine.create(with(vec![web()])).await.unwrap();
        let id = sandbox.id;
        assert!(sandbox.timeline.dependencies_ready_us > sandbox.timeline.runtime_ready_us);
        let first = status(&engine, id, 0);
        assert_eq!((first.state, first.restarts), (ServiceState::Ready, 0));
        let inside = engine.inside(id, Wake::Never).await.unwrap();
        drop(inside.guest().connect(8123).await.unwrap());
        engine.stop(id).await.unwrap();
        assert_eq!(status(&engine, id, 0).state, ServiceState::Stopped);
        // Who wakes it finds the port open at once.
        let inside = engine.inside(id, Wake::IfAsleep).await.unwrap();
        drop(inside.guest().connect(8123).await.unwrap());
        assert_eq!(machine.guest(id).sh("cat starts").text(), "start\nstart\n");
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_service_that_fails_is_started_again_and_one_that_cannot_says_why() {
    also_as_ordinary(
        "services::a_service_that_fails_is_started_again_and_one_that_cannot_says_why",
    );
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        // Fails twice, leaving a child behind each time, then stays.
        let mut flaky = service(
            "flaky",
            "echo try >> tries; [ $(wc -l < tries) -ge 3 ] && exec sleep 600; sleep 600 & exit 3",
        );
        flaky.restart = Restart::Always;
        let mut once = service("once", "exit 4");
        once.restart = Restart::Never;
        let done = service("done", "true");
        let mut lost = service("lost", "true");
        lost.directory = Some("/not/there".to_owned());
        lost.restart = Restart::Never;
        let id = engine.create(with(vec![flaky, once, done, lost])).await.unwrap().id;
        eventually("the flaky one stays", || {
            let flaky = status(&engine, id, 0);
            flaky.state == ServiceState::Ready && flaky.restarts == 2
        })
        .await;
        let once = status(&engine, id, 1);
        assert_eq!(once.state, ServiceState::Failed);
        assert_eq!(once.cause.as_deref(), Some("it exited with 4"));
        assert_eq!(status(&engine, id, 2).state, ServiceState::Stopped);
        let lost = status(&engine, id, 3);
        assert_eq!(lost.state, ServiceState::Failed);
        assert!(lost.cause.unwrap().contains("/not/there"));
        // What the attempts before left is gone: one sleep, of the one that stays.
        let sleeping = machine.guest(id).sh("pgrep -c sleep").text().to_owned();
        assert_eq!(sleeping, "1\n");
        // Its output is that of an exec.
        let exec = status(&engine, id, 0).exec_id.unwrap();
        let execs = engine.inside(id, Wake::Never).await.unwrap().guest().execs().await.unwrap();
        assert!(execs.iter().any(|one| one.id == exec.to_string() && one.ended.is_none()));
        engine.restart_service(id, "once").await.unwrap();
        eventually("it was tried once more", || {
            let once = status(&engine, id, 1);
            once.state == ServiceState::Failed && once.restarts == 1
        })
        .await;
        let refused = engine.restart_service(id, "other").await.unwrap_err();
        assert!(matches!(refused, OperationError::NoService { .. }), "{refused}");
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn the_next_server_takes_services_up_and_goes_on_to_keep_them() {
    also_as_ordinary("services::the_next_server_takes_services_up_and_goes_on_to_keep_them");
    let machine = Machine::new();
    let (id, before) = live(async {
        let engine = machine.start().await;
        let id = engine.create(with(vec![web()])).await.unwrap().id;
        // Dies without a word.
        (id, status(&engine, id, 0).exec_id.unwrap())
    });
    live(async {
        let engine = machine.start().await;
        eventually("it is known to be ready", || {
            status(&engine, id, 0).state == ServiceState::Ready
        })
        .await;
        assert_eq!(status(&engine, id, 0).exec_id, Some(before));
        assert_eq!(machine.guest(id).sh("cat starts").text(), "start\n");
        machine.guest(id).run(sh("pkill -9 -f http.server"));
        eventually("it was started again", || {
            let web = status(&engine, id, 0);
            web.state == ServiceState::Ready && web.restarts == 1
        })
        .await;
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_service_is_ready_when_it_says_so_or_answers() {
    also_as_ordinary("services::a_service_is_ready_when_it_says_so_or_answers");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let line = |pattern: &str| {
            let (stream, pattern) = (None, pattern.to_owned());
            Some(Ready::Log(ReadyLine { stream, pattern }))
        };
        let answer = |path: &str, status| {
            Some(Ready::Http(HttpAnswer { port: 8125, path: Some(path.to_owned()), status }))
        };
        // It counts as ready not when it starts to listen, but when it says so.
        let mut says = service("says", "sleep 0.3; echo listening on 80 >&2; exec sleep 600");
        says.ready = line("listening on \\d+");
        let mut silent = service("silent", "exec sleep 600");
        (silent.ready, silent.ready_timeout_ms) = (line("listening"), Some(300));
        let mut web = Service { shell: None, ..service("web", "") };
        let words = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "8125"];
        web.command = Some(words.iter().map(|word| (*word).try_into().unwrap()).collect());
        web.ready = answer("/", Some(200));
        let mut missing = service("missing", "exec sleep 600");
        (missing.ready, missing.ready_timeout_ms) = (answer("/none", Some(200)), Some(500));
        let made = engine.create(with(vec![says, silent, web, missing])).await.unwrap();
        let statuses = engine.services(made.id).unwrap();
        let states: Vec<_> = statuses.iter().map(|status| status.state).collect();
        let (ready, late) = (ServiceState::Ready, ServiceState::Late);
        assert_eq!(states, [ready, late, ready, late], "{statuses:?}");
        assert!(statuses[1].cause.as_ref().unwrap().contains("no such line"), "{statuses:?}");
        assert!(statuses[3].cause.as_ref().unwrap().contains("404"), "{statuses:?}");
        // Not all that it depends on is there.
        assert_eq!(made.timeline.dependencies_ready_us, None);
        engine.delete(made.id).await.unwrap();
        let mut bad = service("bad", "true");
        bad.ready = line("(");
        let refused = engine.create(with(vec![service("ok", "true"), bad])).await.unwrap_err();
        let field = refused.to_api().details.field;
        assert_eq!(field.as_deref(), Some("services.1.ready.log.pattern"));
        engine.shutdown().await;
    });
}

#[test]
fn a_service_of_root_needs_a_root() {
    also_as_ordinary("services::a_service_of_root_needs_a_root");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let has_root = engine.tier().1.user_root;
        assert_eq!(has_root, rustix::process::geteuid().is_root());
        let who = |user| Service { user, ..service("who", "id -u > /tmp/who; exec sleep 600") };
        let made = engine.create(with(vec![who(User::Root)])).await;
        if has_root {
            let id = made.unwrap().id;
            eventually("it says who it is", || {
                machine.guest(id).sh("cat /tmp/who").text() == "0\n"
            })
            .await;
            engine.delete(id).await.unwrap();
            return engine.shutdown().await;
        }
        let refused = made.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::UnsupportedByTier, "{refused:?}");
        assert_eq!(refused.details.capability.as_deref(), Some("user_root"));
        // So does a command.
        let id = engine.create(with(vec![who(User::User)])).await.unwrap().id;
        let inside = engine.inside(id, Wake::Never).await.unwrap();
        let start = |user| StartExec { shell: Some("true".to_owned()), user, ..Default::default() };
        inside.start_exec(start(User::User)).await.unwrap();
        let refused = inside.start_exec(start(User::Root)).await.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::UnsupportedByTier, "{refused:?}");
        assert_eq!(refused.details.capability.as_deref(), Some("user_root"));
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_service_that_never_gets_ready_holds_nobody_for_longer_than_it_says() {
    also_as_ordinary(
        "services::a_service_that_never_gets_ready_holds_nobody_for_longer_than_it_says",
    );
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let mut slow = service("slow", "sleep 600");
        slow.ready = Some(Ready::Port(8124));
        slow.ready_timeout_ms = Some(300);
        let id = engine.create(with(vec![slow.clone()])).await.unwrap().id;
        let late = status(&engine, id, 0);
        assert_eq!(late.state, ServiceState::Late);
        assert_eq!(late.cause.unwrap(), "nothing listened on port 8124 within 300 ms");
        engine.delete(id).await.unwrap();
        // Who deletes it does not wait for it either.
        slow.ready_timeout_ms = Some(600_000);
        let began = Instant::now();
        let creation = engine.create(with(vec![slow]));
        let deletion = async {
            let id = loop {
                match engine.find(&"web".parse().unwrap()) {
                    Some(sandbox) => break sandbox.id,
                    None => tokio::task::yield_now().await,
                }
            };
            eventually("it waits for its service", || status(&engine, id, 0).exec_id.is_some())
                .await;
            engine.delete(id).await.unwrap();
        };
        let (created, ()) = tokio::join!(creation, deletion);
        created.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(15));
        engine.shutdown().await;
    });
}

#[test]
fn services_hold_their_sandbox_for_a_while_only() {
    also_as_ordinary("services::services_hold_their_sandbox_for_a_while_only");
    let machine = Machine::new();
    live(async {
        let config = Config { service_hold_max: Duration::from_millis(1500), ..Config::default() };
        let engine = machine.start_with(config).await;
        let mut events = engine.subscribe();
        let lifecycle = Lifecycle { idle_stop_ms: Some(1000), ..Lifecycle::default() };
        let request = CreateSandbox { lifecycle, ..with(vec![service("rest", "exec sleep 600")]) };
        let id = engine.create(request).await.unwrap().id;
        let is_held = || {
            let holds = engine.get(id).unwrap().holds;
            holds.iter().any(|hold| matches!(hold.cause, HoldCause::Service { .. }))
        };
        eventually("its service is listed as what holds it", is_held).await;
        crate::support::told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. }))
            .await;
        assert_eq!(engine.get(id).unwrap().state, State::Stopped);
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn who_kills_a_sandbox_whose_services_are_not_ready_finds_it_stopped() {
    also_as_ordinary("services::who_kills_a_sandbox_whose_services_are_not_ready_finds_it_stopped");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let mut late = service("late", "touch begun; exec sleep 1000");
        late.ready = Some(Ready::Port(8123));
        let mut creation = Box::pin(engine.create(with(vec![late])));
        let begun = super::eventually("the service has begun", || {
            let found = engine.find(&"web".parse().unwrap());
            found.is_some_and(|web| {
                machine.state().join(web.id.to_string()).join("top/home/begun").exists()
            })
        });
        tokio::select! {
            _ = &mut creation => panic!("it waits for its service"),
            () = begun => {}
        }
        let id = engine.find(&"web".parse().unwrap()).unwrap().id;
        let (made, killed) = tokio::join!(creation, engine.kill(id));
        killed.unwrap();
        made.unwrap();
        assert_eq!(engine.get(id).unwrap().state, State::Stopped);
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}
