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

/// Most different bytes of a value of which all choices are looked for.
const SPECIAL_MAX: u32 = 4;

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
    let mut all = vec![value.to_vec()];
    all.extend(in_address(value));
    all.extend(escaped(value));
    for skipped in 0..3 {
        all.extend(in_base64(value, skipped));
    }
    all.into_iter().map(Zeroizing::new).collect()
}

/// As in an address: programs disagree which bytes they encode, so it is all ways for few of
/// them, and the usual ways for many.
fn in_address(value: &[u8]) -> Vec<Vec<u8>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut special: Vec<u8> = value.iter().copied().filter(|byte| !is_plain(*byte)).collect();
    special.sort_unstable();
    special.dedup();
    let choices: Vec<Vec<u8>> = match u32::try_from(special.len()) {
        Ok(count @ 0..=SPECIAL_MAX) => {
            let chosen = |choice: usize| {
                let is_chosen = |(place, _): &(usize, &u8)| choice >> place & 1 == 1;
                special.iter().enumerate().filter(is_chosen).map(|(_, byte)| *byte).collect()
            };
            (0..1_usize << count).map(chosen).collect()
        }
        Ok(_) | Err(_) => {
            let without =
                |kept: &[u8]| special.iter().copied().filter(|byte| !kept.contains(byte)).collect();
            // All; as Python has it, and JavaScript for a part, and for the whole.
            vec![without(b""), without(b"/"), without(b"!*'()"), without(b"!*'();/?:@&=+$,#")]
        }
    };
    let mut all = Vec::new();
    for encoded in choices {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            let mut text = Vec::with_capacity(value.len());
            for byte in value {
                match encoded.contains(byte) {
                    true => {
                        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                        text.extend([b'%', digits[high], digits[low]]);
                    }
                    false => text.push(*byte),
                }
            }
            all.push(text);
        }
    }
    // A form has a plus for a blank.
    let in_form = percent_encode(value, QUERY).to_string().replace("%20", "+");
    all.push(in_form.into_bytes());
    all
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
