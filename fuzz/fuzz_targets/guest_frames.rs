//! What a guest sends to the host, and the host to a guest: frames and what they say.
#![no_main]

use atoll_protocol::frame::{Decoder, Kind};
use atoll_protocol::hello::Hello;
use atoll_protocol::problem::Problem;
use atoll_protocol::request::{Event, Reply, Request};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::default();
    // The first byte says how the rest is cut.
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    for piece in bytes.chunks(usize::from(piece).max(1)) {
        decoder.space()[..piece.len()].copy_from_slice(piece);
        decoder.filled(piece.len());
        while let Ok(Some(frame)) = decoder.next() {
            match frame.kind {
                Kind::Hello => drop(frame.json::<Hello>().map(Hello::agree)),
                Kind::Request => again::<Request>(frame.payload),
                Kind::Reply => again::<Reply>(frame.payload),
                Kind::Problem => again::<Problem>(frame.payload),
                Kind::Event => again::<Event>(frame.payload),
                Kind::Stdout | Kind::Stderr => {
                    assert!(frame.output().1.len() < frame.payload.len())
                }
                Kind::Body | Kind::End | Kind::Heartbeat => {}
            }
        }
    }
});

/// What was read is said again and read as the same.
fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(payload: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(payload) {
        let said = serde_json::to_vec(&value).expect("what was read can be said");
        assert_eq!(serde_json::from_slice::<T>(&said).expect("and read again"), value);
    }
}
