//! Any bytes are a policy document or are refused with a line that exists.
#![no_main]

use atoll_api::policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    match policy::parse(bytes) {
        Ok(_) => assert!(bytes.len() <= policy::MAX_DOCUMENT_BYTES),
        Err(errors) => {
            assert!(!errors.0.is_empty(), "refused for no reason");
            for error in &errors.0 {
                let line = usize::try_from(error.line).expect("a line fits");
                assert!((1..=lines).contains(&line), "line {line} of {lines}: {error:?}");
                assert!(!error.kind.to_string().is_empty());
            }
        }
    }
});
