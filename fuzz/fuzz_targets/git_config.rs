//! Any bytes are a configuration of git or are refused with a line that exists;
//! what is accepted has nothing in its names that could end a line.
#![no_main]

use atoll_jail::judge::git::config::{ParseError, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match parse(bytes) {
    Ok(entries) => {
        let plain = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte)
                })
        };
        for entry in &entries {
            assert!(plain(&entry.section) && plain(&entry.key), "{entry:?}");
            let subsection = entry.subsection.as_deref().unwrap_or_default();
            assert!(!subsection.contains(&b'\n') && !subsection.contains(&0), "{entry:?}");
        }
        // Each setting needs a name on a line of its own.
        assert!(entries.len() <= bytes.split(|&byte| byte == b'\n').count());
    }
    Err(ParseError::Syntax { line, what }) => {
        let lines = bytes.split(|&byte| byte == b'\n').count();
        assert!((1..=lines).contains(&line), "line {line} of {lines}");
        assert!(!what.is_empty());
    }
    Err(ParseError::TooLarge) => assert!(bytes.len() > 1 << 20),
});
