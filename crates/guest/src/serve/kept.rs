//! What is kept of one stream: its head and its tail, addressed by offset.
//!
//! ```text
//!     0          head          dropped             end
//!     ├────────────┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼──────tail───────┤
//! ```
//!
//! The head is kept for good, since causes come first; the tail moves on, since
//! results come last. Nothing is dropped before both are full.

use atoll_protocol::exec::Printed;
use std::collections::VecDeque;

/// One stream's output.
#[derive(Debug)]
pub(super) struct Kept {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    /// All bytes that ever came.
    end: u64,
}

/// What is there at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At<'a> {
    /// These bytes, and perhaps more behind them.
    Bytes(&'a [u8]),
    /// Bytes that are dropped; kept ones go on at this offset.
    Dropped { to: u64 },
    /// Nothing has come yet.
    End,
}

impl Kept {
    /// A store of at most `limit` bytes, a quarter of them for the head.
    pub(super) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let head_limit = limit / 4;
        let (head, tail) = (Vec::new(), VecDeque::new());
        Self { head, head_limit, tail, tail_limit: limit - head_limit, end: 0 }
    }

    /// Adds what came, and drops from the middle what is too much.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        // What would be dropped at once is not copied.
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes can come without one being dropped that is at or behind
    /// `wanted`.
    pub(super) fn room_for(&self, wanted: u64) -> usize {
        let free = (self.head_limit - self.head.len()) + (self.tail_limit - self.tail.len());
        let read = wanted.saturating_sub(self.tail_start()).min(self.tail.len() as u64);
        free + usize::try_from(read).unwrap_or(0)
    }

    /// What is there at `offset`.
    pub(super) fn at(&self, offset: u64) -> At<'_> {
        if offset >= self.end {
            return At::End;
        }
        if let Some(bytes) = usize::try_from(offset).ok().and_then(|from| self.head.get(from..))
            && !bytes.is_empty()
        {
            return At::Bytes(bytes);
        }
        let start = self.tail_start();
        if offset < start {
            return At::Dropped { to: start };
        }
        let skip = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let (front, back) = self.tail.as_slices();
        match front.get(skip..) {
            Some(bytes) if !bytes.is_empty() => At::Bytes(bytes),
            _ => At::Bytes(&back[skip - front.len()..]),
        }
    }

    /// How much has come and how much of it is dropped.
    pub(super) fn printed(&self) -> Printed {
        let kept = self.head.len() + self.tail.len();
        Printed { bytes: self.end, dropped_bytes: self.end - kept as u64 }
    }

    /// Bytes of memory that are taken.
    pub(super) fn memory(&self) -> u64 {
        (self.head.capacity() + self.tail.capacity()) as u64
    }

    /// Offset of the first byte of the tail.
    fn tail_start(&self) -> u64 {
        self.end - self.tail.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads on from `offset`: the bytes, and where others are missing.
    fn read(kept: &Kept, mut offset: u64) -> (Vec<u8>, Vec<(u64, u64)>) {
        let (mut bytes, mut missing) = (Vec::new(), Vec::new());
        loop {
            match kept.at(offset) {
                At::Bytes(some) => {
                    assert!(!some.is_empty());
                    bytes.extend(some);
                    offset += some.len() as u64;
                }
                At::Dropped { to } => {
                    assert!(to > offset);
                    missing.push((offset, to));
                    offset = to;
                }
                At::End => return (bytes, missing),
            }
        }
    }

    #[test]
    fn head_and_tail_are_kept_and_the_middle_is_counted() {
        let mut kept = Kept::new(16);
        for part in ["abcdef", "ghijklmnop", "qrstuvwxyz"] {
            kept.add(part.as_bytes());
        }
        assert_eq!(read(&kept, 0), (b"abcdopqrstuvwxyz".to_vec(), vec![(4, 14)]));
        assert_eq!(read(&kept, 6), (b"opqrstuvwxyz".to_vec(), vec![(6, 14)]));
        assert_eq!(read(&kept, 20), (b"uvwxyz".to_vec(), vec![]));
        assert_eq!(kept.printed(), Printed { bytes: 26, dropped_bytes: 10 });
    }

    #[test]
    fn one_flood_leaves_as_much_as_many_drops() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut at_once, mut slowly) = (Kept::new(40), Kept::new(40));
        at_once.add(&all);
        all.iter().for_each(|byte| slowly.add(&[*byte]));
        assert_eq!(read(&at_once, 0), read(&slowly, 0));
    }

    proptest! {
        #[test]
        fn it_is_the_stream_with_a_hole_in_the_middle(
            limit in 4..200_u64,
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..30),
            from in 0..400_u64,
        ) {
            let mut kept = Kept::new(limit);
            let mut all = Vec::<u8>::new();
            for part in &parts {
                let room = kept.room_for(from);
                let before = read(&kept, from);
                kept.add(part);
                all.extend(part);
                if part.len() <= room && from < all.len() as u64 {
                    prop_assert_eq!(&read(&kept, from).1, &before.1, "room was promised");
                }
            }
            let printed = kept.printed();
            prop_assert_eq!(printed.bytes, all.len() as u64);
            let expected = (all.len() as u64).saturating_sub(limit);
            prop_assert_eq!(printed.dropped_bytes, expected);
            let (bytes, missing) = read(&kept, 0);
            let mut model = all.clone();
            for (from, to) in missing {
                model.drain(usize::try_from(from).unwrap()..usize::try_from(to).unwrap());
            }
            prop_assert_eq!(bytes, model);
        }
    }
}
