//! The first bytes of a connection: never more than is known of them, however they are cut.

#![no_main]

use atoll_egress::tls::{First, first_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = (usize::from(input.0) + 1, input.1);
    let told = first_of(bytes.chunks(piece));
    let whole = first_of([bytes]);
    match (&told, &whole) {
        (
            Ok(First::Tls { server_name, bytes: kept }),
            Ok(First::Tls { server_name: other, .. }),
        ) => {
            assert_eq!(server_name, other);
            assert!(bytes.starts_with(kept));
        }
        (Ok(First::Other { bytes: kept }), Ok(First::Other { .. })) => {
            assert!(!kept.is_empty() && bytes.starts_with(kept));
        }
        // What comes behind a hello that is whole is not looked at in pieces.
        (Ok(First::Tls { .. }) | Err(_), Err(_)) => {}
        other => panic!("{other:?}"),
    }
});
