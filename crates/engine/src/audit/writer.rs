//! The one writer of the log: it numbers records, chains them, and brings them to the disk.
//!
//! A write that fails is taken back, so that no half of a line stays, and tried again with the
//! same records until it works; nothing is written past them. What comes meanwhile waits, and what
//! does not fit into memory is counted in its place.

use super::line::{self, Hash, LINE_BYTES_MAX};
use super::read::{file_path, files};
use super::{AuditError, Limits, Queue, Waiting, report};
use atoll_api::audit::AuditKind;
use atoll_api::time::Timestamp;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Records that are written at once.
const BATCH: usize = 256;
/// What a record takes beside its kind, about.
const AROUND_BYTES: usize = 256;

/// About how much a record takes.
pub(super) fn size(what: &AuditKind) -> usize {
    serde_json::to_string(what).map_or(0, |text| text.len()) + AROUND_BYTES
}

pub(super) struct Writer {
    folder: PathBuf,
    limits: Limits,
    queue: Arc<Queue>,
    last: watch::Sender<u64>,
    file: File,
    path: PathBuf,
    end: End,
    /// When the first write happened that may not be on the disk.
    unsynced: Option<Instant>,
}

/// How far the log goes.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Bytes of the last file.
    length: u64,
    /// The number of the last record.
    seq: u64,
    hash: Hash,
}

impl Writer {
    pub(super) fn open(
        folder: &Path,
        limits: Limits,
        now: Timestamp,
        queue: Arc<Queue>,
        last: watch::Sender<u64>,
    ) -> Result<Self, AuditError> {
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |source| AuditError { step, path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed("make", folder))?;
        let mut all = files(folder)?;
        let mut torn = 0;
        let (path, file, found) = loop {
            let first = all.pop().map_or(1, |(first, _)| first);
            let path = file_path(folder, first);
            let mut file = open_file(&path).map_err(failed("open", &path))?;
            let begun = End { length: 0, seq: first - 1, hash: Hash::START };
            let found = find_end(&mut file, begun).map_err(failed("read", &path))?;
            torn += found.torn_bytes;
            if found.end.length > 0 || all.is_empty() {
                break (path, file, found);
            }
            // It was about to follow on the one before.
            fs::remove_file(&path).map_err(failed("repair", &path))?;
        };
        if torn > 0 {
            file.set_len(found.end.length).map_err(failed("repair", &path))?;
        }
        let end = found.end;
        let folder = folder.to_owned();
        let writer = Self { folder, limits, queue, last, file, path, end, unsynced: None };
        let what = |what| Waiting { at: now, sandbox: None, bytes: 0, what };
        let mut first = Vec::new();
        if found.end.length == 0 {
            first.push(what(AuditKind::Continued { previous: found.end.hash.to_string() }));
        }
        if torn > 0 {
            first.push(what(AuditKind::Repaired { bytes: torn }));
        }
        first.push(what(AuditKind::ServerStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            was_in_order: found.end.length == 0 && torn == 0 || found.was_stopped,
        }));
        // A disk that is full now may have room later; the server says so until then.
        let mut inner = writer.queue.lock();
        for one in first.into_iter().rev() {
            inner.waiting.push_front(one);
        }
        drop(inner);
        writer.last.send_replace(writer.end.seq);
        Ok(writer)
    }

    /// Writes what comes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        loop {
            let (batch, is_closing) = self.wait();
            if !batch.is_empty() && !self.write_until_done(batch) {
                return;
            }
            let is_due = self.unsynced.is_some_and(|at| at.elapsed() >= self.limits.sync_after);
            let waited_for = {
                let mut inner = self.queue.lock();
                if inner.waiting.is_empty() { std::mem::take(&mut inner.syncs) } else { Vec::new() }
            };
            if is_due || !waited_for.is_empty() || is_closing {
                self.sync();
            }
            for done in waited_for {
                // Who waited may have gone.
                done.send(()).unwrap_or_default();
            }
            if is_closing && self.queue.lock().waiting.is_empty() {
                return;
            }
        }
    }

    /// Waits for something to do, and takes what is to be written.
    fn wait(&self) -> (Vec<Waiting>, bool) {
        let mut inner = self.queue.lock();
        loop {
            if !inner.waiting.is_empty() || !inner.syncs.is_empty() || inner.is_closing {
                break;
            }
            let left = self.unsynced.map(|at| self.limits.sync_after.saturating_sub(at.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            // Without anything to bring to the disk nothing but a change can matter.
            let left = left.unwrap_or(Duration::from_secs(3600));
            let waited = self.queue.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = inner.waiting.len().min(BATCH);
        let batch: Vec<Waiting> = inner.waiting.drain(..count).collect();
        let bytes = batch.iter().map(|one| one.bytes).sum::<usize>();
        inner.bytes -= bytes;
        inner.taken_bytes = bytes;
        (batch, inner.is_closing)
    }

    /// Writes a batch, again and again; gives up only when the server ends.
    fn write_until_done(&mut self, batch: Vec<Waiting>) -> bool {
        loop {
            match self.write(&batch) {
                Ok(()) => {
                    let mut inner = self.queue.lock();
                    inner.taken_bytes = 0;
                    inner.trouble = None;
                    return true;
                }
                Err(source) => {
                    let error = AuditError { step: "write", path: self.path.clone(), source };
                    let mut inner = self.queue.lock();
                    if inner.trouble.is_none() {
                        report(&error);
                    }
                    inner.trouble = Some(error.source.to_string());
                    if inner.is_closing {
                        return false;
                    }
                    let changed = &self.queue.changed;
                    let begun = Instant::now();
                    // What comes meanwhile wakes nobody to try again.
                    while !inner.is_closing {
                        let left = self.limits.retry_after.saturating_sub(begun.elapsed());
                        if left.is_zero() {
                            break;
                        }
                        let waited = changed.wait_timeout(inner, left);
                        inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                    }
                }
            }
        }
    }

    /// Writes a batch, all of it or nothing.
    fn write(&mut self, batch: &[Waiting]) -> io::Result<()> {
        if self.end.length >= self.limits.file_bytes_max {
            self.rotate(batch[0].at)?;
        }
        let mut lines = Vec::new();
        let (mut seq, mut hash) = (self.end.seq, self.end.hash);
        for Waiting { at, sandbox, what, .. } in batch {
            seq += 1;
            hash = line::write(hash, (seq, *at), *sandbox, what, &mut lines);
        }
        self.append(&lines, seq, hash)
    }

    fn append(&mut self, lines: &[u8], seq: u64, hash: Hash) -> io::Result<()> {
        if let Err(error) = self.file.write_all(lines) {
            // What stays of it would be taken for a part of the next line.
            self.file.set_len(self.end.length)?;
            return Err(error);
        }
        let length = self.end.length + lines.len() as u64;
        self.end = End { length, seq, hash };
        self.unsynced.get_or_insert_with(Instant::now);
        self.last.send_replace(seq);
        Ok(())
    }

    /// Begins the next file, and lets the oldest go if there are too many.
    fn rotate(&mut self, at: Timestamp) -> io::Result<()> {
        self.file.sync_data()?;
        self.unsynced = None;
        let seq = self.end.seq + 1;
        let path = file_path(&self.folder, seq);
        // One that is there is of an attempt that failed, and nothing is in it.
        let file = open_file(&path)?;
        file.set_len(0)?;
        let before = (std::mem::replace(&mut self.file, file), self.end);
        let path_before = std::mem::replace(&mut self.path, path);
        self.end.length = 0;
        let mut lines = Vec::new();
        let what = AuditKind::Continued { previous: self.end.hash.to_string() };
        let mut hash = line::write(self.end.hash, (seq, at), None, &what, &mut lines);
        let (mut last, mut let_go) = (seq, Vec::new());
        let all = files(&self.folder).unwrap_or_default();
        let too_many = all.len().saturating_sub(self.limits.files_count_max);
        for pair in all.windows(2).take(too_many) {
            last += 1;
            let what = AuditKind::LetGo { through: pair[1].0 - 1 };
            hash = line::write(hash, (last, at), None, &what, &mut lines);
            let_go.push(&pair[0].1);
        }
        if let Err(error) = self.append(&lines, last, hash) {
            (self.file, self.end) = before;
            self.path = path_before;
            return Err(error);
        }
        File::open(&self.folder)?.sync_all()?;
        // It is said before it is done.
        self.file.sync_data()?;
        for path in let_go {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn sync(&mut self) {
        if self.unsynced.take().is_none() {
            return;
        }
        if let Err(source) = self.file.sync_data() {
            let error = AuditError { step: "sync", path: self.path.clone(), source };
            report(&error);
            self.queue.lock().trouble = Some(error.source.to_string());
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

struct Found {
    end: End,
    torn_bytes: u64,
    was_stopped: bool,
}

/// Looks where the last whole line of a file is.
fn find_end(file: &mut File, begun: End) -> io::Result<Found> {
    let size = file.metadata()?.len();
    // Two lines, of which the last may be cut short.
    let from = size.saturating_sub(2 * LINE_BYTES_MAX as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(2 * LINE_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1);
    let torn_bytes = (bytes.len() - whole) as u64;
    let length = size - torn_bytes;
    if whole == 0 {
        // Nothing of it is a line, so that nothing is lost with it.
        let end = End { length: 0, ..begun };
        return Ok(Found { end, torn_bytes: size, was_stopped: false });
    }
    let lines = &bytes[..whole - 1];
    let start = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1);
    let last = &lines[start..];
    let parsed = std::str::from_utf8(last).ok().and_then(line::split);
    let (hash, seq) = match (parsed, line::seq_of(last)) {
        (Some((_, hash)), Some(seq)) => (hash, seq),
        // Somebody has changed it, which the next look at the chain tells; the log goes on.
        (_, seq) => (Hash::START, seq.unwrap_or(begun.seq + 1)),
    };
    let was_stopped = last.windows(16).any(|part| part == b"\"server_stopped\"");
    Ok(Found { end: End { length, seq, hash }, torn_bytes, was_stopped })
}
