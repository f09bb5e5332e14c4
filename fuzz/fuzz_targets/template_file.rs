//! Any bytes are a template's file or are refused with a line that exists.
#![no_main]

use atoll_api::template::FilesDigest;
use atoll_api::template::file::{TEMPLATE_FILE_BYTES_MAX, parse};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    match parse(bytes) {
        Ok(file) => {
            assert!(bytes.len() <= TEMPLATE_FILE_BYTES_MAX);
            let files = FilesDigest::from_bytes([7; 32]);
            let all: BTreeMap<_, _> = file.copies().keys().map(|place| (*place, files)).collect();
            let request = file.request(&all).expect("files are given for all");
            assert_eq!(request.validate(), Ok(()), "what is taken is a request");
            for copy in file.copies().values() {
                assert!(!copy.from.split('/').any(|part| part == ".."), "it leads out");
            }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty(), "refused for no reason");
            for error in &errors.0 {
                let line = usize::try_from(error.line).expect("a line fits");
                assert!((1..=lines).contains(&line), "line {line} of {lines}: {error:?}");
            }
        }
    }
});
