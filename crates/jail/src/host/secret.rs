//! Files with values that are meant for the workload alone.

use crate::spec::{Entry, What};
use std::path::Path;

/// A file that only the workload's user can read, and nobody can write or replace.
#[must_use]
pub fn secret_file(at: &Path, value: &[u8]) -> [Entry; 2] {
    let content = value.to_vec();
    // What is private can be written; a mount on it cannot.
    let of = at.to_owned();
    [Entry::new(at, What::File { content, mode: 0o400 }), Entry::new(at, What::Twin { of })]
}
