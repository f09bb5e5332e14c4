//! Hosts that do what they should not. Whatever they do, what comes back is HTTP and bounded.

use crate::lab::{Lab, NAME, Stream};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LAST: &str = "Connection: close\r\n\r\n";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n")
}

/// Reads the head of a request; nothing where there is none any more.
async fn head(stream: &mut Stream) -> Option<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(text).unwrap())
}

/// A host that says the same, whatever it is asked, and closes.
fn saying(lab: &Lab, text: impl Into<String>) -> SocketAddr {
    let text: Arc<str> = text.into().into();
    lab.raw_host(move |mut stream| {
        let text = Arc::clone(&text);
        async move {
            if head(&mut stream).await.is_some() {
                drop(stream.write_all(text.as_bytes()).await);
                drop(stream.shutdown().await);
            }
        }
    })
}

#[test]
fn what_is_no_answer_is_said_to_be_none() {
    let lab = Lab::new(false);
    for text in [
        String::new(),
        "garbage\r\n\r\n".to_owned(),
        "HTTP/1.1 200\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".to_owned(),
        "HTTP/1.1 200 OK\r\nX y\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(10_000)),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1_000_000)),
        "SSH-2.0-OpenSSH\r\n".to_owned(),
    ] {
        let session = lab.session(saying(&lab, text.clone()));
        let answer = lab.raw(lab.gateway(&session), format!("{}{LAST}", get("/a")));
        let shown = &text[..text.len().min(60)];
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{shown}: {answer}");
        assert!(answer.contains("atoll-denied: upstream-failed\r\n"), "{answer}");
        assert_eq!(session.seen.codes(), ["upstream-failed"]);
    }
    let session = lab.session(saying(&lab, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
    let answer = lab.raw(lab.gateway(&session), format!("{}{LAST}", get("/a")));
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
}

#[test]
fn what_comes_behind_an_answer_is_no_answer() {
    let lab = Lab::new(false);
    // Of a length and an encoding the encoding counts; what is left is nobody's.
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n\
                5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let session = lab.session(saying(&lab, text));
    let answer = lab.raw(lab.gateway(&session), format!("{}\r\n{}{LAST}", get("/a"), get("/b")));
    assert_eq!(answer.matches("hello").count(), 2, "{answer}");
    assert!(!answer.contains("evil") && !answer.contains("content-length: 50"), "{answer}");
}

#[test]
fn a_body_that_is_cut_off_does_not_look_whole() {
    let lab = Lab::new(false);
    for framing in
        ["Content-Length: 50\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n50\r\nhello"]
    {
        let session = lab.session(saying(&lab, format!("HTTP/1.1 200 OK\r\n{framing}")));
        let answer = lab.raw(lab.gateway(&session), format!("{}{LAST}", get("/a")));
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        let is_told =
            answer.contains("content-length: 50") || answer.contains("transfer-encoding: chunked");
        assert!(is_told || answer.is_empty(), "{answer}");
    }
}

#[test]
fn a_connection_that_the_host_closed_is_made_anew() {
    let lab = Lab::new(false);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // Answers one request a connection, promises more, and goes without a word.
    let host = lab.raw_host(move |mut stream| {
        let count = Arc::clone(&counted);
        async move {
            head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
            if head(&mut stream).await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let session = lab.session(host);
    let text = format!("{}\r\n{}{LAST}", get("/a"), get("/b"));
    let answer = lab.raw(lab.gateway(&session), text);
    assert_eq!(answer.matches("200 OK").count(), 2, "{answer}");
    assert_eq!((count.load(Ordering::SeqCst), *session.seen.dialled.lock().unwrap()), (1, 2));
    // What may have been done is not done again.
    let post = get("/b").replace("GET", "POST");
    let answer = lab.raw(lab.gateway(&session), format!("{}\r\n{post}{LAST}", get("/a")));
    assert_eq!(answer.matches("200 OK").count(), 1, "{answer}");
    assert!(answer.contains("\"retry\":\"unsafe\""), "{answer}");
}

/// Memory of this process that is not in files, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn bodies_of_any_length_need_little_memory() {
    const PIECE: usize = 64 * 1024;
    const PIECES: usize = 4096;
    let lab = Lab::new(false);
    let host = lab.raw_host(|mut stream| async move {
        let text = head(&mut stream).await.unwrap();
        let mut piece = vec![0; PIECE];
        if text.starts_with("PUT") {
            let mut rest = PIECES * PIECE;
            while rest > 0 {
                rest -= stream.read(&mut piece).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            return;
        }
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await);
        while stream.write_all(&piece).await.is_ok() {}
    });
    let session = lab.session(host);
    let gateway = lab.gateway(&session);
    let mut piece = vec![0; PIECE];
    let connect = || {
        let client = TcpStream::connect(gateway).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client
    };
    let before = memory();
    let mut most = 0;
    let mut client = connect();
    write!(client, "{}\r\n", get("/endless")).unwrap();
    for _ in 0..PIECES {
        client.read_exact(&mut piece).unwrap();
        most = most.max(memory());
    }
    drop(client);
    let mut client = connect();
    write!(client, "PUT /a HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {}\r\n\r\n", PIECES * PIECE)
        .unwrap();
    for _ in 0..PIECES {
        client.write_all(&piece).unwrap();
        most = most.max(memory());
    }
    client.read_exact(&mut piece[..15]).unwrap();
    assert_eq!(&piece[..15], b"HTTP/1.1 200 OK");
    assert!(most - before < 16 * 1024 * 1024, "{} bytes more", most - before);
}

#[test]
fn a_host_that_nobody_reads_is_not_read_either() {
    let lab = Lab::new(false);
    let written = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&written);
    let host = lab.raw_host(move |mut stream| {
        let written = Arc::clone(&counted);
        async move {
            head(&mut stream).await.unwrap();
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await);
            let piece = vec![0; 64 * 1024];
            let within = Duration::from_secs(2);
            while let Ok(Ok(())) = tokio::time::timeout(within, stream.write_all(&piece)).await {
                written.fetch_add(piece.len(), Ordering::SeqCst);
            }
            written.fetch_add(1, Ordering::SeqCst);
        }
    });
    let session = lab.session(host);
    let mut client = TcpStream::connect(lab.gateway(&session)).unwrap();
    write!(client, "{}\r\n", get("/endless")).unwrap();
    crate::lab::wait_until("the host waits", || written.load(Ordering::SeqCst) % 2 == 1);
    // What the kernel keeps on four sides, and a little.
    assert!(written.load(Ordering::SeqCst) < 64 * 1024 * 1024);
}
