//! HTTP/2 of clients that write it by hand.

use crate::lab::{Answer, Decided, Fake, Lab, NAME, Pieces, echo, refused, wait_until};
use atoll_egress::http::Limits;
use atoll_egress::tls::{Offer, Upstream};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

async fn connect<B>(gateway: SocketAddr, roots: Vec<u8>) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(gateway).await.unwrap();
    let roots = Upstream::new(roots);
    let (stream, is_http2) = roots.connect(stream, &crate::lab::name(), Offer::Any).await.unwrap();
    assert!(is_http2);
    let http = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<Empty<Bytes>> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

fn gateway(lab: &Lab, session: &Fake) -> (SocketAddr, Vec<u8>) {
    (lab.gateway(session), lab.authority.certificate_pem().into_bytes())
}

#[test]
fn another_host_on_the_same_connection_is_misdirected() {
    let lab = Lab::new(true);
    let session = lab.session(lab.host(echo()));
    let (address, roots) = gateway(&lab, &session);
    lab.on(async move {
        let mut sender = connect(address, roots).await;
        let own = format!("https://{NAME}/a");
        for (method, uri, headers, status, code) in [
            ("GET", "https://evil.example/", &[][..], 421, "host-mismatch"),
            ("GET", &format!("https://{NAME}:8443/"), &[], 421, "host-mismatch"),
            ("GET", &own, &[("host", "evil.example")], 400, "host-mismatch"),
            ("GET", &format!("http://{NAME}/"), &[], 400, "malformed-request"),
            ("TRACE", &own, &[], 403, "unsupported-request"),
            ("CONNECT", &format!("{NAME}:443"), &[], 403, "unsupported-request"),
        ] {
            let response = sender.send_request(request(method, uri, headers)).await.unwrap();
            assert_eq!(response.status(), status, "{method} {uri}");
            assert_eq!(response.headers()["atoll-denied"], code);
        }
        let response = sender
            .send_request(request("GET", &own, &[("cookie", "a=1"), ("cookie", "b=2")]))
            .await;
        let text = text(response.unwrap()).await;
        assert!(
            text.contains("cookie: a=1; b=2\n") && text.contains(&format!(":authority: {NAME}\n")),
            "{text}"
        );
    });
    assert_eq!(*session.seen.dialled.lock().unwrap(), 1);
}

#[test]
fn what_follows_a_body_goes_both_ways_but_for_what_is_ours() {
    let lab = Lab::new(true);
    let answer: Answer = Arc::new(|request| {
        assert_eq!(request.header("te"), Some("trailers"));
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        trailers.insert("atoll-denied", "denied".parse().unwrap());
        let pieces = std::iter::once(request.body);
        Response::new(Pieces { pieces: Box::new(pieces), length: None, trailers: Some(trailers) })
    });
    let session = lab.with_secret(lab.host(answer), "bearer");
    let (address, roots) = gateway(&lab, &session);
    lab.on(async move {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("authorization", "Bearer mine".parse().unwrap());
        trailers.insert("x-sum", "1".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(b"message")), Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
        let mut sender = connect(address, roots).await;
        let request = Request::post(format!("https://{NAME}/a")).header("te", "trailers");
        let request = request.body(StreamBody::new(frames)).unwrap();
        let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
        let trailers = body.trailers().unwrap().clone();
        assert_eq!(body.to_bytes(), "message");
        assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &"0".parse().unwrap()));
    });
}

#[test]
fn many_at_once_are_decided_one_by_one() {
    for upstream_is_tls in [true, false] {
        let lab = Lab::new(upstream_is_tls);
        let mut session = lab.session(lab.host(echo()));
        session.decide = Arc::new(|asked| match asked.path().ends_with('7') {
            true => Decided::Refuse(refused("denied", "no")),
            false => Decided::Allow,
        });
        // With and without TLS, so that the host has one version or the other.
        let address = lab.gateway(&session);
        let roots = lab.authority.certificate_pem().into_bytes();
        lab.on(async move {
            let sender: SendRequest<Full<Bytes>> = match upstream_is_tls {
                true => connect(address, roots).await,
                false => {
                    let stream = TcpStream::connect(address).await.unwrap();
                    let http = http2::Builder::new(TokioExecutor::new());
                    let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
                    tokio::spawn(connection);
                    sender
                }
            };
            let scheme = if upstream_is_tls { "https" } else { "http" };
            let tasks = (0..200).map(|number| {
                let mut sender = sender.clone();
                tokio::spawn(async move {
                    let body = Full::from(format!("{number} ").repeat(10_000));
                    let request = Request::post(format!("{scheme}://{NAME}/{number}")).body(body);
                    sender.ready().await.unwrap();
                    let response = sender.send_request(request.unwrap()).await.unwrap();
                    let status = response.status();
                    (number, status, text(response).await)
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                let (number, status, text) = task.await.unwrap();
                match number % 10 == 7 {
                    true => assert_eq!(status, StatusCode::FORBIDDEN),
                    false => {
                        assert!(text.ends_with(&format!("{number} ").repeat(10_000)), "{number}")
                    }
                }
            }
        });
        let dialled = *session.seen.dialled.lock().unwrap();
        assert!(if upstream_is_tls { dialled == 1 } else { dialled <= 200 }, "{dialled}");
    }
}

#[test]
fn who_gives_up_or_idles_leaves_nothing_behind() {
    let lab = Lab::new(true);
    let mut session = lab.session(lab.host(echo()));
    session.decide = Arc::new(|asked| match asked.path() {
        "/held" => Decided::Hold,
        _ => Decided::Allow,
    });
    let limits = Limits { head_within: Duration::from_millis(500), ..Limits::default() };
    let address = lab.gateway_with(&session, limits);
    let roots = lab.authority.certificate_pem().into_bytes();
    let seen = Arc::clone(&session.seen);
    lab.on(async move {
        let mut sender = connect(address, roots).await;
        let held = sender.send_request(request("GET", &format!("https://{NAME}/held"), &[]));
        // Given up by its client, while the connection goes on.
        drop(tokio::time::timeout(Duration::from_millis(300), held).await);
        let other = sender.send_request(request("GET", &format!("https://{NAME}/a"), &[])).await;
        assert_eq!(other.unwrap().status(), 200);
        let idle = async {
            while sender.ready().await.is_ok() && !sender.is_closed() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), idle).await.expect("it is closed");
    });
    wait_until("it is given up", || *seen.held.lock().unwrap() == (1, 1));
}
