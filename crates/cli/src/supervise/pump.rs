//! Bytes on their way from one descriptor to another, a bounded number at a time.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// A pty hands out at most 4 KiB at once; a pipe 64 KiB.
const BUFFER_BYTES: usize = 16 * 1024;

/// One direction. It reads only when all that it has read is written, so that a
/// slow reader holds up the writer and memory stays flat.
#[derive(Debug)]
pub(super) struct Pump {
    buffer: Box<[u8; BUFFER_BYTES]>,
    start: usize,
    end: usize,
    finished: bool,
}

/// What an attempt to read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Some,
    /// Nothing now, or no room before more is written.
    Nothing,
    /// Zero bytes: the end of a pipe; of a terminal only with a hang-up.
    Zero,
    Failed(Errno),
}

/// What an attempt to write found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Nothing is left to write.
    Done,
    /// The other side takes no more now.
    Later,
    Failed(Errno),
}

impl Pump {
    pub(super) fn new() -> Self {
        Self { buffer: Box::new([0; BUFFER_BYTES]), start: 0, end: 0, finished: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Nothing will be read any more.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// Forgets what has not been written and reads no more.
    pub(super) fn abandon(&mut self) {
        self.start = self.end;
        self.finished = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.finished && self.is_empty()
    }

    pub(super) fn wants_read(&self) -> bool {
        !self.finished && self.is_empty()
    }

    pub(super) fn read(&mut self, from: impl AsFd) -> Read {
        if !self.wants_read() {
            return Read::Nothing;
        }
        match rustix::io::read(from, &mut self.buffer[..]) {
            Ok(0) => Read::Zero,
            Ok(count) => {
                (self.start, self.end) = (0, count);
                Read::Some
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            Err(error) => Read::Failed(error),
        }
    }

    /// Writes what it can, at most `limit` bytes a time.
    pub(super) fn write(&mut self, to: impl AsFd, limit: usize) -> Write {
        while !self.is_empty() {
            let end = self.end.min(self.start.saturating_add(limit));
            match rustix::io::write(&to, &self.buffer[self.start..end]) {
                Ok(count) => self.start += count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Write::Later,
                Err(error) => return Write::Failed(error),
            }
            if limit != usize::MAX {
                // A descriptor that waits: ask poll(2) before each piece.
                return if self.is_empty() { Write::Done } else { Write::Later };
            }
        }
        Write::Done
    }

    /// Adds bytes behind those that wait, if there is room.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        if let Some(room) = self.buffer.get_mut(self.end..self.end + bytes.len()) {
            room.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Takes the CR out of each CR LF, for an output that will put one in again.
    ///
    /// The command's terminal put a CR before each LF, so this gives back exactly
    /// what was written. (Only where a buffer ends between the two it does not,
    /// and a terminal shows no difference.)
    pub(super) fn undo_line_ends(&mut self) {
        let mut kept = self.start;
        for index in self.start..self.end {
            let next = (index + 1 < self.end).then(|| self.buffer[index + 1]);
            if !(self.buffer[index] == b'\r' && next == Some(b'\n')) {
                self.buffer[kept] = self.buffer[index];
                kept += 1;
            }
        }
        self.end = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(bytes: &[u8]) -> Vec<u8> {
        let mut pump = Pump::new();
        pump.push(bytes);
        pump.undo_line_ends();
        pump.buffer[pump.start..pump.end].to_vec()
    }

    #[test]
    fn one_cr_is_taken_from_each_line_end() {
        assert_eq!(undone(b"one\r\ntwo\r\n"), b"one\ntwo\n");
        assert_eq!(undone(b"own\r\r\nbar\rbar\r"), b"own\r\nbar\rbar\r");
        assert_eq!(undone(b"\n\r\n"), b"\n\n");
        assert_eq!(undone(b""), b"");
    }

    #[test]
    fn nothing_is_read_before_all_is_written() {
        let (from, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"first").unwrap();
        let mut pump = Pump::new();
        assert_eq!(pump.read(&from), Read::Some);
        rustix::io::write(&writer, b"second").unwrap();
        assert_eq!(pump.read(&from), Read::Nothing);
        let (end, to) = rustix::pipe::pipe().unwrap();
        assert_eq!(pump.write(&to, usize::MAX), Write::Done);
        assert_eq!(pump.read(&from), Read::Some);
        assert_eq!(pump.write(&to, 4), Write::Later);
        assert_eq!(pump.write(&to, 4), Write::Done);
        drop(writer);
        assert_eq!(pump.read(&from), Read::Zero);
        let mut bytes = [0; 32];
        let count = rustix::io::read(&end, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"firstsecond");
    }
}
