//! A sandbox that sleeps is woken by who looks, and held while somebody does.

use super::{Inside, Site, eventually, expose, host, open};
use crate::support::{World, live};
use atoll_api::sandbox::{HoldCause, State};
use atoll_engine::backend::fake::{Call, Moment};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// A port on which nothing listens yet, and nothing of another test will.
fn reserved() -> (std::net::TcpListener, u16) {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    (taken, port)
}

#[test]
fn many_requests_wake_it_once_and_wait_for_its_port() {
    live(async {
        let (reserved, port) = reserved();
        let site = Site::new(World::new(), port).await;
        drop(reserved);
        site.server.engine.stop(site.id).await.unwrap();
        let starts = site.world.host.count(Call::Start);
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let (address, host) = (site.server.address, site.host());
            requests.spawn(async move { open(address, &host, "/", &[]).await.status().as_u16() });
        }
        let engine = &site.server.engine;
        eventually("it runs", || engine.get(site.id).unwrap().state == State::Running).await;
        let guest = &site.world.guest;
        eventually("all have asked", || *guest.connections.lock().unwrap() >= 50).await;
        assert!(requests.try_join_next().is_none(), "the port is not there yet");
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let _inside = Inside::mirror_on(listener);
        while let Some(status) = requests.join_next().await {
            assert_eq!(status.unwrap(), 200);
        }
        assert_eq!(site.world.host.count(Call::Start), starts + 1);
    });
}

#[test]
fn one_that_is_paused_goes_on() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        for _ in 0..3 {
            site.server.engine.pause(site.id).await.unwrap();
            assert_eq!(site.get("/").await.status, 200);
            assert_eq!(site.server.engine.get(site.id).unwrap().state, State::Running);
        }
    });
}

#[test]
fn what_cannot_be_started_or_does_not_listen_in_time_is_not_ready() {
    live(async {
        let (reserved, port) = reserved();
        let mut world = World::new();
        world.previews.wake_max = Duration::from_millis(300);
        let site = Site::new(world, port).await;
        drop(reserved);
        site.server.engine.stop(site.id).await.unwrap();
        let late = site.get("/").await;
        assert_eq!(late.code(503), "not_ready");
        assert_eq!(late.headers["retry-after"], "2");
        // From now on it runs, and nobody woke it.
        site.world.guest.ports.lock().unwrap().push(8080);
        let closed = site.get("/").await;
        assert_eq!(closed.code(502), "unreachable");
        assert_eq!(closed.json()["error"]["details"]["listening"], json!([8080]));
        site.server.engine.stop(site.id).await.unwrap();
        site.world.host.fail(Call::Start, Moment::Before);
        assert_eq!(site.get("/").await.code(503), "not_ready");
        site.world.host.heal();
        // One that takes too long to start.
        let held = site.world.host.hold(Call::Start, Moment::Before);
        assert_eq!(site.get("/").await.code(503), "not_ready");
        held.open();
    });
}

#[test]
fn what_goes_on_holds_it_awake_and_what_is_over_does_not() {
    live(async {
        let inside = Inside::talks(async |mut stream: TcpStream, _| {
            drop(stream.read(&mut [0; 1]).await);
        })
        .await;
        let mirror = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let other = host(&expose(&site.server, mirror.port, &json!({})).await);
        let holds = || site.server.engine.get(site.id).unwrap().holds;
        let open: Vec<_> = (0..3)
            .map(|_| {
                let (address, host) = (site.server.address, site.host());
                tokio::spawn(async move { open(address, &host, "/", &[]).await })
            })
            .collect();
        let guest = &site.world.guest;
        eventually("all are there", || *guest.connections.lock().unwrap() == 3).await;
        assert_eq!(site.ask(&other, "/", &[]).await.status, 200);
        // One hold for all of them.
        let causes: Vec<_> = holds().into_iter().map(|hold| hold.cause).collect();
        assert_eq!(causes, [HoldCause::Stream { name: "preview".to_owned() }]);
        open.iter().for_each(tokio::task::JoinHandle::abort);
        eventually("nothing holds it", || holds().is_empty()).await;
        assert_eq!(site.ask(&other, "/", &[]).await.status, 200);
        eventually("nothing holds it", || holds().is_empty()).await;
        let metrics = site.server.local().get("/metrics").await.text;
        assert!(metrics.contains("atoll_preview_requests_total{status=\"200\"} 2"), "{metrics}");
        assert!(metrics.contains("atoll_preview_streams 0"), "{metrics}");
    });
}

#[test]
fn one_sandbox_has_so_many_streams_and_no_more() {
    live(async {
        let inside = Inside::talks(async |mut stream: TcpStream, _| {
            drop(stream.read(&mut [0; 1]).await);
        })
        .await;
        let mut world = World::new();
        world.previews.streams_max = 2;
        let site = Site::new(world, inside.port).await;
        let open: Vec<_> = (0..2)
            .map(|_| {
                let (address, host) = (site.server.address, site.host());
                tokio::spawn(async move { open(address, &host, "/", &[]).await })
            })
            .collect();
        let guest = &site.world.guest;
        eventually("both are there", || *guest.connections.lock().unwrap() == 2).await;
        let full = site.get("/").await;
        assert_eq!(full.code(429), "capacity");
        assert_eq!(full.json()["error"]["details"]["limit"], "preview_streams_max");
        // Others are not affected.
        let local = site.server.local();
        local.json("PUT", "/v1/sandboxes/other", &json!({})).await.expect(201);
        let mirror = Inside::mirror().await;
        let path = format!("/v1/sandboxes/other/ports/{}/expose", mirror.port);
        let other = local.json("POST", &path, &json!({})).await.expect(200);
        assert_eq!(site.ask(&host(&other), "/", &[]).await.status, 200);
        open.iter().for_each(tokio::task::JoinHandle::abort);
        let engine = &site.server.engine;
        eventually("there is room", || engine.get(site.id).unwrap().holds.is_empty()).await;
        let again = expose(&site.server, mirror.port, &json!({})).await;
        assert_eq!(site.ask(&host(&again), "/", &[]).await.status, 200);
    });
}
