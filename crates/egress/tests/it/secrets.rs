//! Secrets are put in where they belong, and nowhere else, and do not come back.

use crate::lab::{
    Answer, Lab, NAME, OTHER_PLACEHOLDER, PLACEHOLDER, Pieces, Request, VALUE, echo, whole,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Response;
use std::sync::{Arc, Mutex};

const LAST: &str = "Connection: close\r\n\r\n";

/// Notes what it was asked.
fn noting(noted: &Arc<Mutex<Vec<Request>>>) -> Answer {
    let noted = Arc::clone(noted);
    Arc::new(move |request| {
        noted.lock().unwrap().push(request);
        Response::new(whole("noted"))
    })
}

fn get(headers: &str) -> String {
    format!("GET /a?b HTTP/1.1\r\nHost: {NAME}\r\n{headers}{LAST}")
}

#[test]
fn what_the_program_sent_in_its_place_is_gone() {
    let encoded = STANDARD.encode(format!("x-access-token:{VALUE}"));
    let sent = format!(
        "Authorization: Bearer {PLACEHOLDER}\r\nauthorization: Basic bWluZTptaW5l\r\nX-Key: mine\r\nX_Key: too\r\n"
    );
    let by_connection = format!("{sent}Connection: authorization, x-key\r\n");
    for (form, header, value) in [
        ("bearer", "authorization", format!("Bearer {VALUE}")),
        ("basic:x-access-token", "authorization", format!("Basic {encoded}")),
        ("header:x-key", "x-key", VALUE.to_owned()),
    ] {
        for sent in ["", &sent, &by_connection] {
            let lab = Lab::new(true);
            let noted = Arc::default();
            let session = lab.with_secret(lab.host(noting(&noted)), form);
            let answer = lab.raw(lab.gateway(&session), get(sent));
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            let noted = noted.lock().unwrap();
            assert_eq!(noted[0].header(header), Some(value.as_str()), "{form} {sent}");
            assert_eq!(
                noted[0]
                    .headers
                    .iter()
                    .filter(|(name, _)| name.replace('_', "-") == header)
                    .count(),
                1
            );
            assert_eq!(session.seen.used(), 1);
        }
    }
    let lab = Lab::new(true);
    let noted = Arc::default();
    let session = lab.with_secret(lab.host(noting(&noted)), "query:key");
    let text = format!("GET /a?key=mine&b=c&KEY={PLACEHOLDER} HTTP/1.1\r\nHost: {NAME}\r\n{LAST}");
    lab.raw(lab.gateway(&session), text);
    assert_eq!(noted.lock().unwrap()[0].path, "/a?b=c&key=ghp_S3cr3t%2FWith%2BOdd%3DLetters");
}

#[test]
fn a_placeholder_goes_only_where_its_secret_is_for() {
    let pair = STANDARD.encode(format!("me:{OTHER_PLACEHOLDER}"));
    let lab = Lab::new(true);
    let session = lab.with_secret(lab.host(echo()), "bearer");
    let gateway = lab.gateway(&session);
    for text in [
        get(&format!("Authorization: Bearer {OTHER_PLACEHOLDER}\r\n")),
        get(&format!("X: a{OTHER_PLACEHOLDER}b\r\n")),
        get(&format!("Authorization: Basic {pair}\r\n")),
        get("").replace("/a?b", &format!("/a?b={OTHER_PLACEHOLDER}")),
        get("").replace("/a?b", &format!("/{OTHER_PLACEHOLDER}")),
    ] {
        let answer = lab.raw(gateway, text.clone());
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text} {answer}");
        assert!(answer.contains("atoll-denied: placeholder-elsewhere\r\n"), "{answer}");
    }
    assert_eq!(*session.seen.dialled.lock().unwrap(), 0);
    assert_eq!(session.seen.codes(), ["placeholder-elsewhere"; 5]);
    assert_eq!(session.seen.asked.lock().unwrap()[0].placeholders, ["OTHER"]);
    // One that is for it goes on as it is where it is not put in, and is worth nothing there.
    let answer = lab.raw(gateway, get(&format!("X: {PLACEHOLDER}\r\n")));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(&format!("x: {PLACEHOLDER}\n")), "{answer}");
}

#[test]
fn without_tls_nothing_is_put_in() {
    let lab = Lab::new(false);
    let noted = Arc::default();
    let session = lab.with_secret(lab.host(noting(&noted)), "bearer");
    let gateway = lab.gateway(&session);
    let answer = lab.raw(gateway, get(&format!("Authorization: Bearer {PLACEHOLDER}\r\n")));
    assert!(answer.contains("atoll-denied: secret-over-http\r\n"), "{answer}");
    assert!(session.seen.asked.lock().unwrap().is_empty(), "nobody is asked for nothing");
    assert!(noted.lock().unwrap().is_empty());
    let answer = lab.raw(gateway, get("Authorization: Bearer mine\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(noted.lock().unwrap()[0].header("authorization"), Some("Bearer mine"));
}

#[test]
fn who_does_not_prove_to_be_the_host_gets_nothing() {
    let lab = Lab::new(true);
    let noted = Arc::default();
    let mut session = lab.with_secret(lab.host(noting(&noted)), "bearer");
    let impostor = Lab::new(true);
    session.roots = impostor.session(session.upstream).roots;
    let answer = lab.raw(lab.gateway(&session), get(""));
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("\"retry\":\"safe\""), "{answer}");
    assert_eq!((session.seen.used(), noted.lock().unwrap().len()), (0, 0));
}

/// Answers with what it was sent, in all ways that one can think of.
fn parrot(piece: usize) -> Answer {
    Arc::new(move |request| {
        let authorization = request.header("authorization").unwrap_or_default().to_owned();
        let token = authorization.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = hyper::HeaderMap::new();
        headers.insert("x-got", authorization.parse().unwrap());
        let text = format!(
            "you sent {authorization}, {}; {}",
            STANDARD.encode(&token),
            token.replace('/', "%2F")
        );
        let text: Vec<Bytes> = text.as_bytes().chunks(piece).map(Bytes::copy_from_slice).collect();
        let body =
            Pieces { pieces: Box::new(text.into_iter()), length: None, trailers: Some(headers) };
        let mut response = Response::new(body);
        *response.status_mut() = hyper::StatusCode::FOUND;
        let headers = response.headers_mut();
        headers.insert("location", format!("https://evil.example/?t={token}").parse().unwrap());
        headers.insert("trailer", "x-got".parse().unwrap());
        headers.insert("atoll-denied", "denied".parse().unwrap());
        response
    })
}

/// An answer without the frames of its chunks.
fn dechunked(answer: &str) -> String {
    let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut text = format!("{head}\n\n");
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return text + after;
        }
        text += &after[..size];
        rest = &after[size + 2..];
    }
    text
}

#[test]
fn a_secret_does_not_come_back() {
    for form in ["bearer", "basic:x-access-token"] {
        for piece in [1, 7, 1000] {
            let lab = Lab::new(true);
            let session = lab.with_secret(lab.host(parrot(piece)), form);
            let answer = dechunked(&lab.raw(lab.gateway(&session), get("TE: trailers\r\n")));
            // No redirection is followed.
            assert!(answer.starts_with("HTTP/1.1 302 Found\r\n"), "{answer}");
            assert!(answer.contains("you sent "), "{answer}");
            for part in ["S3cr3t", "Letters", &STANDARD.encode(&VALUE[..15])] {
                assert!(!answer.contains(part), "{part} {answer}");
            }
            // In the address, twice in the body and once behind it.
            assert!(answer.matches("atoll_TOKEN").count() >= 4, "{answer}");
            assert!(!answer.contains("atoll-denied"), "{answer}");
            assert!(session.seen.redacted() > 0);
            assert_eq!(*session.seen.dialled.lock().unwrap(), 1);
        }
    }
    // Without a secret it all comes back: the host does say it.
    let lab = Lab::new(true);
    let session = lab.session(lab.host(parrot(7)));
    let answer = lab.raw(lab.gateway(&session), get("Authorization: Bearer S3cr3t/Mine\r\n"));
    let answer = dechunked(&answer);
    assert!(answer.matches("S3cr3t").count() >= 2, "{answer}");
}

#[test]
fn an_answer_that_cannot_be_searched_does_not_come() {
    let packed: Answer = Arc::new(|request| {
        let asked = request.header("accept-encoding").unwrap_or_default();
        assert_eq!((asked, request.header("range")), ("identity", None));
        let mut response = Response::new(whole("packed"));
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    });
    let lab = Lab::new(true);
    let session = lab.with_secret(lab.host(packed), "bearer");
    let asked = get("Accept-Encoding: gzip\r\nRange: bytes=0-3\r\n");
    let answer = lab.raw(lab.gateway(&session), asked.clone());
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    let plain: Answer = Arc::new(|request| {
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
        let mut response = Response::new(whole("packed"));
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    });
    let session = lab.session(lab.host(plain));
    let answer = lab.raw(lab.gateway(&session), asked);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
