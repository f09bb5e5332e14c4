//! Raw bytes of clients that do what they should not. Each has its control: the same, done right.

use crate::lab::{Decided, Lab, NAME, echo, refused, wait_until};
use atoll_egress::http::Limits;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const LAST: &str = "Connection: close\r\n\r\n";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n")
}

#[test]
fn a_request_is_written_anew() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let gateway = lab.gateway(&session);
    let text = lab.raw(
        gateway,
        format!(
            "POST http://{NAME}/a?b HTTP/1.1\r\nhOsT: API.example.org\r\nX-One: 1\r\nX-Mine: 2\r\n\
             Connection: close, X-Mine\r\nProxy-Authorization: Basic x\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n"
        ),
    );
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("POST /a?b HTTP/1.1\n"), "{text}");
    assert!(text.contains(&format!("host: {NAME}\n")) && text.contains("x-one: 1\n"), "{text}");
    assert!(!text.contains("x-mine") && !text.contains("proxy-auth"), "{text}");
    assert!(text.ends_with("\n\nhello"), "{text}");
    let asked = session.seen.asked.lock().unwrap();
    assert_eq!(asked[0].path_and_query, "/a?b");
    assert_eq!(
        *session.seen.bytes.lock().unwrap(),
        (5, text.split("\r\n\r\n").nth(1).unwrap().len() as u64)
    );
}

#[test]
fn what_can_be_read_in_two_ways_is_refused_and_nothing_is_sent() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let gateway = lab.gateway(&session);
    let smuggled = format!("{}{LAST}", get("/smuggled"));
    for text in [
        format!(
            "{}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
            get("/a")
        ),
        format!("{}Content-Length: 0\r\nContent-Length: 0\r\n{LAST}", get("/a")),
        format!("{}Transfer-Encoding: chunked, identity\r\n{LAST}", get("/a")),
        format!("{}X: y\r\n Transfer-Encoding: chunked\r\n{LAST}", get("/a")),
        format!("GET /a HTTP/1.1\nHost: {NAME}\n\n"),
        format!("GET /a HTTP/1.1\r\nHost : {NAME}\r\n{LAST}"),
        format!("GET /a HTTP/1.1\r\n{LAST}"),
        format!("{}Host: {NAME}\r\n{LAST}", get("/a")),
        format!("GET /a HTTP/1.1\r\nHost: {NAME}@evil.example\r\n{LAST}"),
        format!("\0{smuggled}"),
        "EHLO mail.example\r\n".to_owned(),
        format!("{}X: {}\r\n{LAST}", get("/a"), "a".repeat(70_000)),
        format!("{}{}{LAST}", get("/a"), "X: y\r\n".repeat(200)),
    ] {
        let answer = lab.raw(gateway, text.clone());
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text:?}: {answer}");
        assert!(answer.contains("atoll-denied: malformed-request\r\n"), "{answer}");
        assert!(answer.contains("{\"error\":{\"code\":\"malformed-request\","), "{answer}");
    }
    assert_eq!(*session.seen.dialled.lock().unwrap(), 0);
    let control = lab.raw(gateway, format!("{}{LAST}", get("/a")));
    assert!(control.starts_with("HTTP/1.1 200 OK\r\n"), "{control}");
    assert_eq!(*session.seen.dialled.lock().unwrap(), 1);
}

#[test]
fn what_was_asked_before_is_answered_before() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let gateway = lab.gateway(&session);
    let answer =
        lab.raw(gateway, format!("{}\r\n{}\r\nGET /c HTTP/1.1\nHost: x\n\n", get("/a"), get("/b")));
    let statuses: Vec<&str> = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
    assert_eq!(
        statuses,
        ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 400 Bad Request"],
        "{answer}"
    );
}

#[test]
fn a_body_that_goes_wrong_reaches_nobody_as_a_whole() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let gateway = lab.gateway(&session);
    for chunks in ["5\r\nhelloX", "5\nhello\r\n0\r\n\r\n", "5;x=\"\n\"\r\nhello\r\n0\r\n\r\n"] {
        let text = format!("{}Transfer-Encoding: chunked\r\n\r\n{chunks}", get("/a"));
        let answer = lab.raw(gateway, text);
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    let text = format!("{}Transfer-Encoding: chunked\r\n{LAST}5\r\nhello\r\n0\r\n\r\n", get("/a"));
    assert!(lab.raw(gateway, text).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn every_request_of_a_connection_is_decided() {
    let lab = Lab::new(false);
    let mut session = lab.session(lab.host(echo()));
    session.decide = Arc::new(|asked| match asked.path() {
        "/allowed" => Decided::Allow,
        _ => Decided::Refuse(refused("request-not-allowed", "not this path")),
    });
    let gateway = lab.gateway(&session);
    let other = get("/allowed").replace(NAME, "evil.example");
    let text = format!(
        "{}\r\n{}\r\n{other}\r\n{}{LAST}",
        get("/allowed"),
        get("/refused?token=x"),
        get("/allowed")
    );
    let answer = lab.raw(gateway, text);
    let statuses: Vec<&str> = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
    let expected = [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 403 Forbidden",
        "HTTP/1.1 421 Misdirected Request",
        "HTTP/1.1 200 OK",
    ];
    assert_eq!(statuses, expected, "{answer}");
    let body = "{\"error\":{\"code\":\"request-not-allowed\",\"message\":\"not this path\",\
                \"host\":\"api.example.org\",\"port\":80,\"method\":\"GET\",\"path\":\"/refused\",\
                \"rule\":\"deny evil\",\"retry\":\"after\",\"next_step\":\"ask\"}}";
    assert!(answer.contains(body), "{answer}");
    assert_eq!(session.seen.codes(), ["host-mismatch"]);
    assert_eq!(*session.seen.dialled.lock().unwrap(), 1, "the connection is used again");
}

#[test]
fn an_approval_is_waited_for_until_the_client_goes() {
    let lab = Lab::new(false);
    let mut session = lab.session(lab.host(echo()));
    session.decide = Arc::new(|_| Decided::Hold);
    let gateway = lab.gateway(&session);
    for upgrade in ["", "Connection: upgrade\r\nUpgrade: websocket\r\n"] {
        let mut client = TcpStream::connect(gateway).unwrap();
        write!(client, "{}{upgrade}\r\n", get("/a")).unwrap();
        wait_until("it is held", || session.seen.held.lock().unwrap().0 == 1);
        assert_eq!(session.seen.held.lock().unwrap().1, 0);
        drop(client);
        wait_until("it is given up", || session.seen.held.lock().unwrap().1 == 1);
        *session.seen.held.lock().unwrap() = (0, 0);
    }
    assert_eq!(*session.seen.dialled.lock().unwrap(), 0);
}

#[test]
fn who_is_slow_is_not_waited_for() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let limits = Limits {
        head_within: Duration::from_millis(300),
        body_stalls: Duration::from_millis(300),
        ..Limits::default()
    };
    let gateway = lab.gateway_with(&session, limits);
    // A head that never ends, a body that never ends, and nothing after an answer.
    for begun in [
        "GET /a HTTP/1.1\r\nHost: ".to_owned(),
        format!("{}Content-Length: 5\r\n\r\nhel", get("/a")),
    ] {
        let mut client = TcpStream::connect(gateway).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(begun.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    let answer = lab.raw(gateway, format!("{}\r\n", get("/a")));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn a_large_refused_upload_is_answered() {
    let lab = Lab::new(false);
    let mut session = lab.session(lab.host(echo()));
    session.decide = Arc::new(|_| Decided::Refuse(refused("denied", "no")));
    let gateway = lab.gateway(&session);
    let body = "x".repeat(200_000);
    let text = format!("{}Content-Length: {}\r\n{LAST}{body}", get("/a"), body.len());
    let answer = lab.raw(gateway, text);
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    // Nothing is asked for that is refused anyway.
    let text = format!("{}Content-Length: 9\r\nExpect: 100-continue\r\n{LAST}", get("/a"));
    let answer = lab.raw(gateway, text);
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
}

#[test]
fn what_is_no_plain_request_goes_nowhere() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let gateway = lab.gateway(&session);
    for line in ["TRACE /a", "CONNECT api.example.org:80", "OPTIONS *"] {
        let answer = lab.raw(gateway, format!("{line} HTTP/1.1\r\nHost: {NAME}\r\n{LAST}"));
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("atoll-denied: unsupported-request\r\n"), "{answer}");
    }
    assert_eq!(*session.seen.dialled.lock().unwrap(), 0);
    // An upgrade that nobody knows is left out, and the request is as any other.
    let text = format!(
        "{}Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\r\n",
        get("/a")
    );
    let answer = lab.raw(gateway, text);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains("h2c"), "{answer}");
}

#[test]
fn bytes_are_counted_and_cut_off() {
    let lab = Lab::new(false);
    let mut session = lab.session(lab.host(echo()));
    session.bytes_max = 1000;
    let gateway = lab.gateway(&session);
    let text = |length: usize| {
        format!("{}Content-Length: {length}\r\n{LAST}{}", get("/a"), "x".repeat(length))
    };
    assert!(lab.raw(gateway, text(100)).starts_with("HTTP/1.1 200 OK\r\n"));
    let answer = lab.raw(gateway, text(100_000));
    assert!(answer.contains("atoll-denied: budget-bytes"), "{answer}");
}
