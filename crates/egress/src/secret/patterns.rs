//! The ways in which a value can be written by who echoes it.

use super::Secret;
use super::inject::QUERY;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem::Finder;
use percent_encoding::percent_encode;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Fewest bytes of a pattern: a shorter one would be found everywhere.
const PATTERN_BYTES_MIN: usize = 8;

/// All ways in which some secrets can be written.
#[derive(Default)]
pub struct Patterns {
    all: Vec<Pattern>,
    /// Length of the longest.
    longest: usize,
}

struct Pattern {
    finder: Finder<'static>,
    text: Zeroizing<Vec<u8>>,
    secret: Arc<Secret>,
}

impl Patterns {
    /// Of these secrets: as they are, as in an address, in JSON or HTML, and as base64 wherever
    /// they begin in it, as in `Authorization: Basic`.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Arc<Secret>>) -> Self {
        let mut all: Vec<Pattern> = Vec::new();
        for secret in secrets {
            for text in written(secret.value()) {
                let is_new = all.iter().all(|pattern| *pattern.text != *text);
                if text.len() >= PATTERN_BYTES_MIN && is_new {
                    let finder = Finder::new(&*text).into_owned();
                    all.push(Pattern { finder, text, secret: Arc::clone(secret) });
                }
            }
        }
        // Of two that begin at one place, the longer one is covered.
        all.sort_by_key(|pattern| std::cmp::Reverse(pattern.text.len()));
        let longest = all.first().map_or(0, |pattern| pattern.text.len());
        Self { all, longest }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Covers each that is whole in `text`, which keeps its length.
    ///
    /// What was found is named to `found`.
    pub(super) fn cover(&self, text: &mut [u8], mut found: impl FnMut(&Arc<Secret>)) {
        for pattern in &self.all {
            let mut from = 0;
            while let Some(at) = pattern.finder.find(&text[from..]) {
                let end = from + at + pattern.text.len();
                let place = &mut text[from + at..end];
                let cover = pattern.secret.placeholder().bytes().chain(std::iter::repeat(b'*'));
                place.iter_mut().zip(cover).for_each(|(byte, cover)| *byte = cover);
                found(&pattern.secret);
                from = end;
            }
        }
    }

    /// How many bytes at the end of `text` can be the beginning of one.
    pub(super) fn begun(&self, text: &[u8]) -> usize {
        let most = text.len().min(self.longest.saturating_sub(1));
        let tail = &text[text.len() - most..];
        let is_begun = |length: &usize| {
            let end = &tail[most - length..];
            self.all
                .iter()
                .any(|pattern| pattern.text.len() > *length && pattern.text.starts_with(end))
        };
        (1..=most).rev().find(is_begun).unwrap_or(0)
    }
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patterns").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

fn written(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let encoded = percent_encode(value, QUERY).to_string();
    let lower = lower_percents(&encoded);
    let mut all = vec![value.to_vec(), encoded.replace("%20", "+").into_bytes()];
    all.extend([encoded.into_bytes(), lower]);
    all.extend(escaped(value));
    for skipped in 0..3 {
        all.extend(in_base64(value, skipped));
    }
    all.into_iter().map(Zeroizing::new).collect()
}

/// `%2F` as `%2f`.
fn lower_percents(encoded: &str) -> Vec<u8> {
    let mut bytes = encoded.as_bytes().to_vec();
    let places: Vec<usize> = memchr::memchr_iter(b'%', encoded.as_bytes()).collect();
    for at in places {
        bytes[at + 1..at + 3].make_ascii_lowercase();
    }
    bytes
}

/// As JSON and HTML write it.
fn escaped(value: &[u8]) -> [Vec<u8>; 3] {
    let replaced = |escape: &dyn Fn(u8) -> Option<&'static str>| {
        let mut text = Vec::with_capacity(value.len());
        for byte in value {
            match escape(*byte) {
                Some(escape) => text.extend_from_slice(escape.as_bytes()),
                None => text.push(*byte),
            }
        }
        text
    };
    let json = |byte| match byte {
        b'"' => Some("\\\""),
        b'\\' => Some("\\\\"),
        _ => None,
    };
    let json_with_slash = |byte| if byte == b'/' { Some("\\/") } else { json(byte) };
    let html = |byte| match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'"' => Some("&#34;"),
        b'\'' => Some("&#39;"),
        _ => None,
    };
    [replaced(&json), replaced(&json_with_slash), replaced(&html)]
}

/// What base64 of anything has in it that has the value behind `skipped` bytes of a group of
/// three: the letters that are of the value alone.
fn in_base64(value: &[u8], skipped: usize) -> [Vec<u8>; 2] {
    let shifted = Zeroizing::new([&[0; 3][..skipped], value].concat());
    let (first, end) = ((skipped * 8).div_ceil(6), shifted.len() * 8 / 6);
    let inner = |text: String| text.as_bytes()[first..end].to_vec();
    [inner(STANDARD_NO_PAD.encode(&*shifted)), inner(URL_SAFE_NO_PAD.encode(&*shifted))]
}
