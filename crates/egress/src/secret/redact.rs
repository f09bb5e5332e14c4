//! Covers secrets in what comes back, piece by piece.

use super::{Patterns, Secret};
use bytes::Bytes;
use std::sync::Arc;

/// Most bytes that may be the beginning of a value and are given all the same, when nothing
/// follows for now: a message that ends in one of its letters must not wait for the next.
const GIVEN_MAX: usize = 3;

/// Covers secrets in bytes that come in pieces.
///
/// A value is covered by its placeholder, cut or filled with `*` to the same length: so a length
/// that was announced stays true, and frames of a WebSocket stay whole.
#[derive(Debug)]
pub struct Redactor {
    patterns: Arc<Patterns>,
    /// What may be the beginning of a value.
    kept: Vec<u8>,
    /// How much of it was given already, and is only remembered.
    given: usize,
    found: Vec<Arc<Secret>>,
}

impl Redactor {
    /// Covers what is in `patterns`.
    #[must_use]
    pub const fn new(patterns: Arc<Patterns>) -> Self {
        Self { patterns, kept: Vec::new(), given: 0, found: Vec::new() }
    }

    /// Takes a piece, and gives what surely is no part of a value any more.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        if self.patterns.is_empty() {
            return piece;
        }
        let mut text = std::mem::take(&mut self.kept);
        text.extend_from_slice(&piece);
        self.cover(&mut text);
        let sure = text.len() - self.patterns.begun(&text);
        self.kept = text.split_off(sure);
        let given = self.given.min(text.len());
        self.given -= given;
        Bytes::from(text).slice(given..)
    }

    /// Gives what was kept, if it is little, as nothing follows for now.
    pub fn flush(&mut self) -> Bytes {
        if self.kept.len() > GIVEN_MAX {
            return Bytes::new();
        }
        let given = std::mem::replace(&mut self.given, self.kept.len());
        Bytes::copy_from_slice(&self.kept[given..])
    }

    /// Gives what was kept, as nothing follows ever.
    pub fn finish(&mut self) -> Bytes {
        let given = std::mem::take(&mut self.given);
        Bytes::from(std::mem::take(&mut self.kept)).slice(given..)
    }

    /// Covers secrets in a whole text; nothing where there are none.
    pub fn whole(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let mut covered = text.to_vec();
        self.cover(&mut covered);
        (covered != text).then_some(covered)
    }

    /// Those that were found since it was asked last.
    pub fn found(&mut self) -> Vec<Arc<Secret>> {
        std::mem::take(&mut self.found)
    }

    fn cover(&mut self, text: &mut [u8]) {
        let found = &mut self.found;
        self.patterns.cover(text, |secret| {
            if !found.iter().any(|other| Arc::ptr_eq(other, secret)) {
                found.push(Arc::clone(secret));
            }
        });
    }
}
