//! Output: exact, bounded, and never waited for longer than is fair.

use super::{Options, Said, code, each, each_with, sh};
use atoll_protocol::exec::{self, Outcome, Stream};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply, Request};
use atoll_testkit::process::wait_until;

#[test]
fn a_flood_arrives_whole_at_a_client_that_reads_it() {
    each(|guest| {
        // 64 MiB, far more than is kept.
        let start = exec::Start {
            keep_bytes: 256 << 10,
            ..sh("yes 0123456 2>/dev/null | head -c 67108864")
        };
        let mut client = guest.ask(&Request::Start(start));
        client.started();
        let mut next = 0;
        loop {
            match client.hear().unwrap() {
                Said::Output(Stream::Stdout, offset, bytes) => {
                    assert_eq!(offset, next);
                    next += bytes.len() as u64;
                    let wanted = b"0123456\n".iter().cycle().skip((offset % 8) as usize);
                    assert!(bytes.iter().zip(wanted).all(|(one, other)| one == other));
                }
                Said::Event(Event::Ended(ended)) => {
                    assert_eq!(ended.outcome, Outcome::Exited(0));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(next, 64 << 20);
    });
}

#[test]
fn without_a_reader_head_and_tail_are_kept_and_the_rest_is_counted() {
    each(|guest| {
        let start = exec::Start {
            keep_bytes: 4 << 10,
            ..sh("echo first; head -c 50000000 /dev/zero; echo last; echo word >&2")
        };
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        drop(client);
        wait_until("its end", || guest.status(&start.id).ended.is_some());
        let total = 50_000_000 + 6 + 5;
        let printed = guest.status(&start.id).ended.unwrap().stdout;
        assert_eq!((printed.bytes, printed.dropped_bytes), (total, total - 4096));
        let follow = exec::Follow { id: start.id, stdout: 0, stderr: 0, is_snapshot: false };
        let ran = guest.ask(&Request::Follow(follow)).follow();
        assert!(ran.stdout.starts_with(b"first\n\0") && ran.stdout.ends_with(b"\0last\n"));
        assert_eq!(ran.stdout.len(), 4096);
        assert_eq!(ran.dropped, [(Stream::Stdout, 1024, total - 3072)]);
        assert_eq!(ran.stderr, b"word\n");
    });
}

#[test]
fn a_client_that_reads_nothing_is_waited_for_and_then_not() {
    each_with(&Options { patience_ms: 300, ..Options::default() }, |guest| {
        let start =
            exec::Start { keep_bytes: 64 << 10, ..sh("head -c 20000000 /dev/zero; exit 6") };
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        wait_until("its end", || guest.status(&start.id).ended.is_some());
        let rest = client.rest();
        assert_eq!(rest.outcome(), Outcome::Exited(6));
        let missing: u64 = rest.dropped.iter().map(|(_, from, to)| to - from).sum();
        assert!(missing > 0);
        assert_eq!(rest.stdout.len() as u64 + missing, 20_000_000);
    });
}

#[test]
fn one_slow_client_does_not_hold_another_exec() {
    each(|guest| {
        let flood = exec::Start { keep_bytes: 64 << 10, ..sh("exec yes") };
        let mut slow = guest.ask(&Request::Start(flood));
        slow.started();
        for _ in 0..50 {
            assert_eq!(guest.sh("echo quick").text(), "quick\n");
        }
    });
}

#[test]
fn what_may_be_kept_in_all_is_limited_and_told() {
    // Room for four, and for their commands.
    let kept_bytes = (8 << 20) + (64 << 10);
    each_with(&Options { kept_bytes, ..Options::default() }, |guest| {
        let start = || exec::Start { keep_bytes: 1 << 20, ..sh("exec sleep 600") };
        let running: Vec<_> = (0..4)
            .map(|_| {
                let mut client = guest.ask(&Request::Start(start()));
                let id = client.started().1.id;
                (client, id)
            })
            .collect();
        assert_eq!(code(&guest.answer(&Request::Start(start()))), Some(Code::Limit));
        for (_client, id) in &running {
            let id = id.clone();
            let cancel = exec::Cancel { id, signal: 15, grace_ms: 0 };
            assert_eq!(guest.answer(&Request::Cancel(cancel)), Ok(Reply::Done));
        }
        drop(running);
        // Those that have ended make room: the oldest is forgotten.
        let small = exec::Start { keep_bytes: 4 << 10, ..sh("echo little is kept") };
        assert_eq!(guest.run(small).text(), "little is kept\n");
    });
}
