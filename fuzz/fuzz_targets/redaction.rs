//! Covering secrets in what comes back: nothing but a value changes, no cut uncovers one, and
//! the length stays.

#![no_main]

use atoll_egress::secret::{Patterns, Redactor, Secret};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

const VALUE: &[u8] = b"s3cr3t/+va&ue=";

fuzz_target!(|input: (bool, Vec<u8>, Vec<Vec<u8>>)| {
    let (flushes, lengths, texts) = input;
    let secret = Secret::new("A", VALUE.to_vec(), "atoll_A_0123456789abcdef").unwrap();
    let patterns = Arc::new(Patterns::new([&Arc::new(secret)]));
    let text = texts.join(VALUE);
    let mut redactor = Redactor::new(Arc::clone(&patterns));
    let (mut rest, mut out) = (&*text, Vec::new());
    for length in lengths.iter().chain([&255]).cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*length).max(1)));
        out.extend_from_slice(&redactor.push(piece.to_vec().into()));
        if flushes {
            out.extend_from_slice(&redactor.flush());
        }
        rest = after;
    }
    out.extend_from_slice(&redactor.finish());
    assert_eq!(out.len(), text.len());
    // But for its first bytes, which may have been given before the rest came.
    assert!(!out.windows(VALUE.len() - 3).any(|window| window == &VALUE[3..]));
    if redactor.found().is_empty() {
        assert_eq!(out, text);
    }
});
