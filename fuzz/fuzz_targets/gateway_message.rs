//! What the gateway and who started it say to each other is read without harm, and the same when
//! it is said again.

#![no_main]

use atoll_egress::control::{Order, Told};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(told) = serde_json::from_slice::<Told>(bytes) {
        let said = serde_json::to_vec(&told).expect("what is told has string keys only");
        assert_eq!(serde_json::from_slice::<Told>(&said).expect("it is told"), told);
    }
    if let Ok(order) = serde_json::from_slice::<Order>(bytes) {
        let said = serde_json::to_vec(&order).expect("an order has string keys only");
        assert_eq!(serde_json::from_slice::<Order>(&said).expect("it is an order"), order);
    }
});
