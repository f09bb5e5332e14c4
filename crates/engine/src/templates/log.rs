//! The log of a build: lines with numbers, the oldest of which make room.

use atoll_api::template::{BuildLogEntry, BuildStream};
use atoll_api::time::Timestamp;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Longest line, in bytes; one that is longer becomes several.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 10;
/// Most lines that are given at once.
pub(crate) const PAGE: usize = 500;
/// What a line takes beside its text.
const LINE_BYTES: usize = 64;

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<Lines>,
    /// The number of the next line.
    next: watch::Sender<u64>,
}

#[derive(Debug)]
struct Lines {
    entries: VecDeque<BuildLogEntry>,
    bytes: usize,
    bytes_max: usize,
}

impl Log {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let lines = Lines { entries: VecDeque::new(), bytes: 0, bytes_max };
        Self { lines: Mutex::new(lines), next: watch::Sender::new(0) }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line.
    pub(crate) fn write(
        &self,
        at: Timestamp,
        step: Option<u32>,
        stream: BuildStream,
        message: String,
    ) {
        let mut lines = self.lines();
        let offset = *self.next.borrow();
        lines.bytes += message.len() + LINE_BYTES;
        lines.entries.push_back(BuildLogEntry { offset, at, step, stream, message });
        while lines.bytes > lines.bytes_max && lines.entries.len() > 1 {
            let Some(gone) = lines.entries.pop_front() else { break };
            lines.bytes -= gone.message.len() + LINE_BYTES;
        }
        drop(lines);
        self.next.send_modify(|next| *next += 1);
    }

    /// The lines from a number on, as far as they are kept.
    pub(crate) fn read(&self, offset: u64) -> Vec<BuildLogEntry> {
        page(&self.lines().entries, offset)
    }

    /// All lines, as they are written to a file.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for entry in &self.lines().entries {
            text.extend(serde_json::to_vec(entry).expect("a line has string keys only"));
            text.push(b'\n');
        }
        text
    }

    /// Turns when there is another line.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }
}

/// Reads what was written to a file; what cannot be understood is left out.
pub(crate) fn read_text(text: &[u8], offset: u64) -> Vec<BuildLogEntry> {
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let entries = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    page(&entries, offset)
}

fn page(entries: &VecDeque<BuildLogEntry>, offset: u64) -> Vec<BuildLogEntry> {
    let first = entries.partition_point(|entry| entry.offset < offset);
    entries.range(first..).take(PAGE).cloned().collect()
}

/// Makes lines of what comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct Splitter(Vec<u8>);

impl Splitter {
    /// Takes a piece and gives the lines that are whole now.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' {
                lines.extend(self.line());
            } else {
                self.0.push(byte);
                if self.0.len() >= LINE_BYTES_MAX {
                    lines.extend(self.rest());
                }
            }
        }
        lines
    }

    /// A line that has ended, which may be empty.
    fn line(&mut self) -> Option<String> {
        let mut bytes = std::mem::take(&mut self.0);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What is there of a line that does not end.
    pub(crate) fn rest(&mut self) -> Option<String> {
        if self.0.is_empty() { None } else { self.line() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(log: &Log, text: &str) {
        log.write(Timestamp::UNIX_EPOCH, Some(1), BuildStream::Stdout, text.to_owned());
    }

    #[test]
    fn old_lines_make_room_and_numbers_stay() {
        let log = Log::new(3 * (LINE_BYTES + 1));
        for text in ["a", "b", "c", "d", "e"] {
            write(&log, text);
        }
        let read = |from| -> Vec<_> {
            log.read(from).into_iter().map(|entry| (entry.offset, entry.message)).collect()
        };
        let kept = [(2, "c"), (3, "d"), (4, "e")].map(|(at, text)| (at, text.to_owned()));
        assert_eq!(read(0), kept);
        assert_eq!(read(4), kept[2..]);
        assert!(read(5).is_empty());
        assert_eq!(*log.changes().borrow(), 5);
        assert_eq!(read_text(&log.text(), 3).len(), 2);
        // What broke off in the middle takes nothing else along.
        assert_eq!(read_text(&[log.text(), b"{\"off".to_vec()].concat(), 0).len(), 3);
        // One line is kept however long it is.
        write(&log, &"x".repeat(1000));
        assert_eq!(log.read(0).len(), 1);
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_come(text in "[a\\n]{0,40}", cuts in proptest::collection::vec(1_usize..8, 0..10)) {
            let mut splitter = Splitter::default();
            let (mut lines, mut rest) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                lines.extend(splitter.take(piece));
                rest = more;
            }
            lines.extend(splitter.take(rest));
            lines.extend(splitter.rest());
            let expected: Vec<_> = text.lines().map(str::to_owned).collect();
            prop_assert_eq!(lines, expected);
        }
    }
}
