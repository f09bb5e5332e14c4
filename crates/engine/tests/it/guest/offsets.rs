//! Streams that jump, go back or lie about where they are.

use super::play::{
    Then, after_start, all, assert_malformed, ended, event, follow, out, reply, says, start,
    started, status,
};
use crate::support::live;
use atoll_engine::guest::Output;
use atoll_protocol::exec::Stream;
use atoll_protocol::frame::{Kind, output_header};
use atoll_protocol::request::{Event, Reply};

fn dropped(from: u64, to: u64) -> Vec<u8> {
    event(&Event::Dropped { stream: Stream::Stdout, from, to })
}

#[test]
fn what_is_said_in_order_is_given_out_in_order() {
    live(async {
        let words = [out(0, b"ab"), dropped(2, 10), out(10, b"c"), ended(11, 0)].concat();
        let found = after_start(words, Then::Close).await.unwrap();
        let bytes = |offset, bytes: &'static [u8]| Output::Bytes {
            stream: Stream::Stdout,
            offset,
            bytes: bytes.into(),
        };
        assert_eq!(found[0], bytes(0, b"ab"));
        assert_eq!(found[1], Output::Dropped { stream: Stream::Stdout, from: 2, to: 10 });
        assert_eq!(found[2], bytes(10, b"c"));
        assert!(matches!(&found[3..], [Output::Ended(_)]));
    });
}

#[test]
fn a_stream_that_jumps_goes_back_or_stands_still_is_malformed() {
    live(async {
        let lies = [
            out(1, b"a"),
            [out(0, b"ab"), out(3, b"c")].concat(),
            [out(0, b"ab"), out(1, b"c")].concat(),
            [out(0, b"ab"), out(0, b"ab")].concat(),
            dropped(1, 2),
            dropped(0, 0),
            [out(0, b"ab"), dropped(2, 1)].concat(),
            [out(0, b"ab"), dropped(0, 9)].concat(),
            [dropped(0, u64::MAX), dropped(u64::MAX, 3)].concat(),
        ];
        for words in lies {
            assert_malformed(after_start(words, Then::Listen).await, "goes on with Stdout");
        }
        let nothing = output_header(Kind::Stderr, 0, 0).to_vec();
        assert_malformed(after_start(nothing, Then::Listen).await, "no bytes");
    });
}

#[test]
fn an_offset_that_cannot_be_counted_on_is_malformed() {
    live(async {
        let there = reply(&Reply::Started { is_new: false, status: status("one") });
        let last = u64::MAX - 1;
        let player = says([there, out(last, b"abc")].concat(), Then::Listen);
        let followed = player.guest.follow(follow(last)).await.unwrap();
        assert_malformed(all(followed).await, "goes on with Stdout");
    });
}

#[test]
fn an_offset_beyond_the_end_is_no_lie_of_the_guest() {
    live(async {
        let there = reply(&Reply::Started { is_new: false, status: status("one") });
        let player = says([there, ended(3, 0)].concat(), Then::Close);
        let found = all(player.guest.follow(follow(10)).await.unwrap()).await.unwrap();
        assert!(matches!(found[..], [Output::Ended(_)]));
    });
}

#[test]
fn the_offsets_say_where_to_go_on() {
    live(async {
        let words = [started(), out(0, b"abc")].concat();
        let player = says(words, Then::Close);
        let mut output = player.guest.start(start()).await.unwrap().output;
        assert!(matches!(output.next().await, Ok(Some(Output::Bytes { .. }))));
        output.next().await.unwrap_err();
        assert_eq!([Stream::Stdout, Stream::Stderr].map(|one| output.offset(one)), [3, 0]);
    });
}
