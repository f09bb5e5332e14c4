//! Guests that say nothing, or say nothing without end; and what they may take of us.

use super::play::{
    Then, after_start, assert_malformed, beat, hasty, hello, out, plays, plays_with, reply, says,
    start, started,
};
use crate::support::{live, live_in_parallel};
use atoll_engine::guest::{Cut, Guest, GuestError, Known, Output, Settings};
use atoll_protocol::frame::{self, DATA_BYTES_MAX, Kind};
use atoll_protocol::request::Reply;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::time::{Instant, interval, timeout};

fn is_silent(result: &Result<impl Sized, GuestError>) -> bool {
    matches!(result, Err(GuestError::Lost { known: Known::Answered, cut: Cut::Silent }))
}

#[test]
fn a_question_without_an_answer_is_over_in_time() {
    live(async {
        for words in [Vec::new(), hello(), [hello(), beat()].concat()] {
            let player = says(words, Then::Listen);
            let late = player.guest.state().await;
            assert!(matches!(late, Err(GuestError::TimedOut { known: Known::Asked, .. })));
        }
        // Heartbeats do not help.
        let player = plays(hello(), beat(), Then::Again);
        player.guest.state().await.unwrap_err();
    });
}

#[test]
fn a_stream_without_heartbeats_is_lost() {
    live(async {
        let began = Instant::now();
        assert!(is_silent(&after_start(Vec::new(), Then::Listen).await));
        assert!(is_silent(&after_start(out(0, b"ab"), Then::Stare).await));
        assert!(began.elapsed() >= 2 * 3 * hasty().heartbeat);
    });
}

#[test]
fn heartbeats_keep_a_stream_and_silence_of_a_frozen_guest_is_none() {
    live(async {
        let player = says([started(), beat()].concat(), Then::Listen);
        let mut output = player.guest.start(start()).await.unwrap().output;
        assert_eq!(output.next().await.unwrap(), Some(Output::Heartbeat));
        player.guest.expect_silence();
        let long = 3 * 3 * hasty().heartbeat;
        assert!(timeout(long, output.next()).await.is_err(), "it waits");
        // Asked for the clock it does not answer, but it is to run again.
        player.guest.release_clock().await.unwrap_err();
        assert!(is_silent(&output.next().await));
    });
}

#[test]
fn who_looks_away_often_still_learns_of_silence() {
    live(async {
        let player = says(started(), Then::Listen);
        let mut output = player.guest.start(start()).await.unwrap().output;
        let lost = loop {
            if let Ok(next) = timeout(hasty().heartbeat / 4, output.next()).await {
                break next;
            }
        };
        assert!(is_silent(&lost));
    });
}

#[test]
fn a_frame_that_never_ends_is_lost() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let listener = UnixListener::bind(&path).unwrap();
        let player = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            super::play::asked(&mut stream).await;
            stream.write_all(&started()).await.unwrap();
            let header = frame::header(Kind::Stdout, DATA_BYTES_MAX);
            stream.write_all(&header).await.unwrap();
            let mut soon = interval(Duration::from_millis(5));
            while stream.write_all(&[0]).await.is_ok() {
                soon.tick().await;
            }
        });
        let guest = Guest::with_settings(&path, hasty());
        let mut output = guest.start(start()).await.unwrap().output;
        assert!(is_silent(&output.next().await));
        player.await.unwrap();
    });
}

#[test]
fn heartbeats_without_end_are_malformed() {
    live(async {
        let player = plays(started(), beat().repeat(100), Then::Again);
        let mut output = player.guest.start(start()).await.unwrap().output;
        let flooded = loop {
            match output.next().await {
                Ok(Some(Output::Heartbeat)) => {}
                other => break other,
            }
        };
        assert_malformed(flooded, "heartbeats");
        let player = plays(hello(), beat().repeat(100), Then::Again);
        assert_malformed(player.guest.attend().await, "heartbeats");
    });
}

#[test]
fn what_is_not_asked_for_stays_in_the_kernel() {
    live_in_parallel(async {
        // The offset is wrong from the second frame on; nobody gets that far.
        let player = plays(started(), out(0, &[7; 4096]), Then::Again);
        let mut output = player.guest.start(start()).await.unwrap().output;
        output.next().await.unwrap();
        let mut look = interval(Duration::from_millis(50));
        let (mut before, mut now) = (1, 0);
        while before != now {
            look.tick().await;
            before = now;
            now = player.said.load(Ordering::Relaxed);
        }
        assert!(now < 2 << 20, "{now} bytes were taken");
        drop(output);
    });
}

#[test]
fn connections_are_limited_and_their_places_come_back() {
    live(async {
        let settings = Settings { connections_max: 2, ..hasty() };
        let words = [started(), beat()].concat();
        let player = plays_with(settings, words, Vec::new(), Then::Listen);
        let first = player.guest.start(start()).await.unwrap();
        let second = player.guest.clone().start(start()).await.unwrap();
        let refused = player.guest.start(start()).await;
        assert!(matches!(refused, Err(GuestError::Busy { connections_max: 2 })), "{refused:?}");
        drop(first);
        let third = player.guest.start(start()).await.unwrap();
        // One that is over gives its place back by itself.
        let mut output = third.output;
        while output.next().await.is_ok() {}
        player.guest.start(start()).await.unwrap();
        drop(second);
    });
}

#[test]
fn a_guest_that_accepts_nobody_is_asked_nothing() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let socket = listen_with(&path, 0);
        let full: Vec<_> = (0..8).map_while(|_| connect_at_once(&path)).collect();
        assert!(full.len() < 8, "its queue is never full");
        let guest = Guest::with_settings(&path, hasty());
        let late = guest.state().await;
        assert!(
            matches!(late, Err(GuestError::TimedOut { known: Known::NotAsked, .. })),
            "{late:?}"
        );
        drop((socket, full));
    });
}

fn listen_with(path: &std::path::Path, backlog: i32) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, backlog).unwrap();
    listener
}

fn connect_at_once(path: &std::path::Path) -> Option<std::os::fd::OwnedFd> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok().map(|()| socket)
}

/// On one thread: whoever does not let others run is seen.
#[test]
fn a_flood_of_one_sandbox_does_not_slow_another() {
    live(async {
        let flood = plays(started(), beat().repeat(2000), Then::Again);
        let streams: Vec<_> = (0..4)
            .map(|_| {
                let guest = flood.guest.clone();
                tokio::spawn(async move {
                    loop {
                        let Ok(followed) = guest.start(start()).await else { continue };
                        let mut output = followed.output;
                        while output.next().await.is_ok() {}
                    }
                })
            })
            .collect();
        let good = says(reply(&Reply::Done), Then::Listen);
        for _ in 0..50 {
            let began = Instant::now();
            good.guest.forget("one").await.unwrap();
            assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
        }
        streams.iter().for_each(tokio::task::JoinHandle::abort);
    });
}
