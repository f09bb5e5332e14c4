//! What comes in pieces goes on in pieces, and what breaks off breaks off on the other side too.

use crate::lab::{Lab, NAME, Stream, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Reads the head of a request.
async fn head(stream: &mut Stream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

fn connect(gateway: std::net::SocketAddr) -> TcpStream {
    let client = TcpStream::connect(gateway).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

/// Reads until a text is there.
fn read_until(client: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn each_event_comes_when_it_is_said() {
    for is_tls in [false, true] {
        let lab = Lab::new(is_tls);
        let host = lab.raw_host(|mut stream| async move {
            head(&mut stream).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            // Each waits for the client's word on the one before. One ends as a secret begins.
            for event in ["data: one\n\n", "data: gh", "p", "\n\n"] {
                stream.write_all(event.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), b'+');
            }
        });
        let session = match is_tls {
            true => lab.with_secret(host, "bearer"),
            false => lab.session(host),
        };
        let gateway = lab.gateway(&session);
        let roots = lab.authority.certificate_pem().into_bytes();
        lab.on(async move {
            let stream = tokio::net::TcpStream::connect(gateway).await.unwrap();
            let mut stream: Stream = match is_tls {
                false => Box::new(stream),
                true => {
                    use atoll_egress::tls::{Offer, Upstream};
                    let name = crate::lab::name();
                    let roots = Upstream::new(roots);
                    Box::new(roots.connect(stream, &name, Offer::Http1).await.unwrap().0)
                }
            };
            // The words go as a body whose end does not come.
            let text = format!("POST /a HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 100\r\n\r\n");
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut seen = String::new();
            for expected in ["data: one\n\n", "gh", "p", "\n\n"] {
                while !seen.replace("\r\n1\r\n", "").contains(expected) {
                    let mut piece = [0; 1024];
                    let length = stream.read(&mut piece).await.unwrap();
                    assert!(length > 0, "{seen}");
                    seen += std::str::from_utf8(&piece[..length]).unwrap();
                }
                seen.clear();
                stream.write_all(b"+").await.unwrap();
                stream.flush().await.unwrap();
            }
        });
    }
}

#[test]
fn a_body_that_breaks_off_never_looks_whole() {
    let lab = Lab::new(false);
    let (begun, whole) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (told, broke) = (mpsc::channel(), Arc::clone(&begun));
    let (tell, is_whole) = (told.0, Arc::clone(&whole));
    let host = lab.raw_host(move |mut stream| {
        let (begun, is_whole, tell) = (Arc::clone(&broke), Arc::clone(&is_whole), tell.clone());
        async move {
            let text = head(&mut stream).await;
            begun.fetch_add(1, Ordering::SeqCst);
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
            let ends = text.contains("chunked") && rest.ends_with(b"0\r\n\r\n");
            is_whole.store(ends || rest.len() >= 100, Ordering::SeqCst);
            tell.send(()).unwrap();
        }
    });
    let session = lab.session(host);
    let gateway = lab.gateway(&session);
    for (number, body) in
        ["Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
            .iter()
            .enumerate()
    {
        let mut client = connect(gateway);
        write!(client, "POST /a HTTP/1.1\r\nHost: {NAME}\r\n{body}").unwrap();
        wait_until("the host is asked", || begun.load(Ordering::SeqCst) == number + 1);
        drop(client);
        told.1.recv_timeout(Duration::from_secs(30)).expect("the host is told");
        assert!(!whole.load(Ordering::SeqCst), "{body}");
    }
}

#[test]
fn an_answer_may_come_before_the_end_of_the_request() {
    let lab = Lab::new(false);
    let host = lab.raw_host(|mut stream| async move {
        head(&mut stream).await;
        let answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n";
        stream.write_all(answer).await.unwrap();
        let mut piece = vec![0; 64 * 1024];
        while stream.read(&mut piece).await.is_ok_and(|length| length > 0) {}
    });
    let session = lab.session(host);
    let mut client = connect(lab.gateway(&session));
    write!(client, "POST /a HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 100000000\r\n\r\n")
        .unwrap();
    client.write_all(&[0; 100_000]).unwrap();
    let text = read_until(&mut client, "no\n");
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
}

#[test]
fn who_waits_for_a_word_before_the_body_gets_it() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(crate::lab::echo()));
    let mut client = connect(lab.gateway(&session));
    let head = format!(
        "POST /a HTTP/1.1\r\nHost: {NAME}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    );
    client.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hello").unwrap();
    let text = read_until(&mut client, "\n\nhello");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && !text.contains("expect"), "{text}");
}
