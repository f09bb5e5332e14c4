use super::*;
use crate::backend::KILL_WITHIN;
use atoll_api::sandbox::{Env, Limits};
use std::io::Read as _;
use std::time::Instant;

fn spec() -> Spec {
    Spec {
        image: "host".to_owned(),
        pull: atoll_api::image::ImagePull::Missing,
        layer: None,
        directory: None,
        hostname: "web".to_owned(),
        env: Env::default(),
        limits: Limits::default(),
        capture: None,
        certificate: None,
        secrets: Vec::new(),
        volumes: Vec::new(),
    }
}

fn id(n: u8) -> SandboxId {
    SandboxId::from_random([n; 10])
}

fn made(host: &Arc<Host>) -> Alive {
    let progress = Progress::new(Instant::now());
    let fake = Fake::on(host);
    fake.create(id(1), &spec(), &progress).unwrap();
    fake.start(id(1), &spec(), &progress).unwrap()
}

#[test]
fn the_end_of_the_first_process_can_be_read() {
    let host = Host::new();
    let alive = made(&host);
    assert_eq!(host.processes(id(1)), Processes::Running);
    Fake::on(&host).stop(id(1)).unwrap();
    assert_eq!(host.processes(id(1)), Processes::None);
    // This would wait for ever if somebody still held the other end.
    let mut exit = io::PipeReader::from(alive.exit);
    assert_eq!(exit.read(&mut [0]).unwrap(), 0);
}

#[test]
fn frozen_processes_hear_nothing_but_can_be_killed() {
    let host = Host::new();
    let _alive = made(&host);
    let fake = Fake::on(&host);
    fake.freeze(id(1)).unwrap();
    fake.stop(id(1)).unwrap();
    assert_eq!(host.processes(id(1)), Processes::Frozen);
    fake.kill(id(1), KILL_WITHIN).unwrap();
    assert_eq!(host.processes(id(1)), Processes::None);
    assert!(matches!(fake.adopt(id(1)), Err(BackendError::NotFound { .. })));
}

#[test]
fn what_is_left_behind_is_told_until_it_is_removed() {
    let host = Host::new();
    host.fail(Call::Create, Moment::Midway);
    let fake = Fake::on(&host);
    let progress = Progress::new(Instant::now());
    assert!(fake.create(id(1), &spec(), &progress).is_err());
    assert_eq!(host.leaks(&[]), [format!("directory of {}", id(1))]);
    assert_eq!(host.leaks(&[id(1)]), [""; 0]);
    assert_eq!(
        fake.inventory().unwrap(),
        [Found { id: id(1), processes: Processes::None, is_whole: false }]
    );
    host.fail(Call::Remove, Moment::Midway);
    assert!(fake.remove(id(1)).is_err());
    assert_eq!(host.leaks(&[]).len(), 1);
    host.heal();
    fake.remove(id(1)).unwrap();
    assert_eq!(host.leaks(&[]), [""; 0]);
}

#[test]
fn who_makes_gives_up_at_the_next_stage() {
    let host = Host::new();
    let progress = Progress::new(Instant::now());
    progress.cancel();
    let made = Fake::on(&host).create(id(1), &spec(), &progress);
    assert!(matches!(made, Err(BackendError::Cancelled)));
    assert_eq!(host.leaks(&[]), [format!("directory of {}", id(1))]);
    let timeline = progress.timeline();
    assert!(timeline.allocated_us.is_some() && timeline.filesystem_ready_us.is_none());
}

#[test]
fn limits_need_their_flags() {
    let capabilities = Capabilities { limit_disk: false, ..Fake::on(&Host::new()).capabilities() };
    let limits = Limits { pids: Some(10), ..Limits::default() };
    assert_eq!(capabilities.lacks(&limits), None);
    let limits = Limits { disk_bytes: Some(1 << 30), ..limits };
    assert_eq!(capabilities.lacks(&limits), Some("limit_disk"));
}
