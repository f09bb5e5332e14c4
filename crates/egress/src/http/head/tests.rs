use super::*;
use proptest::prelude::*;

/// How all of a text is read: the lengths of its heads, and of the bodies behind them.
fn read(text: &[u8], piece: usize) -> Result<Vec<(usize, usize)>, Malformed> {
    let mut checker = Checker::default();
    let (mut given, mut at, mut seen) = (Vec::new(), 0, 0);
    loop {
        match checker.step(&text[at..seen])? {
            Step::Wait if seen == text.len() => {
                assert_eq!(at, text.len(), "what is whole is given");
                return Ok(given);
            }
            Step::Wait => seen = text.len().min(seen + piece),
            Step::Head { length, .. } => {
                given.push((length, 0));
                at += length;
            }
            Step::Body { length } => {
                assert!(length > 0);
                given.last_mut().expect("a head comes first").1 += length;
                at += length;
            }
        }
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn each_request_has_its_bytes() {
    for (text, expected) in [
        (format!("{GET}\r\n"), vec![(27, 0)]),
        (format!("{GET}\r\n{GET}\r\n"), vec![(27, 0), (27, 0)]),
        (format!("{GET}Content-Length: 5\r\n\r\nhello{GET}\r\n"), vec![(46, 5), (27, 0)]),
        (format!("{GET}Content-Length: 0\r\n\r\n{GET}\r\n"), vec![(46, 0), (27, 0)]),
        (
            format!("{GET}Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{GET}\r\n"),
            vec![(55, 15), (27, 0)],
        ),
        (
            format!("{GET}transfer-encoding:chunked\r\n\r\n00a\r\n0123456789\r\n0\r\nX: y\r\n\r\n"),
            vec![(54, 28)],
        ),
        ("OPTIONS * HTTP/1.0\r\nhost:\ta\t\r\n\r\n".to_owned(), vec![(32, 0)]),
        (format!("{GET}X: \u{fc}\r\nY:\r\n\r\n"), vec![(38, 0)]),
    ] {
        for piece in [1, 2, 7, text.len()] {
            assert_eq!(read(text.as_bytes(), piece).as_ref(), Ok(&expected), "{text:?} {piece}");
        }
    }
}

#[test]
fn what_two_programs_could_read_differently_is_refused() {
    use Malformed as M;
    let head = |rest: &str| format!("{GET}{rest}\r\n\r\n");
    let body = |rest: &str| format!("{GET}Transfer-Encoding: chunked\r\n\r\n{rest}");
    for (text, error) in [
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), M::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n".to_owned(), M::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n".to_owned(), M::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n".to_owned(), M::LineEnd),
        ("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n".to_owned(), M::LineEnd),
        (format!("\r\n{GET}\r\n"), M::RequestLine),
        (format!(" {GET}\r\n"), M::RequestLine),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET /\u{fc} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), M::RequestLine),
        ("GET /\r\n\r\n".to_owned(), M::RequestLine),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n".to_owned(), M::Version),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), M::Version),
        ("GET / http/1.1\r\nHost: a\r\n\r\n".to_owned(), M::Version),
        (head("X: a\r\n b"), M::Folded),
        (head("X: a\r\n\tb: c"), M::Folded),
        (head("X : a"), M::Header),
        (head("X"), M::Header),
        (head(": a"), M::Header),
        (head("X\0: a"), M::Header),
        (head("X: a\0"), M::Header),
        (head("X: \u{1}"), M::Header),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), M::Host),
        (head("Host: a"), M::Host),
        (head("hOST: b"), M::Host),
        (head("Content-Length: 5\r\nContent-Length: 5"), M::Length),
        (head("Content-Length: 5\r\ncontent-length: 6"), M::Length),
        (head("Content-Length: 5, 5"), M::Length),
        (head("Content-Length: +5"), M::Length),
        (head("Content-Length: -5"), M::Length),
        (head("Content-Length: 0x5"), M::Length),
        (head("Content-Length: 5 5"), M::Length),
        (head("Content-Length:"), M::Length),
        (head("Content-Length: 9999999999999999999"), M::Length),
        (head("Content-Length: 5\r\nTransfer-Encoding: chunked"), M::LengthAndEncoding),
        (head("Transfer-Encoding: chunked\r\nContent-Length: 0"), M::LengthAndEncoding),
        (head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), M::Encoding),
        (head("Transfer-Encoding: gzip, chunked"), M::Encoding),
        (head("Transfer-Encoding: chunked, identity"), M::Encoding),
        (head("Transfer-Encoding: xchunked"), M::Encoding),
        (head("Transfer-Encoding: \u{b}chunked"), M::Header),
        (head("Transfer-Encoding: \u{c}chunked"), M::Header),
        (head("Content-Length: 5\u{c}"), M::Header),
        (head("Transfer-Encoding: identity"), M::Encoding),
        (head("Transfer-Encoding:"), M::Encoding),
        (
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            M::Encoding,
        ),
        (head("Upgrade: WebSocket\r\nContent-Length: 5"), M::UpgradeBody),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n".to_owned(), M::UpgradeBody),
        (body("5\nhello\r\n"), M::Chunk),
        (body("\r\n"), M::Chunk),
        (body("-1\r\n"), M::Chunk),
        (body("0x5\r\n"), M::Chunk),
        (body("5;a=b\r\nhello\r\n"), M::Chunk),
        (body("5 \r\nhello\r\n"), M::Chunk),
        (body("000000005\r\nhello\r\n"), M::Chunk),
        (body("5\r\nhelloX\r\n"), M::Chunk),
        (body("5\r\nhello\n0\r\n\r\n"), M::Chunk),
        (body("5\r\nhello\r\n0\r\nX: y\n\r\n"), M::LineEnd),
        (body("0\r\n X: y\r\n\r\n"), M::Trailer),
        (body("0\r\nContent-Length: 5\r\n\r\n"), M::Trailer),
        (body("0\r\nHost: b\r\n\r\n"), M::Trailer),
        ("EHLO mail.example\r\n".to_owned(), M::RequestLine),
        ("GET /\r\nHo".to_owned(), M::RequestLine),
    ] {
        for piece in [1, 3, text.len()] {
            assert_eq!(read(text.as_bytes(), piece), Err(error), "{text:?} {piece}");
        }
    }
}

#[test]
fn heads_are_bounded() {
    let long = format!("{GET}X: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    let endless = format!("{GET}X: {}", "a".repeat(HEAD_BYTES_MAX));
    let many = format!("{GET}{}\r\n", "X: y\r\n".repeat(HEADERS_MAX));
    let trailers =
        format!("{GET}Transfer-Encoding: chunked\r\n\r\n0\r\n{}", "X: y\r\n".repeat(2000));
    for (text, error) in [
        (long, Malformed::TooLarge),
        (endless, Malformed::TooLarge),
        (many, Malformed::TooLarge),
        (trailers, Malformed::Trailer),
    ] {
        assert_eq!(read(text.as_bytes(), 1000), Err(error));
    }
    let most = format!("{GET}{}\r\n", "X: y\r\n".repeat(HEADERS_MAX - 1));
    assert!(read(most.as_bytes(), 1000).is_ok());
}

#[test]
fn what_may_be_another_protocol_is_said() {
    let after = |text: &str| match Checker::default().step(text.as_bytes()) {
        Ok(Step::Head { after, .. }) => after,
        other => panic!("{other:?}"),
    };
    assert_eq!(after(&format!("{GET}Upgrade: websocket\r\n\r\n")), After::Perhaps);
    assert_eq!(after("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), After::Perhaps);
    assert_eq!(after(&format!("{GET}Upgrade: h2c\r\nContent-Length: 5\r\n\r\n")), After::Http);
}

proptest! {
    #[test]
    fn how_it_is_cut_makes_no_difference(
        text in "(GET|POST) /[a ]? HTTP/1\\.[01]\r\n(Host: a\r\n)?(Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n|X: [a-z\r\n]{0,3}\r\n){0,3}\r\n[0-9a-f\r\n]{0,30}",
        piece in 1_usize..20,
    ) {
        // A text that ends too early is no error of its own. Which error it is may differ.
        let outcome = |piece| {
            let read = std::panic::catch_unwind(|| read(text.as_bytes(), piece)).ok();
            read.map(|read| read.map_err(drop))
        };
        prop_assert_eq!(outcome(piece), outcome(text.len()));
    }
}
