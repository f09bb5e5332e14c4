//! A host that says what it should not, and a command that does what it can.

use super::{Client, code, each, sh};
use atoll_protocol::exec;
use atoll_protocol::frame::{Kind, header, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::problem::Code;
use atoll_protocol::request::Request;
use std::io::Read as _;

/// What is left to read, or that it was cut off.
fn rest(mut client: Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.stream.read_to_end(&mut bytes).ok();
    bytes
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_json(&mut bytes, Kind::Hello, &Hello::OURS).unwrap();
    bytes
}

#[test]
fn what_is_no_request_is_answered_with_a_reason() {
    each(|guest| {
        let mut greeted = hello();
        greeted.extend(header(Kind::End, 0));
        let mut early = Vec::new();
        put_json(&mut early, Kind::Request, &Request::Guest).unwrap();
        let mut unknown = hello();
        put_json(&mut unknown, Kind::Request, &"fly").unwrap();
        let mut long = hello();
        long.extend([0xff, 0xff, 0xff, 0xff, Kind::Request.byte()]);
        let mut other_version = Vec::new();
        put_json(&mut other_version, Kind::Hello, &Hello { version: 900, oldest: 800 }).unwrap();
        for (bytes, reason) in [
            (greeted, "out of place"),
            (early, "out of place"),
            (unknown, "cannot be read"),
            (long, "4294967295 bytes"),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "unknown kind"),
            (other_version, "versions 800 to 900"),
        ] {
            let mut client = guest.connect();
            client.send(&bytes);
            let answer = String::from_utf8_lossy(&rest(client)).into_owned();
            assert!(answer.contains(reason), "{answer:?} without {reason:?}");
        }
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
    });
}

#[test]
fn those_who_say_nothing_hold_nobody() {
    each(|guest| {
        let silent: Vec<_> = (0..200).map(|_| guest.connect()).collect();
        let mut half = guest.connect();
        half.send(&hello()[..3]);
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
        drop(silent);
    });
}

#[test]
fn a_follower_that_speaks_out_of_turn_is_let_go_and_the_exec_goes_on() {
    each(|guest| {
        let start = sh("echo ready; exec sleep 600");
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        client.send(&header(Kind::Heartbeat, 0));
        let answer = String::from_utf8_lossy(&rest(client)).into_owned();
        assert!(answer.contains("out of place"), "{answer:?}");
        assert!(guest.status(&start.id).ended.is_none());
    });
}

#[test]
fn a_command_cannot_end_pid_1_or_the_execs_beside_it_by_a_flood_of_orphans() {
    each(|guest| {
        let script = "kill -9 1; kill -TERM 1; i=0; while [ $i -lt 300 ]; do (sleep 0 &); i=$((i+1)); done; echo done";
        assert_eq!(guest.sh(script).text(), "done\n");
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
    });
}

#[test]
fn more_execs_than_may_run_are_refused_with_the_limit() {
    each(|guest| {
        let mut running = Vec::new();
        let refused = loop {
            let mut start = sh("exec sleep 600");
            start.keep_bytes = exec::KEEP_BYTES_MIN;
            let mut client = guest.ask(&Request::Start(start));
            match client.answer() {
                Ok(_) => running.push(client),
                refused => break code(&refused),
            }
            assert!(running.len() <= 256);
        };
        assert_eq!((refused, running.len()), (Some(Code::Limit), 256));
    });
}
