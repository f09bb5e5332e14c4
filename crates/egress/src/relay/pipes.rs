//! Pipes that bytes are spliced through, kept for the next one who needs some.

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// Room of a pipe that is asked for; the kernel may give less (`pipe-user-pages-soft`, pipe(7)).
const BYTES: usize = 1 << 20;

/// Pipes that are kept while nobody needs them.
const KEPT_MAX: usize = 32;

/// Empty pipes.
#[derive(Debug, Default)]
pub struct Pipes {
    kept: Mutex<Vec<Pipe>>,
}

/// A pipe, and how much it holds.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
    pub(super) bytes: usize,
}

impl Pipes {
    /// An empty pipe.
    pub(super) fn take(&self) -> io::Result<Pipe> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(pipe) = kept {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A small one is slower, and does as well.
        let bytes = fcntl_setpipe_size(&write, BYTES).unwrap_or(64 << 10);
        Ok(Pipe { read, write, bytes })
    }

    /// Takes an empty pipe back.
    pub(super) fn give_back(&self, pipe: Pipe) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(pipe);
        }
    }
}
