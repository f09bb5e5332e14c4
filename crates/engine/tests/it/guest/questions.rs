//! Answers to other questions, and frames where they do not belong.

use super::play::{
    Then, after_start, assert_malformed, beat, end, event, follow, hello, out, path, raw, reply,
    says, start, started, stat, status, word,
};
use crate::support::live;
use atoll_engine::guest::{GuestError, Known};
use atoll_protocol::exec::Status;
use atoll_protocol::files;
use atoll_protocol::frame::Kind;
use atoll_protocol::hello::Hello;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply, Request};

fn list(limit: u32) -> files::List {
    files::List { path: path("/"), depth: 1, limit }
}

#[test]
fn an_answer_to_another_question_is_none() {
    live(async {
        let player = says(reply(&Reply::Done), Then::Listen);
        let guest = &player.guest;
        assert_malformed(guest.state().await, "something else");
        assert_malformed(guest.start(start()).await, "something else");
        assert_malformed(guest.execs().await, "something else");
        assert_malformed(guest.list(list(1)).await, "something else");
        assert_malformed(guest.ports().await, "something else");
        assert_malformed(guest.connect(80).await, "something else");
        let player = says(reply(&Reply::Connected), Then::Listen);
        assert_malformed(player.guest.forget("one").await, "something else");
        assert_malformed(player.guest.attend().await, "something else");
    });
}

#[test]
fn an_exec_that_was_not_asked_for_is_not_followed() {
    live(async {
        let other =
            says(reply(&Reply::Started { is_new: true, status: status("other") }), Then::Listen);
        assert_malformed(other.guest.start(start()).await, "something else");
        let mut command = status("one");
        command.arguments = vec![path("false")];
        let other = says(reply(&Reply::Started { is_new: true, status: command }), Then::Listen);
        assert_malformed(other.guest.start(start()).await, "another command");
        let new = says(started(), Then::Listen);
        assert_malformed(new.guest.follow(follow(0)).await, "was to be followed");
    });
}

#[test]
fn another_file_and_more_names_than_asked_for_are_refused() {
    live(async {
        let player = says(reply(&Reply::Stat(stat("/b", 1))), Then::Listen);
        let look = |name: &str| files::Look { path: path(name), follow: false };
        assert_malformed(player.guest.look(look("/a")).await, "something else");
        assert_eq!(player.guest.look(look("/b")).await.unwrap(), stat("/b", 1));

        let entries = vec![stat("a", 1), stat("b", 1)];
        let player = says(reply(&Reply::Entries { entries, is_cut: false }), Then::Listen);
        assert_malformed(player.guest.list(list(1)).await, "something else");
        assert_eq!(player.guest.list(list(2)).await.unwrap().entries.len(), 2);
    });
}

#[test]
fn a_guest_greets_once_and_first() {
    live(async {
        for words in [word(Kind::Reply, &Reply::Done), beat(), end(), out(0, b"a")] {
            let player = says(words, Then::Listen);
            assert_malformed(player.guest.forget("one").await, "out of place");
        }
        let twice = says([hello(), hello()].concat(), Then::Listen);
        assert_malformed(twice.guest.forget("one").await, "greeting out of place");
        let later = word(Kind::Hello, &Hello { version: 900, oldest: 900 });
        let player = says(later, Then::Listen);
        let refused = player.guest.forget("one").await;
        assert!(matches!(refused, Err(GuestError::Version(_))), "{refused:?}");
    });
}

#[test]
fn frames_that_do_not_belong_to_a_stream_are_malformed() {
    live(async {
        let frames = [
            hello(),
            word(Kind::Reply, &Reply::Done),
            raw(Kind::Body, b"a"),
            event(&Event::Left { path: path("a"), code: Code::Denied }),
        ];
        for words in frames {
            assert_malformed(after_start(words, Then::Listen).await, "out of place");
        }
        let asks = word(Kind::Request, &Request::Guest);
        assert_malformed(after_start(asks, Then::Listen).await, "a request");
    });
}

#[test]
fn what_is_no_frame_is_refused_by_its_header() {
    live(async {
        let headers: [&[u8]; 4] = [
            &[0, 0, 0, 0, 99],
            &[0, 0, 0, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 5],
            // An end with something in it.
            &[1, 0, 0, 0, 8],
        ];
        for header in headers {
            assert_malformed(after_start(header.to_vec(), Then::Listen).await, "a");
            let player = says(header.to_vec(), Then::Listen);
            assert_malformed(player.guest.state().await, "a");
        }
        for json in [&b"{"[..], b"[]", br#"{"fly":1}"#, &[b'['; 5000], b"\xff"] {
            let words = [hello(), raw(Kind::Reply, json)].concat();
            let player = says(words, Then::Listen);
            assert_malformed(player.guest.state().await, "cannot be read");
        }
        // The name of what is not known is as long as the guest likes.
        let name = format!(r#"{{"{}":1}}"#, "x".repeat(60_000));
        let player = says([hello(), raw(Kind::Reply, name.as_bytes())].concat(), Then::Listen);
        assert_malformed(player.guest.state().await, "cannot be read");
    });
}

#[test]
fn a_long_answer_where_a_short_one_is_due_is_not_decoded() {
    live(async {
        let execs = vec![status("one"); 2000];
        let player = says(reply(&Reply::Execs(execs.clone())), Then::Listen);
        assert_malformed(player.guest.state().await, "frame of");
        assert_eq!(player.guest.execs().await.unwrap(), execs);
    });
}

#[test]
fn a_frame_that_is_too_long_here_is_refused_by_its_header() {
    live(async {
        let header = raw(Kind::Event, &vec![b' '; 100 << 10])[..5].to_vec();
        let player = says([hello(), header].concat(), Then::Listen);
        // The rest never comes, and is not waited for.
        assert_malformed(player.guest.state().await, "a Event frame of");
    });
}

#[test]
fn a_command_longer_than_any_is_malformed() {
    live(async {
        let told = |words: Vec<Octets>| {
            let one = Status { arguments: words, ..status("one") };
            says(reply(&Reply::Execs(vec![one])), Then::Listen)
        };
        let many = told(vec![path("x"); (64 << 10) + 1]);
        assert_malformed(many.guest.execs().await, "a command longer than any");
        let long = told(vec![path(&"x".repeat(600 << 10))]);
        assert_malformed(long.guest.execs().await, "a command longer than any");
        let fine = told(vec![path(&"x".repeat(512 << 10))]);
        assert_eq!(fine.guest.execs().await.unwrap().len(), 1);
    });
}

#[test]
fn a_request_that_is_too_long_is_not_sent() {
    live(async {
        let player = says(started(), Then::Listen);
        let mut long = start();
        long.command.arguments.push(path(&"x".repeat(5 << 20)));
        let refused = player.guest.start(long).await;
        assert!(matches!(refused, Err(GuestError::TooLong(_))), "{refused:?}");
    });
}

#[test]
fn a_guest_that_takes_no_request_was_not_asked() {
    live(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let guest = atoll_engine::guest::Guest::with_settings(&path, super::play::hasty());
        let mut long = start();
        long.command.arguments.push(super::play::path(&"x".repeat(3 << 20)));
        let late = guest.start(long).await;
        assert!(
            matches!(late, Err(GuestError::TimedOut { known: Known::NotAsked, .. })),
            "{late:?}"
        );
        drop(listener);
    });
}
