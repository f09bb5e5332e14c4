//! What leaves the network of a sandbox, as the host takes it.

use super::{Machine, also_as_ordinary};
use atoll_api::id::SandboxId;
use atoll_engine::backend::{Backend as _, KILL_WITHIN, Progress, Spec};
use atoll_testkit::process::wait_until;
use std::net::TcpListener;
use std::time::Instant;

#[test]
fn every_server_has_the_listeners_of_a_captured_network() {
    also_as_ordinary("capture::every_server_has_the_listeners_of_a_captured_network");
    let machine = Machine::new();
    let [captured, bare] = [1, 2].map(|number| SandboxId::from_random([number; 10]));
    let spec = |capture| Spec {
        image: "host".to_owned(),
        pull: atoll_api::image::ImagePull::Missing,
        layer: None,
        directory: None,
        hostname: "web".to_owned(),
        env: atoll_api::sandbox::Env::default(),
        limits: atoll_api::sandbox::Limits::default(),
        capture,
        certificate: None,
        secrets: Vec::new(),
        volumes: Vec::new(),
    };
    let begin = |id, capture| {
        let backend = machine.backend();
        backend.create(id, &spec(capture), &Progress::new(Instant::now())).unwrap();
        backend
    };
    for (id, capture) in [(captured, Some(vec![5432])), (bare, None)] {
        let backend = begin(id, capture.clone());
        backend.start(id, &spec(capture), &Progress::new(Instant::now())).unwrap();
        assert_eq!(backend.listeners(id).unwrap().is_some(), id == captured);
    }
    // A later server has them from the guest alone.
    let backend = machine.backend();
    backend.adopt(captured).unwrap();
    backend.adopt(bare).unwrap();
    assert!(backend.listeners(bare).unwrap().is_none());
    let listeners = backend.listeners(captured).unwrap().unwrap();
    assert!(listeners.is_complete);
    let connect = "import socket; socket.create_connection(('8.8.8.8', 25), 10)";
    let ran = machine.guest(captured).sh(&format!("python3 -c \"{connect}\" 2>&1; echo $?"));
    assert_eq!(ran.text(), "0\n");
    let listener = TcpListener::from(listeners.tcp.into_iter().next().unwrap());
    let mut meant = None;
    wait_until("the connection", || {
        meant = listener.accept().ok();
        meant.is_some()
    });
    assert_eq!(meant.unwrap().0.local_addr().unwrap(), "8.8.8.8:25".parse().unwrap());
    let ran = machine.guest(bare).sh(&format!("python3 -c \"{connect}\" 2>&1 | tail -1"));
    assert!(ran.text().contains("Network is unreachable"), "{}", ran.text());
    // Started again, it has another network.
    backend.kill(captured, KILL_WITHIN).unwrap();
    assert!(backend.listeners(captured).is_err());
    backend.start(captured, &spec(None), &Progress::new(Instant::now())).unwrap();
    assert!(backend.listeners(captured).unwrap().is_none());
}
