//! Requests of HTTP/1.1: what is let through has one reading, which is hyper's parser's too,
//! however it is cut.

#![no_main]

use atoll_egress::http::head::{Checker, HEADERS_MAX, Step};
use libfuzzer_sys::fuzz_target;

/// The heads in a text, the bytes of the bodies behind them, and whether it goes on well.
fn read(text: &[u8], piece: usize) -> (Vec<(&[u8], usize)>, bool) {
    let mut checker = Checker::default();
    let (mut given, mut at, mut seen) = (Vec::new(), 0, 0);
    loop {
        match checker.step(&text[at..seen]) {
            Err(_) => return (given, false),
            Ok(Step::Wait) if seen == text.len() => return (given, true),
            Ok(Step::Wait) => seen = text.len().min(seen + piece),
            Ok(Step::Head { length, .. }) => {
                assert!(length > 0);
                given.push((&text[at..at + length], 0));
                at += length;
            }
            Ok(Step::Body { length }) => {
                assert!(length > 0);
                given.last_mut().expect("a head comes first").1 += length;
                at += length;
            }
        }
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, text) = (usize::from(input.0) + 1, input.1);
    let (heads, is_well) = read(text, piece);
    let (whole, is_whole_well) = read(text, text.len().max(1));
    assert_eq!(is_well, is_whole_well);
    if is_well {
        assert_eq!(heads, whole);
    }
    for (head, _) in heads {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let length = request.parse(head).expect("hyper reads it").unwrap();
        assert_eq!(length, head.len());
        let named = |name: &str| {
            request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).count()
        };
        assert_eq!(named("host"), 1);
        assert!(named("content-length") + named("transfer-encoding") <= 1);
    }
});
