//! What a server writes.

use super::support::{command, log, socket, try_ask};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::Stdio;

#[test]
fn every_line_is_an_object_if_asked_for() {
    each(|project| {
        let mut served = Served::start(project, &["--log-format", "json", "--log-level", "debug"]);
        assert_eq!(served.create("one").status, 201);
        assert_eq!(served.create("one").status, 409);
        served.end();
        let text = log(project);
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let levels = |level: &str| lines.iter().filter(|line| line["level"] == level).count();
        assert!(levels("INFO") > 2 && levels("DEBUG") > 0, "{text}");
        let said = |message: &str| lines.iter().any(|line| line["message"] == message);
        assert!(said("listening") && said("ended") && said("request refused"), "{text}");
    });
}

#[test]
fn what_is_below_the_level_is_not_written() {
    each(|project| {
        let mut served = Served::start(project, &["--log-level", "off"]);
        assert_eq!(served.create("one").status, 201);
        served.end();
        assert_eq!(log(project), "");
    });
}

#[test]
fn nobody_need_read_it() {
    each(|project| {
        let mut child = command(project, &[]).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        wait_until("the server", || try_ask(&socket(project), "GET", "/healthz", None).is_ok());
        for _ in 0..3 {
            let answer = try_ask(&socket(project), "GET", "/v1/sandboxes", None).unwrap();
            assert_eq!(answer.status, 200);
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}
