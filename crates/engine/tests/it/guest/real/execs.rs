//! Commands: exact, streamed, gone on with, fed, ended.

use super::{assert_refused, piped, ran, sh, with_sandbox};
use atoll_engine::guest::{GuestError, Output};
use atoll_protocol::exec::{
    Cancel, Cause, Feed, Follow, Input, Outcome, Resize, Signal, Size, Start, Stream, Target,
};
use atoll_protocol::frame::DATA_BYTES_MAX;
use atoll_protocol::problem::Code;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::time::interval;

#[test]
fn an_exec_is_exact_and_is_never_run_twice() {
    with_sandbox("execs::an_exec_is_exact_and_is_never_run_twice", |real| async move {
        let start = sh("echo ran >> file; printf 'a\\0b\\377'; printf 'c' >&2; exit 7");
        let first = real.guest.start(start.clone()).await.unwrap();
        assert!(first.is_new);
        let first = ran(first).await.unwrap();
        assert_eq!((&first.stdout[..], &first.stderr[..]), (&b"a\0b\xff"[..], &b"c"[..]));
        assert_eq!(first.outcome(), Outcome::Exited(7));
        let second = real.guest.start(start.clone()).await.unwrap();
        assert!(!second.is_new);
        assert_eq!(ran(second).await.unwrap().stdout, first.stdout);
        assert_eq!(real.sh("cat file").await, "ran\n");
        let other = Start { id: start.id.clone(), ..sh("true") };
        assert_refused(real.guest.start(other).await, Code::Conflict);
        let execs = real.guest.execs().await.unwrap();
        assert_eq!(execs.iter().filter(|exec| exec.id == start.id).count(), 1);
        real.guest.forget(start.id.clone()).await.unwrap();
        assert_refused(real.guest.forget(start.id).await, Code::NotFound);
        assert_eq!(real.guest.state().await.unwrap().running, 0);
    });
}

#[test]
fn a_slow_reader_misses_nothing() {
    with_sandbox("execs::a_slow_reader_misses_nothing", |real| async move {
        const BYTES: u64 = 64 << 20;
        let start = sh("head -c 67108864 /dev/zero | tr '\\0' x");
        let mut output = real.guest.start(start).await.unwrap().output;
        let (mut rest, mut breaks) = (interval(Duration::from_millis(2)), 0);
        let (every, mut bytes) = (vec![b'x'; DATA_BYTES_MAX], 0);
        loop {
            match output.next().await.unwrap().unwrap() {
                Output::Bytes { bytes: piece, .. } => {
                    assert!(piece == every[..piece.len()]);
                    bytes += piece.len() as u64;
                    if bytes >> 17 > breaks {
                        breaks = bytes >> 17;
                        rest.tick().await;
                    }
                }
                Output::Ended(ended) => {
                    assert_eq!((bytes, ended.stdout.bytes), (BYTES, BYTES));
                    break;
                }
                Output::Heartbeat => {}
                dropped @ Output::Dropped { .. } => panic!("{dropped:?}"),
            }
        }
    });
}

#[test]
fn who_was_cut_off_goes_on_by_offset() {
    with_sandbox("execs::who_was_cut_off_goes_on_by_offset", |real| async move {
        let numbers: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
        let start = Start { keep_bytes: 4 << 20, ..sh("seq 1 30000; read x < /dev/null; exit 3") };
        let mut output = real.guest.start(start.clone()).await.unwrap().output;
        let mut found = Vec::new();
        while found.len() < 10 {
            if let Some(Output::Bytes { bytes, .. }) = output.next().await.unwrap() {
                found.extend(bytes);
            }
        }
        let stdout = output.offset(Stream::Stdout);
        assert_eq!(stdout, found.len() as u64);
        drop(output);
        let follow = Follow { id: start.id, stdout, stderr: 0, is_snapshot: false };
        let followed = real.guest.follow(follow.clone()).await.unwrap();
        let mut following = real.guest.follow_on(followed);
        let mut outcome = None;
        while let Some(next) = following.next().await.unwrap() {
            match next {
                Output::Bytes { bytes, .. } => found.extend(bytes),
                Output::Ended(ended) => outcome = Some(ended.outcome),
                Output::Heartbeat => {}
                dropped @ Output::Dropped { .. } => panic!("{dropped:?}"),
            }
        }
        assert_eq!(String::from_utf8(found).unwrap(), numbers);
        assert_eq!(outcome, Some(Outcome::Exited(3)));
        let unknown = Follow { id: "unknown".into(), ..follow };
        assert_refused(real.guest.follow(unknown).await.map(|_| ()), Code::NotFound);
    });
}

#[test]
fn what_is_fed_arrives_once_and_whole() {
    with_sandbox("execs::what_is_fed_arrives_once_and_whole", |real| async move {
        let start = piped("wc -c; exec cat >&2");
        let followed = real.guest.start(start.clone()).await.unwrap();
        let feed = |offset, keep_open| Feed { id: start.id.clone(), offset, keep_open };
        let bytes = vec![b'x'; 5 << 20];
        // Where the answer got lost it is sent again.
        real.guest.feed(feed(None, true), &mut &bytes[..1 << 20]).await.unwrap();
        real.guest.feed(feed(Some(0), true), &mut &bytes[..1 << 20]).await.unwrap();
        real.guest.feed(feed(Some(1 << 20), false), &mut &bytes[1 << 20..]).await.unwrap();
        let ran = ran(followed).await.unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap().trim(), bytes.len().to_string());
        let gap = real.guest.feed(feed(Some(1 << 30), false), &mut &b"x"[..]).await;
        assert_refused(gap, Code::Invalid);

        let deaf = piped("exec <&-; echo ready; sleep 600");
        let mut output = real.guest.start(deaf.clone()).await.unwrap().output;
        assert!(matches!(output.next().await, Ok(Some(Output::Bytes { .. }))));
        let feed = Feed { id: deaf.id, offset: None, keep_open: false };
        let refused = real.guest.feed(feed, &mut tokio::io::repeat(7).take(1 << 40)).await;
        assert_refused(refused, Code::Conflict);
    });
}

#[test]
fn an_exec_is_ended_by_cancel_and_by_signals() {
    with_sandbox("execs::an_exec_is_ended_by_cancel_and_by_signals", |real| async move {
        let start = sh("trap '' TERM; echo ready; sleep 600");
        let mut followed = real.guest.start(start.clone()).await.unwrap();
        assert!(matches!(followed.output.next().await, Ok(Some(Output::Bytes { .. }))));
        let cancel = Cancel { id: start.id, signal: 15, grace_ms: 50 };
        real.guest.cancel(cancel.clone()).await.unwrap();
        let ended = ran(followed).await.unwrap().ended.unwrap();
        assert_eq!((ended.outcome, ended.cause), (Outcome::Signalled(9), Some(Cause::Cancelled)));

        let start = sh("echo ready; sleep 600");
        let mut followed = real.guest.start(start.clone()).await.unwrap();
        assert!(matches!(followed.output.next().await, Ok(Some(Output::Bytes { .. }))));
        let signal = Signal { id: start.id, signal: 15, target: Target::Group };
        real.guest.signal(signal.clone()).await.unwrap();
        assert_eq!(ran(followed).await.unwrap().outcome(), Outcome::Signalled(15));
        assert_refused(real.guest.signal(signal).await, Code::Conflict);
        // What has ended is cancelled already.
        real.guest.cancel(cancel).await.unwrap();
    });
}

#[test]
fn a_terminal_can_be_resized() {
    with_sandbox("execs::a_terminal_can_be_resized", |real| async move {
        let size = |rows| Size { rows, columns: 80 };
        let start = Start { input: Input::Terminal(size(24)), ..sh("read x; stty size") };
        let followed = real.guest.start(start.clone()).await.unwrap();
        let resize = Resize { id: start.id.clone(), size: size(50) };
        real.guest.resize(resize).await.unwrap();
        let feed = Feed { id: start.id, offset: None, keep_open: true };
        real.guest.feed(feed, &mut &b"\n"[..]).await.unwrap();
        let ran = ran(followed).await.unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "\r\n50 80\r\n");
        let plain = sh("sleep 600");
        let _running = real.guest.start(plain.clone()).await.unwrap();
        let resize = Resize { id: plain.id, size: size(50) };
        assert_refused(real.guest.resize(resize).await, Code::Conflict);
    });
}

#[test]
fn a_clock_can_be_held() {
    with_sandbox("execs::a_clock_can_be_held", |real| async move {
        real.guest.hold_clock().await.unwrap();
        let start = Start { timeout_ms: Some(1), ..sh("read x < /dev/null; echo done") };
        let followed = real.guest.start(start).await.unwrap();
        assert_eq!(ran(followed).await.unwrap().stdout, b"done\n");
        real.guest.release_clock().await.unwrap();
        let start = Start { timeout_ms: Some(1), ..sh("sleep 600") };
        let followed = real.guest.start(start).await.unwrap();
        let ended = ran(followed).await.unwrap().ended.unwrap();
        assert_eq!(ended.cause, Some(Cause::TimedOut));
        let odd = Start { id: String::new(), ..sh("true") };
        let refused = real.guest.start(odd).await;
        assert!(matches!(refused, Err(GuestError::Refused(_))), "{refused:?}");
    });
}
