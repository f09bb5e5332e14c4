//! Files and what is fed: more than was said, too little, and nobody who takes it.

use super::play::{
    Then, assert_malformed, beat, end, event, hello, path, plays, problem, raw, reply, says, stat,
    word,
};
use crate::support::live;
use atoll_engine::guest::{Content, Cut, GuestError, Known, Piece};
use atoll_protocol::exec::Feed;
use atoll_protocol::files::{Archive, Existing, Read, Unpack, Write};
use atoll_protocol::frame::Kind;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

fn read(length: Option<u64>) -> Read {
    Read { path: path("/a"), offset: 0, length }
}

fn write() -> Write {
    Write { path: path("/a"), existing: Existing::Replace, mode: None, make_parents: false }
}

fn feed() -> Feed {
    Feed { id: "one".into(), offset: None, keep_open: false }
}

async fn everything(mut content: Content) -> Result<Vec<u8>, GuestError> {
    let mut found = Vec::new();
    while let Some(bytes) = content.next().await? {
        found.extend(bytes);
    }
    Ok(found)
}

/// What a guest sends of a file that has four bytes.
async fn of_four(words: Vec<u8>, length: Option<u64>) -> Result<Vec<u8>, GuestError> {
    let player = says([reply(&Reply::Stat(stat("/a", 4))), words].concat(), Then::Close);
    everything(player.guest.read(read(length)).await?).await
}

fn body(bytes: &[u8]) -> Vec<u8> {
    raw(Kind::Body, bytes)
}

#[test]
fn a_file_is_what_came_before_its_end() {
    live(async {
        let words = [body(b"ab"), beat(), body(b"cd"), end()].concat();
        assert_eq!(of_four(words, None).await.unwrap(), b"abcd");
        // It has become shorter meanwhile.
        assert_eq!(of_four([body(b"ab"), end()].concat(), None).await.unwrap(), b"ab");
        for words in [Vec::new(), body(b"abcd"), body(b"abcd")[..7].to_vec()] {
            let lost = of_four(words, None).await;
            assert!(matches!(
                lost,
                Err(GuestError::Lost { known: Known::Answered, cut: Cut::Ended })
            ));
        }
    });
}

#[test]
fn more_of_a_file_than_there_is_or_was_asked_for_is_malformed() {
    live(async {
        assert_malformed(of_four(body(b"abcde"), None).await, "more of a file");
        let words = [body(b"ab"), body(b"cde")].concat();
        assert_malformed(of_four(words, None).await, "more of a file");
        assert_malformed(of_four(body(b"abc"), Some(2)).await, "more of a file");
        assert_malformed(of_four(body(b""), None).await, "no bytes");
        let words = event(&Event::Left { path: path("x"), code: Code::Denied });
        assert_malformed(of_four(words, None).await, "event out of place");
        assert_malformed(of_four(super::play::out(0, b"a"), None).await, "output out of place");
    });
}

#[test]
fn a_file_without_end_stays_where_it_is() {
    live(async {
        // One of procfs has no length, and may be endless.
        let words = reply(&Reply::Stat(stat("/a", 0)));
        let player = plays(words, body(&[7; 9000]), Then::Again);
        let mut content = player.guest.read(read(None)).await.unwrap();
        for _ in 0..1000 {
            assert_eq!(content.next().await.unwrap().unwrap().len(), 9000);
        }
        drop(content);
        player.guest.read(read(None)).await.unwrap();
    });
}

#[test]
fn what_is_left_out_of_an_archive_is_told() {
    live(async {
        let left = event(&Event::Left { path: path("x"), code: Code::Denied });
        let words = [reply(&Reply::Stat(stat("/a", 0))), left, body(b"ab"), end()].concat();
        let player = says(words, Then::Close);
        let archive = || player.guest.archive(Archive { path: path("/a") });
        let mut content = archive().await.unwrap();
        let expected = Piece::Left { path: path("x"), code: Code::Denied };
        assert_eq!(content.next_piece().await.unwrap(), Some(expected));
        assert_eq!(content.next_piece().await.unwrap(), Some(Piece::Bytes("ab".into())));
        assert_eq!(content.next_piece().await.unwrap(), None);
        assert_eq!(everything(archive().await.unwrap()).await.unwrap(), b"ab");
    });
}

#[test]
fn a_guest_that_refuses_early_is_heard_while_there_is_more_to_send() {
    live(async {
        let words = [hello(), problem(Code::NoSpace, "full")].concat();
        for then in [Then::Listen, Then::Stare, Then::Close] {
            let player = says(words.clone(), then);
            let refused = player.guest.write(write(), &mut tokio::io::repeat(7)).await;
            assert!(matches!(refused, Err(GuestError::Refused(_))), "{then:?}: {refused:?}");
            let refused = player.guest.feed(feed(), &mut tokio::io::repeat(7)).await;
            assert!(matches!(refused, Err(GuestError::Refused(_))), "{then:?}: {refused:?}");
            // Also where there is nothing to send for now.
            let (mut nothing, _open) = tokio::io::duplex(1);
            let refused = player.guest.feed(feed(), &mut nothing).await;
            assert!(matches!(refused, Err(GuestError::Refused(_))), "{then:?}: {refused:?}");
        }
    });
}

#[test]
fn a_guest_that_takes_nothing_of_a_file_is_lost() {
    live(async {
        let player = says(hello(), Then::Stare);
        let lost = player.guest.write(write(), &mut tokio::io::repeat(7)).await;
        assert!(
            matches!(lost, Err(GuestError::Lost { known: Known::Asked, cut: Cut::Silent })),
            "{lost:?}"
        );
        // One that takes everything and says nothing has had its time too.
        let player = says(hello(), Then::Listen);
        let late = player.guest.write(write(), &mut &b"abc"[..]).await;
        assert!(matches!(late, Err(GuestError::TimedOut { known: Known::Asked, .. })), "{late:?}");
    });
}

#[test]
fn an_answer_before_everything_was_sent_is_malformed() {
    live(async {
        let player = says(reply(&Reply::Done), Then::Listen);
        let early = player.guest.feed(feed(), &mut tokio::io::repeat(7)).await;
        assert_malformed(early, "before it was told everything");
        let player = says([hello(), body(b"a")].concat(), Then::Listen);
        let unpack = Unpack { path: path("/a"), make_parents: false };
        let early = player.guest.unpack(unpack, &mut tokio::io::repeat(7)).await;
        assert_malformed(early, "content out of place");
    });
}

#[test]
fn a_guest_that_goes_while_it_is_fed_is_lost() {
    live(async {
        let player = says(hello(), Then::Close);
        let lost = player.guest.feed(feed(), &mut tokio::io::repeat(7)).await;
        assert!(
            matches!(lost, Err(GuestError::Lost { known: Known::Asked, cut: Cut::Ended })),
            "{lost:?}"
        );
    });
}

#[test]
fn another_file_than_the_one_written_is_malformed() {
    live(async {
        let player = says(
            [hello(), word(Kind::Event, &Event::Left { path: path("a"), code: Code::Denied })]
                .concat(),
            Then::Listen,
        );
        let odd = player.guest.write(write(), &mut &b"abc"[..]).await;
        assert_malformed(odd, "event out of place");
    });
}

/// A source that fails.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Ready(Err(std::io::Error::other("broken")))
    }
}

#[test]
fn a_source_that_fails_is_no_fault_of_the_guest() {
    live(async {
        let player = says(hello(), Then::Listen);
        let failed = player.guest.write(write(), &mut Broken).await;
        assert!(matches!(failed, Err(GuestError::Source(_))), "{failed:?}");
    });
}
