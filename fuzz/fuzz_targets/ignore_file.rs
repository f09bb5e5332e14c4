//! An ignore file decides by its last pattern that matches, in bounded time.
//!
//! The input is a file and, after a NUL, a path.
#![no_main]

use atoll_api::ignore::{Pattern, deciding, parse_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let file = parts.next().unwrap_or_default();
    let path = parts.next().unwrap_or_default();
    let lines = parse_file(file);
    assert!(lines.len() <= file.split(|&byte| byte == b'\n').count());
    for line in &lines {
        // The end of a line may be CR LF, so one that ends in CR needs another.
        let text = [line.pattern.text(), b"\r"].concat();
        assert_eq!(Pattern::parse(&text).as_ref(), Some(&line.pattern));
    }
    for is_dir in [false, true] {
        let expected = lines.iter().rfind(|line| line.pattern.matches(path, is_dir));
        assert_eq!(deciding(&lines, path, is_dir), expected);
    }
    for line in &lines {
        // What matches a file matches a directory of that name.
        assert!(!line.pattern.matches(path, false) || line.pattern.matches(path, true));
    }
});
