//! What a path pattern means, it means for all that lies below.
//!
//! The input is a pattern and, after a NUL, a path.
#![no_main]

use atoll_api::policy::PathPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let pattern = parts.next().unwrap_or_default();
    let path = parts.next().unwrap_or_default();
    let Ok(text) = std::str::from_utf8(pattern) else { return };
    let Ok(pattern) = PathPattern::parse(text) else { return };
    assert_eq!(PathPattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));

    let own: Vec<&[u8]> = pattern.components().iter().map(|part| part.as_bytes()).collect();
    assert!(pattern.matches(&own), "a star stands for itself too");

    let path: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let first = (0..=path.len()).find(|&length| pattern.matches(&path[..length]));
    for length in 0..=path.len() {
        let expect = first.is_some_and(|first| length >= first);
        assert_eq!(pattern.matches(&path[..length]), expect, "at {length} of {path:?}");
    }
});
