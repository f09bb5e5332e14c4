//! What an exec printed as one answer of bounded size: head and tail.

use super::Piece;
use atoll_api::exec::{Dropped, Kept, Output, RESULT_BYTES_MAX, Stream};
use std::collections::VecDeque;

/// Both streams of an exec, as far as an answer can hold them.
#[derive(Debug)]
pub struct Collected {
    streams: [Half; 2],
}

impl Collected {
    /// Nothing yet, of an exec of which so many bytes are kept.
    pub fn new(keep_bytes: u64) -> Self {
        let limit = usize::try_from(keep_bytes.min(RESULT_BYTES_MAX)).unwrap_or(usize::MAX);
        Self { streams: [Half::new(limit), Half::new(limit)] }
    }

    /// Takes in what came next.
    pub fn take(&mut self, piece: &Piece) {
        match piece {
            Piece::Bytes { stream, bytes, .. } => self.half(*stream).add(bytes),
            Piece::Dropped(Dropped { stream, from, to }) => self.half(*stream).skip(to - from),
            Piece::Ended(_) | Piece::Heartbeat => {}
        }
    }

    /// Standard output and standard error.
    pub fn finish(self) -> (Kept, Kept) {
        let [stdout, stderr] = self.streams.map(Half::finish);
        (stdout, stderr)
    }

    fn half(&mut self, stream: Stream) -> &mut Half {
        match stream {
            Stream::Stdout => &mut self.streams[0],
            Stream::Stderr => &mut self.streams[1],
        }
    }
}

/// One stream.
#[derive(Debug)]
struct Half {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    /// Missing between the two.
    missing: u64,
}

impl Half {
    fn new(limit: usize) -> Self {
        let head_limit = limit / 4;
        let tail_limit = limit - head_limit;
        Self { head: Vec::new(), head_limit, tail: VecDeque::new(), tail_limit, missing: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        // Behind something that is missing there is no head any more.
        let room = if self.missing == 0 && self.tail.is_empty() {
            self.head_limit - self.head.len()
        } else {
            0
        };
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        let taken = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + taken.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(taken);
        self.missing += (rest.len() - taken.len() + excess) as u64;
    }

    /// So many bytes are missing here, and with them what lies before, back to the head.
    fn skip(&mut self, length: u64) {
        self.missing = self.missing.saturating_add(length).saturating_add(self.tail.len() as u64);
        self.tail.clear();
    }

    fn finish(mut self) -> Kept {
        if self.missing == 0 {
            // Nothing is missing between the two.
            self.head.extend(self.tail);
            return Kept { head: Output::new(self.head), dropped_bytes: 0, tail: None };
        }
        // What was cut within a character is text on both sides.
        let cut = cut_at_end(&self.head);
        self.head.truncate(self.head.len() - cut);
        let mut tail = Vec::from(self.tail);
        let begun = cut_at_start(&tail);
        tail.drain(..begun);
        let dropped_bytes = self.missing.saturating_add((cut + begun) as u64);
        Kept { head: Output::new(self.head), dropped_bytes, tail: Some(Output::new(tail)) }
    }
}

/// How many bytes at the end begin a character that is not all there.
pub fn cut_at_end(bytes: &[u8]) -> usize {
    // No character has more than four bytes.
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

/// How many bytes at the start end a character that began before.
fn cut_at_start(bytes: &[u8]) -> usize {
    let goes_on = bytes.iter().take(4).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    // More of them are no character, and then it is no text.
    if goes_on > 3 { 0 } else { goes_on }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn bytes(text: &[u8]) -> Piece {
        let bytes = Bytes::copy_from_slice(text);
        Piece::Bytes { stream: Stream::Stdout, offset: 0, bytes }
    }

    fn dropped(count: u64) -> Piece {
        Piece::Dropped(Dropped { stream: Stream::Stdout, from: 0, to: count })
    }

    fn collect(keep_bytes: u64, pieces: &[Piece]) -> Kept {
        let mut collected = Collected::new(keep_bytes);
        pieces.iter().for_each(|piece| collected.take(piece));
        let (stdout, stderr) = collected.finish();
        assert_eq!(stderr, Kept { head: Output::new(vec![]), dropped_bytes: 0, tail: None });
        stdout
    }

    fn text(text: &str) -> Output {
        Output::Text(text.to_owned())
    }

    #[test]
    fn what_fits_is_whole() {
        let kept = collect(8, &[bytes(b"abc"), bytes(b"defgh")]);
        assert_eq!(kept, Kept { head: text("abcdefgh"), dropped_bytes: 0, tail: None });
    }

    #[test]
    fn what_does_not_fit_is_cut_in_the_middle() {
        let kept = collect(8, &[bytes(b"abc"), bytes(b"defghijkl")]);
        assert_eq!(kept, Kept { head: text("ab"), dropped_bytes: 4, tail: Some(text("ghijkl")) });
    }

    #[test]
    fn what_the_guest_has_dropped_is_counted() {
        let kept = collect(8, &[bytes(b"ab"), dropped(100), bytes(b"wxyz")]);
        assert_eq!(kept, Kept { head: text("ab"), dropped_bytes: 100, tail: Some(text("wxyz")) });
        // What lies between head and gap counts as dropped too.
        let kept = collect(8, &[bytes(b"abcd"), dropped(100), bytes(b"z"), dropped(1)]);
        assert_eq!(kept, Kept { head: text("ab"), dropped_bytes: 104, tail: Some(text("")) });
    }

    #[test]
    fn a_cut_character_does_not_make_binary_of_text() {
        let kept = collect(16, &[bytes("äöüäöüäöüäöüx".as_bytes())]);
        assert_eq!(kept.head, text("äö"));
        assert_eq!(kept.tail, Some(text("öüäöüx")));
        assert_eq!(kept.dropped_bytes, 25 - 4 - 11);
        let kept = collect(8, &[bytes(&[0xff; 20])]);
        assert_eq!(kept.dropped_bytes, 12);
    }

    proptest! {
        #[test]
        fn every_byte_is_there_or_counted(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..30), 0..20),
        ) {
            let pieces: Vec<_> = parts.iter().map(|part| bytes(part)).collect();
            let all = parts.concat();
            let kept = collect(40, &pieces);
            let (head, tail) = (kept.head.as_bytes(), kept.tail.as_ref().map_or(&[][..], Output::as_bytes));
            prop_assert!(all.starts_with(head) && all.ends_with(tail));
            let there = (head.len() + tail.len()) as u64;
            prop_assert_eq!(there + kept.dropped_bytes, all.len() as u64);
            prop_assert!(there <= 40 && (all.len() > 40 || kept.tail.is_none()));
        }

        #[test]
        fn a_text_is_cut_between_characters(all in "\\PC{0,40}", at in 0..100_usize) {
            let at = at.min(all.len());
            let bytes = &all.as_bytes()[..at];
            let whole = &bytes[..bytes.len() - cut_at_end(bytes)];
            prop_assert_eq!(std::str::from_utf8(whole).unwrap(), &all[..all.floor_char_boundary(at)]);
        }
    }
}
