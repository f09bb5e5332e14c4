//! Who outlives whom.

use super::{each, spawner};
use atoll_protocol::request::{Reply, Request};
use atoll_spawner::client::find;
use atoll_testkit::guest::sh;
use atoll_testkit::process::{left, marker, wait_until};
use rustix::process::{Pid, Signal};

#[test]
fn a_sandbox_outlives_the_resident_process_and_is_found_again() {
    each(|host| {
        let order = host.order("one");
        let other = spawner(host.user);
        let spawned = other.spawn(&order).unwrap();
        let sandbox = super::Sandbox {
            spawned,
            socket: atoll_testkit::guest::Socket::new(order.socket.as_path()),
        };
        let start = sh("echo early; while :; do sleep 0.02; done");
        let mut client = sandbox.socket.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("early");
        drop((client, other));
        let (pid, pidfd) = find(order.socket.as_path()).unwrap().unwrap();
        assert_eq!(pid, sandbox.spawned.pid);
        // Its commands are there, and what they printed.
        assert!(sandbox.socket.status(&start.id).ended.is_none());
        assert_eq!(sandbox.socket.status(&start.id).stdout.bytes, 6);
        assert_eq!(sandbox.sh("echo ok"), "ok\n");
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
        sandbox.wait();
        assert!(find(order.socket.as_path()).unwrap().is_none());
    });
}

#[test]
fn nobody_is_found_where_nobody_listens() {
    each(|host| {
        assert!(find(&host.dir.path().join("nothing")).unwrap().is_none());
    });
}

#[test]
fn a_sandbox_that_is_killed_leaves_no_process() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let mark = marker();
        let script = format!("setsid sh -c 'sleep 600; : {mark}' & sleep 600; : {mark}");
        sandbox.socket.ask(&Request::Start(sh(&script))).started();
        left(&mark, |found| found.len() >= 2);
        let mut following = sandbox.socket.ask(&Request::Start(sh("echo ready; exec sleep 600")));
        following.started();
        following.expect("ready");
        rustix::process::pidfd_send_signal(&sandbox.spawned.pidfd, rustix::process::Signal::KILL)
            .unwrap();
        sandbox.wait();
        left(&mark, <[i32]>::is_empty);
        // A stream ends without an end: what became of the command is not known.
        assert_eq!(following.hear(), None);
    });
}

#[test]
fn a_sandbox_that_is_stopped_ends_its_process() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        sandbox.socket.ask(&Request::Start(sh("trap '' TERM; sleep 600"))).started();
        assert_eq!(sandbox.socket.answer(&Request::Stop { grace_ms: 50 }), Ok(Reply::Done));
        sandbox.wait();
    });
}

#[test]
fn makers_are_collected() {
    each(|host| {
        let pid = host.spawner.pid().unwrap();
        let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        host.spawn(&host.order("first")).sh("true");
        let children =
            || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        // One waits for the next order.
        wait_until("no maker but one", || children().split_whitespace().count() == 1);
        let before = descriptors();
        for number in 0..5 {
            host.spawn(&host.order(&format!("s{number}"))).sh("true");
        }
        // One waits for the next order.
        wait_until("no maker but one", || children().split_whitespace().count() == 1);
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn a_guest_that_no_server_knows_of_ends() {
    each(|host| {
        let order = host.order("one");
        // The server goes while its order is carried out.
        drop(host.spawner.begin(&order).unwrap());
        // Orders are taken one after the other.
        host.spawn(&host.order("other"));
        let pid = host.spawner.pid().unwrap();
        let children =
            || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        // One waits for the next order.
        wait_until("no maker but one", || children().split_whitespace().count() == 1);
        wait_until("no socket", || !order.socket.as_path().exists());
        assert!(find(order.socket.as_path()).unwrap().is_none());
        // The control: one that waits has it.
        assert_eq!(host.spawn(&order).sh("echo ok"), "ok\n");
    });
}

#[test]
fn a_resident_process_that_is_killed_is_followed_by_another() {
    each(|host| {
        let before = host.spawn(&host.order("before"));
        for round in 1..=3 {
            let pid = host.spawner.pid().unwrap();
            let process = Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(process, Signal::KILL).unwrap();
            wait_until("it is dead", || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                stat.contains(") Z ")
            });
            let spawned = host.spawn(&host.order(&format!("after-{round}")));
            assert_eq!(spawned.sh("echo ok"), "ok\n");
            assert_ne!(host.spawner.pid(), Some(pid));
            assert_eq!(host.spawner.starts(), 1 + round);
        }
        // What the first one made goes on, and nothing of the others is left beside them.
        assert_eq!(before.sh("echo ok"), "ok\n");
    });
}
