//! Creations beyond what a server takes, and around its death.

use super::support::{exchange, socket, state};
use super::{Answer, Served, each};
use atoll_testkit::process::wait_until;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::net::UnixStream;

#[test]
fn a_burst_beyond_the_limit_gets_sandboxes_or_is_told_the_limit() {
    each(|project| {
        const MOST: usize = 60;
        const ASKED: usize = 100;
        let served = Served::start(project, &["--sandboxes-max", &MOST.to_string()]);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let one = |n: usize| {
                let body = json!({ "labels": { "n": n.to_string() } });
                served.ask("POST", "/v1/sandboxes", Some(&body))
            };
            let callers: Vec<_> = (0..ASKED).map(|n| scope.spawn(move || one(n))).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status == 201);
        assert_eq!((made.len(), refused.len()), (MOST, ASKED - MOST));
        for answer in refused {
            let error = &answer.body["error"];
            assert_eq!((answer.status, &error["code"]), (429, &json!("capacity")), "{error}");
            assert_eq!(error["details"]["limit"], "sandboxes_max", "{error}");
            assert_eq!(error["details"]["limit_value"], MOST, "{error}");
            assert_eq!(error["took_effect"], "no", "{error}");
            assert_eq!(error["retry"]["kind"], "after", "{error}");
        }
        // A place that comes free is one for who asks again.
        let first = made[0].body["id"].as_str().unwrap();
        assert_eq!(served.ask("DELETE", &format!("/v1/sandboxes/{first}"), None).status, 200);
        wait_until("a place is free", || served.create("again").status == 201);
    });
}

/// When a server dies whose client waits for a sandbox.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Asked,
    Begun,
    Made,
}

#[test]
fn what_is_asked_for_under_a_key_is_made_once_though_the_server_is_killed() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        for (round, moment) in [Moment::Asked, Moment::Begun, Moment::Made].iter().enumerate() {
            let n = round.to_string();
            let body = json!({ "labels": { "round": n } });
            let key = format!("idempotency-key: key-{n}\r\n");
            let listed = |served: &Served<'_>| -> Vec<Value> {
                let path = format!("/v1/sandboxes?label=round%3D{n}");
                served.ask("GET", &path, None).body["sandboxes"].as_array().unwrap().clone()
            };
            let directories =
                || std::fs::read_dir(state(project).join("sandboxes")).map_or(0, Iterator::count);
            let before = directories();
            let mut client = UnixStream::connect(socket(project)).unwrap();
            let text = body.to_string();
            write!(
                client,
                "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n{key}content-type: \
                 application/json\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            )
            .unwrap();
            let mut known = None;
            match moment {
                Moment::Asked => {}
                Moment::Begun => wait_until("it is begun", || directories() > before),
                Moment::Made => wait_until("it runs", || {
                    known = listed(&served).pop().filter(|one| one["state"] == "running");
                    known.is_some()
                }),
            }
            // Nobody has read the answer.
            served.kill();
            drop(client);
            served.again();
            let mut again = UnixStream::connect(socket(project)).unwrap();
            let answer = exchange(&mut again, "POST", "/v1/sandboxes", &key, Some(&body)).unwrap();
            assert_eq!(answer.status, 201, "{moment:?}: {answer:?}");
            if let Some(known) = known {
                assert_eq!(answer.body["id"], known["id"], "{moment:?}");
            }
            wait_until("what is half-made is gone", || {
                let ids: Vec<_> = listed(&served).iter().map(|one| one["id"].clone()).collect();
                assert!(ids.contains(&answer.body["id"]), "{moment:?}: {ids:?}");
                ids.len() == 1
            });
        }
    });
}
