//! The client against servers that do what they should not.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use atoll_client::{Client, ClientError, Endpoint};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A server that takes one request and says `answer`, whatever it was.
struct Scripted {
    folder: TempDir,
    task: JoinHandle<String>,
}

impl Scripted {
    fn start(answer: impl Into<Vec<u8>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let answer = answer.into();
        let task = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    length => request.extend_from_slice(&buffer[..length]),
                }
            }
            // Who does not want it goes away.
            stream.write_all(&answer).ok();
            String::from_utf8(request).unwrap()
        });
        Self { folder, task }
    }

    fn client(&self) -> Client {
        Client::new(Endpoint::Unix(self.folder.path().join("s")), Some("e2b_0a")).unwrap()
    }
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// What a request fails with that is answered by `answer`.
async fn failure(answer: impl Into<Vec<u8>>) -> ClientError {
    let server = Scripted::start(answer);
    let error = server.client().get_sandbox("one").await.unwrap_err();
    // What it still has to say goes nowhere only while the runtime works.
    tokio::task::spawn_blocking(|| server.task.join().unwrap()).await.unwrap();
    error
}

#[tokio::test]
async fn what_is_sent_is_as_the_api_wants_it() {
    let server = Scripted::start(answer("200 OK", r#"{"keys":[],"newer":1}"#));
    assert_eq!(server.client().list_keys().await.unwrap().keys, []);
    let request = server.task.join().unwrap();
    assert!(request.starts_with("GET /v1/keys HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nhost: atoll\r\n"), "{request}");
    assert!(request.contains("\r\nx-api-key: e2b_0a\r\n"), "{request}");
}

#[tokio::test]
async fn nobody_there_is_no_broken_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let client = Client::new(Endpoint::Unix(path.clone()), None).unwrap();
    let error = client.get_sandbox("one").await.unwrap_err();
    assert!(matches!(error, ClientError::NoServer { .. }), "{error:?}");
    drop(UnixListener::bind(&path).unwrap());
    let error = client.get_sandbox("one").await.unwrap_err();
    assert!(matches!(error, ClientError::NoServer { .. }) && !error.is_unknown(), "{error:?}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let client = Client::new(Endpoint::Unix(folder.path().join("file/s")), None).unwrap();
    let error = client.get_sandbox("one").await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
}

#[tokio::test]
async fn errors_of_the_api_are_passed_on() {
    let body = r#"{"error":{"code":"not_found","message":"no sandbox one","took_effect":"no",
        "retry":{"kind":"unsafe"},"next_step":"look","details":{"newer":1}},"newer":1}"#;
    let error = failure(answer("404 Not Found", body)).await;
    assert_eq!(error.code(), Some(atoll_api::error::ErrorCode::NotFound));
    assert!(!error.is_unknown());
}

#[tokio::test]
async fn what_is_no_answer_is_told() {
    for wrong in
        [answer("502 Bad Gateway", "<html>"), answer("200 OK", "[]"), answer("200 OK", "{\"id\":")]
    {
        let error = failure(wrong.clone()).await;
        assert!(matches!(error, ClientError::NotUnderstood { .. }), "{wrong}: {error:?}");
    }
    for broken in [
        String::new(),
        "nonsense\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n".to_owned(),
    ] {
        let error = failure(broken.clone()).await;
        assert!(matches!(error, ClientError::Broken { .. }), "{broken}: {error:?}");
        assert!(error.is_unknown());
    }
}

#[tokio::test]
async fn an_answer_has_a_limit() {
    let mut large = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..65 {
        large.extend_from_slice(b"100000\r\n");
        large.resize(large.len() + (1 << 20), b' ');
        large.extend_from_slice(b"\r\n");
    }
    let error = failure(large).await;
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_has_no_end() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let text = "event: missed\ndata: {\"count\":3}\n\nevent: newer\ndata: x\n\n";
    let server = Scripted::start(format!("{head}{:x}\r\n{text}\r\n", text.len()));
    let mut events = server.client().follow_events(Some(0), None).await.unwrap();
    let first = events.next().await.unwrap();
    assert_eq!(first, Some(atoll_client::events::Told::Missed(3)));
    let error = events.next().await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error:?}");
}
