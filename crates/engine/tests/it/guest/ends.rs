//! Ends that do not come, come early, or are not what they say.

use super::play::{
    Then, after_start, all, asked, assert_malformed, end, ended, hasty, out, problem, reply, says,
    start, started, status,
};
use crate::support::live;
use atoll_engine::guest::{Cut, Guest, GuestError, Known, Output};
use atoll_protocol::exec::Stream;
use atoll_protocol::problem::{Code, MESSAGE_BYTES_MAX};
use atoll_protocol::request::Reply;
use std::os::unix::net::UnixListener as Listener;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;

fn is_lost(result: Result<impl Sized, GuestError>, expected: Known) -> bool {
    matches!(result, Err(GuestError::Lost { known, cut: Cut::Ended }) if known == expected)
}

#[test]
fn where_nobody_listens_nothing_was_asked() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let guest = Guest::new(&path);
        assert!(matches!(guest.state().await, Err(GuestError::NotThere { .. })));
        // What a guest that is gone leaves behind.
        drop(Listener::bind(&path).unwrap());
        assert!(matches!(guest.start(start()).await, Err(GuestError::NotThere { .. })));
        assert!(matches!(guest.attend().await, Err(GuestError::NotThere { .. })));
    });
}

#[test]
fn a_connection_that_ends_without_an_answer_is_lost() {
    live(async {
        for words in [Vec::new(), super::play::hello(), started()[..60].to_vec()] {
            let player = says(words, Then::Close);
            assert!(is_lost(player.guest.start(start()).await, Known::Asked));
            assert!(is_lost(player.guest.attend().await, Known::Asked));
        }
    });
}

#[test]
fn a_stream_without_the_exec_s_end_is_lost_and_stays_so() {
    live(async {
        let cut = out(0, b"abc");
        for words in [Vec::new(), out(0, b"ab"), end(), cut[..10].to_vec()] {
            assert!(is_lost(after_start(words, Then::Close).await, Known::Answered));
        }
        let player = says(started(), Then::Close);
        let mut output = player.guest.start(start()).await.unwrap().output;
        for _ in 0..3 {
            assert!(is_lost(output.next().await, Known::Answered));
        }
    });
}

#[test]
fn an_end_that_does_not_fit_what_came_is_no_end() {
    live(async {
        let lies = [
            ended(1, 0),
            ended(0, 1),
            [out(0, b"ab"), ended(1, 0)].concat(),
            [out(0, b"ab"), ended(3, 0)].concat(),
            [out(0, b"ab"), ended(0, 0)].concat(),
        ];
        for words in lies {
            assert_malformed(after_start(words, Then::Close).await, "it ends Std");
        }
        let found = after_start([out(0, b"ab"), ended(2, 0)].concat(), Then::Close).await.unwrap();
        assert!(matches!(found[..], [Output::Bytes { .. }, Output::Ended(_)]));
    });
}

#[test]
fn what_comes_after_the_end_is_not_heard() {
    live(async {
        let words = [ended(0, 0), ended(0, 0), out(0, b"more")].concat();
        let found = after_start(words, Then::Listen).await.unwrap();
        assert!(matches!(found[..], [Output::Ended(_)]));
    });
}

#[test]
fn a_problem_is_told_and_one_that_is_too_long_is_not() {
    live(async {
        let gone = after_start(problem(Code::NotFound, "it is forgotten"), Then::Listen).await;
        let Err(GuestError::Refused(problem_told)) = gone else { panic!("{gone:?}") };
        assert_eq!(problem_told.message, "it is forgotten");
        let long = problem(Code::Failed, &"x".repeat(MESSAGE_BYTES_MAX + 1));
        assert_malformed(after_start(long, Then::Listen).await, "too long");
        let huge = problem(Code::Failed, &"x".repeat(1 << 20));
        assert_malformed(after_start(huge, Then::Listen).await, "frame of");
    });
}

#[test]
fn who_follows_on_goes_on_where_it_was() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let listener = UnixListener::bind(&path).unwrap();
        let there = reply(&Reply::Started { is_new: false, status: status("one") });
        let scripts = [
            [started(), out(0, b"ab")].concat(),
            [there.clone(), out(2, b"c")].concat(),
            there.clone(),
            [there, out(3, b"d"), ended(4, 0)].concat(),
        ];
        let player = tokio::spawn(async move {
            for script in scripts {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked(&mut stream).await;
                stream.write_all(&script).await.unwrap();
            }
        });
        let guest = Guest::with_settings(&path, hasty());
        let mut following = guest.follow_on(guest.start(start()).await.unwrap());
        let mut found = Vec::new();
        let mut has_ended = false;
        while let Some(next) = following.next().await.unwrap() {
            match next {
                Output::Bytes { stream: Stream::Stdout, bytes, .. } => found.extend(bytes),
                next => has_ended |= matches!(next, Output::Ended(_)),
            }
        }
        assert_eq!((found.as_slice(), has_ended), (b"abcd".as_slice(), true));
        player.await.unwrap();
    });
}

#[test]
fn who_follows_on_gives_up_where_nothing_comes_or_another_exec_is_there() {
    live(async {
        let player = says(started(), Then::Close);
        let followed = player.guest.start(start()).await.unwrap();
        // It would follow what was not there before.
        assert_malformed(player.guest.follow_on(followed).next().await, "was to be followed");

        let there = reply(&Reply::Started { is_new: false, status: status("one") });
        let player = says(there, Then::Close);
        let followed = player.guest.start(start()).await.unwrap();
        assert!(is_lost(player.guest.follow_on(followed).next().await, Known::Answered));

        let player = says(started(), Then::Close);
        let followed = player.guest.start(start()).await.unwrap();
        let nobody = Guest::new("/nowhere");
        assert!(is_lost(nobody.follow_on(followed).next().await, Known::Answered));
        let untouched = all(player.guest.start(start()).await.unwrap()).await;
        assert!(is_lost(untouched, Known::Answered));
    });
}
