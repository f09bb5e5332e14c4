//! What PID 1 says, it says in one way: a message that is read is written alike.
//!
//! The launcher reads these bytes after something that is not trusted has run.
#![no_main]

use atoll_guest::message::{MESSAGE_BYTES_MAX, Message, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() <= MESSAGE_BYTES_MAX
        && let Ok(message) = Message::decode(bytes)
    {
        let again = message.encode();
        // A text over its limit is cut; nothing else differs.
        assert!(again == bytes || matches!(message, Message::Failed(_)), "{message:?}");
        assert!(Message::decode(&again).is_ok());
    }
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(request.encode().as_slice(), bytes);
    }
});
