//! Whatever a guest says: a right answer or a typed error, soon.

use super::play::{
    Then, ended, event, follow, hello, out, path, plays, raw, reply, start, started, stat, status,
    word,
};
use crate::support::live;
use atoll_engine::guest::{Guest, GuestError, Output};
use atoll_protocol::exec::{Feed, Stream};
use atoll_protocol::files;
use atoll_protocol::frame::Kind;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;
use tokio::time::timeout;

/// Longer than any one question takes with the times of these tests.
const SOON: Duration = Duration::from_secs(3);

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![
        Kind::Reply,
        Kind::Problem,
        Kind::Stdout,
        Kind::Body,
        Kind::Event,
    ]);
    let dropped = (0..8_u64, 0..8_u64)
        .prop_map(|(from, to)| event(&Event::Dropped { stream: Stream::Stdout, from, to }));
    prop_oneof![
        4 => (0..8_u64, vec(any::<u8>(), 1..6)).prop_map(|(offset, bytes)| out(offset, &bytes)),
        2 => dropped,
        2 => (0..12_u64, 0..2_u64).prop_map(|(out, err)| ended(out, err)),
        1 => Just(started()),
        1 => Just(hello()),
        2 => Just(word(Kind::Reply, &Reply::Done)),
        1 => Just(word(Kind::Reply, &Reply::Stat(stat("/a", 3)))),
        1 => Just(word(Kind::Reply, &Reply::Connected)),
        1 => Just(word(Kind::Reply, &Reply::Execs(vec![status("one")]))),
        1 => Just(word(Kind::Problem, &Problem::new(Code::Failed, "no"))),
        2 => vec(any::<u8>(), 1..6).prop_map(|bytes| raw(Kind::Body, &bytes)),
        2 => Just(raw(Kind::Heartbeat, &[])),
        1 => Just(raw(Kind::End, &[])),
        1 => (kind, vec(any::<u8>(), 8..30)).prop_map(|(kind, bytes)| raw(kind, &bytes)),
        1 => vec(any::<u8>(), 0..30),
    ]
}

/// An opening that fits some question, pieces, and where they are cut off.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let opening = prop::sample::select(vec![
        Vec::new(),
        hello(),
        started(),
        reply(&Reply::Started { is_new: false, status: status("one") }),
        reply(&Reply::Stat(stat("/a", 3))),
    ]);
    (opening, vec(piece(), 0..8), 0..20_usize).prop_map(|(opening, pieces, cut)| {
        let mut words = [opening, pieces.concat()].concat();
        // Mostly they are whole.
        words.truncate(words.len().saturating_sub(cut.saturating_sub(14)));
        words
    })
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        8 => Just(Then::Close),
        1 => Just(Then::Listen),
        1 => Just(Then::Again),
    ]
}

/// Asks for everything at once; each must be over soon.
async fn ask_for_everything(guest: &Guest) {
    let file = || files::Read { path: path("/a"), offset: 0, length: None };
    let write = files::Write {
        path: path("/a"),
        existing: files::Existing::Replace,
        mode: None,
        make_parents: false,
    };
    let feed = Feed { id: "one".into(), offset: None, keep_open: false };
    let list = files::List { path: path("/a"), depth: 1, limit: 5 };
    let (mut one, mut other) = (&b"abc"[..], &b"abc"[..]);
    let patient = async {
        tokio::join!(
            followed(guest.start(start())),
            followed(guest.follow(follow(2))),
            async {
                let Ok(mut content) = guest.read(file()).await else { return };
                let mut bytes = 0;
                while let Ok(Some(piece)) = content.next().await {
                    bytes += piece.len();
                }
                assert!(bytes <= 3, "{bytes} bytes of a file of 3");
            },
            async { guest.write(write, &mut one).await.is_ok() },
            async { timeout(SOON / 4, guest.feed(feed, &mut other)).await.is_ok() },
            async { guest.list(list).await.is_ok() },
            async { guest.state().await.is_ok() },
            async { assert!(guest.connect(80).await.is_err()) },
        )
    };
    timeout(SOON, patient).await.expect("over soon");
}

/// What is given out is in order, and an end is one of everything.
async fn followed(asked: impl Future<Output = Result<atoll_engine::guest::Followed, GuestError>>) {
    let Ok(mut followed) = asked.await else { return };
    let offset = |output: &atoll_engine::guest::OutputStream| output.offset(Stream::Stdout);
    let mut at = offset(&followed.output);
    let wanted = at;
    loop {
        match followed.output.next().await {
            Ok(Some(Output::Bytes { stream: Stream::Stdout, offset, bytes })) => {
                assert_eq!(offset, at);
                at += bytes.len() as u64;
            }
            Ok(Some(Output::Dropped { stream: Stream::Stdout, from, to })) => {
                assert!(from == at && to > at);
                at = to;
            }
            Ok(Some(Output::Ended(ended))) => {
                assert!(ended.stdout.bytes == at || at == wanted);
                assert!(matches!(followed.output.next().await, Ok(None)));
                return;
            }
            Ok(Some(_)) => {}
            Ok(None) => panic!("an end without the exec's"),
            Err(_) => {
                let again = followed.output.next().await;
                assert!(matches!(again, Err(GuestError::Lost { .. })), "{again:?}");
                return;
            }
        }
        assert_eq!(offset(&followed.output), at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_guest_says_is_answered_or_refused(
        words in words(),
        repeated in piece(),
        then in then(),
    ) {
        live(async {
            // Nothing said for ever would be no guest but a loop of this test.
            let repeated = if repeated.is_empty() { raw(Kind::End, &[]) } else { repeated };
            let player = plays(words, repeated, then);
            ask_for_everything(&player.guest).await;
        });
    }
}
