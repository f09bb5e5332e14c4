//! `.git` files that are being written.
//!
//! Git writes one by open, write, close: no call shows its content before it is
//! on disk. So the caller writes into a file that has no name, and what it wrote
//! is put in place by the judge if it leads to a git directory that is judged.
//! That happens before the next call of anybody is answered, or a moment later.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, pread};

use super::denial::{Class, Denial, Rule, Sink};
use super::git::repository;
use super::install::{nobodys_file, write_new};
use super::state::{Case, State, kind_at};
use super::walk::Spot;

/// A path and its prefix, generously.
const MAX_POINTER: usize = 8192;
/// Written at the same time; each holds two descriptors.
const MAX_POINTERS: usize = 64;
/// After this long, what is there is taken for all there will be.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Pointer {
    directory: OwnedFd,
    name: CString,
    path: Vec<u8>,
    content: OwnedFd,
    mode: u32,
    since: Instant,
    pid: u32,
}

impl State {
    /// Gives the caller of an open a file to write the pointer into.
    pub(super) fn begin_pointer(
        &mut self,
        case: &Case<'_>,
        spot: &Spot<'_>,
        path: &[u8],
        mode: u32,
    ) -> Result<OwnedFd, Errno> {
        if self.pointers.len() >= MAX_POINTERS {
            return Err(Errno::AGAIN);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(spot.parent.as_fd(), c".", flags, Mode::empty())?;
        let content = nobodys_file()?;
        let given = rustix::io::fcntl_dupfd_cloexec(&content, 0)?;
        self.pointers.push(Pointer {
            directory,
            name: spot.name.clone(),
            path: path.to_vec(),
            content,
            mode: mode & 0o666,
            since: Instant::now(),
            pid: case.caller.thread.get(),
        });
        Ok(given)
    }

    /// Puts in place what has been written. With `is_last`, everything.
    pub(super) fn settle_pointers(&mut self, sink: &mut dyn Sink, is_last: bool) {
        for pointer in std::mem::take(&mut self.pointers) {
            let content = pointer.read();
            let is_complete = content.ends_with(b"\n");
            if !is_complete && !is_last && pointer.since.elapsed() < PATIENCE {
                self.pointers.push(pointer);
            } else if !content.is_empty() {
                self.take_pointer(&pointer, &content, sink);
            }
        }
    }

    fn take_pointer(&mut self, pointer: &Pointer, content: &[u8], sink: &mut dyn Sink) {
        let slash = pointer.path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
        let is_safe = repository::pointer(content)
            .is_some_and(|target| self.is_safe_pointer(&pointer.path[..slash], &target));
        if is_safe && pointer.write(content).is_ok() {
            self.ledger.birth_pointer(pointer.path.clone());
            return;
        }
        let text = String::from_utf8_lossy(content);
        let detail = format!("it would lead to {:?}", text.trim_end());
        sink.denied(Denial {
            rule: Rule::GitPointer.code(),
            class: Class::BornRepository,
            operation: "open",
            path: super::state::to_path(&pointer.path),
            pid: pointer.pid,
            detail: Some(detail),
            suggestion: None,
        });
    }
}

impl Pointer {
    fn read(&self) -> Vec<u8> {
        let mut content = vec![0; MAX_POINTER];
        let length = pread(&self.content, &mut content, 0).unwrap_or_default();
        content.truncate(length);
        content
    }

    fn write(&self, content: &[u8]) -> Result<(), Errno> {
        if kind_at(self.directory.as_fd(), &self.name).is_some() {
            unlinkat(&self.directory, &self.name, AtFlags::empty())?;
        }
        write_new(self.directory.as_fd(), &self.name, content, self.mode)
    }
}
