//! Programs that are told to use a proxy, and names that lead to an explanation.

use crate::lab::{Fake, Lab, NAME, captured, echo, refused};
use atoll_egress::host::Host;
use atoll_egress::http::{
    Asked, BoxFuture, Explained, Gate, Limits, Refused, Session, Site, Speaks, explain, proxy,
};
use atoll_egress::tls::{First, HelloLimits, Replayed, first, open};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

const LAST: &str = "Connection: close\r\n\r\n";

/// Lets through what is for the one host, at any port.
struct Doorkeeper {
    session: Fake,
    told: Mutex<Vec<&'static str>>,
}

impl Doorkeeper {
    fn judge(&self, host: &Host) -> Result<(), Refused> {
        match host.to_string() == NAME {
            true => Ok(()),
            false => Err(refused("not-allowed", "no rule allows it")),
        }
    }
}

impl Gate for Doorkeeper {
    fn tunnel<'a>(&'a self, host: &'a Host, _: u16) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(async { self.judge(host) })
    }

    fn session(&self, site: &Site) -> Result<Arc<dyn Session>, Refused> {
        self.judge(&site.host)?;
        Ok(Arc::new(Fake { site: site.clone(), ..self.session.clone() }))
    }

    fn tell(&self, _: Option<Asked>, refused: Refused) {
        self.told.lock().unwrap().push(refused.code);
    }
}

fn proxy_for(lab: &Lab, session: &Fake) -> (SocketAddr, Arc<Doorkeeper>) {
    let keeper = Arc::new(Doorkeeper { session: session.clone(), told: Mutex::default() });
    let (gate, authority) = (Arc::clone(&keeper), Arc::clone(&lab.authority));
    let session = session.clone();
    let address = lab.listen(move |stream| {
        let (gate, authority, session) =
            (Arc::clone(&gate), Arc::clone(&authority), session.clone());
        async move {
            let Some(tunnel) = proxy(stream, gate, Limits::default()).await else { return };
            assert_eq!(tunnel.host.to_string(), NAME);
            let site = Site { port: tunnel.port, ..session.site.clone() };
            captured(tunnel.stream, authority, Fake { site, ..session }, Limits::default()).await;
        }
    });
    (address, keeper)
}

fn curl(arguments: &[&str]) -> (bool, String) {
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "30"]).args(arguments);
    curl.env_remove("http_proxy").env_remove("https_proxy").env_remove("no_proxy");
    let output = curl.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_tunnel_is_as_a_connection_that_was_captured() {
    if !atoll_testkit::skip::is_installed("curl", "curl") {
        return;
    }
    let lab = Lab::new(true);
    let session = lab.session(lab.host(echo()));
    let (address, keeper) = proxy_for(&lab, &session);
    let (proxy, trusted) = (format!("http://{address}"), lab.trusted());
    let trusted = trusted.path().to_str().unwrap();
    let (is_fine, text) =
        curl(&["--proxy", &proxy, "--cacert", trusted, &format!("https://{NAME}/a?b")]);
    assert!(is_fine && text.starts_with("GET /a?b HTTP/2.0\n"), "{text}");
    assert_eq!(session.seen.asked.lock().unwrap().len(), 1);
    for url in ["https://evil.example/", "https://127.0.0.1/", "https://[::1]:1/"] {
        let (is_fine, text) = curl(&["--proxy", &proxy, "--include", "--cacert", trusted, url]);
        assert!(!is_fine && text.contains("atoll-denied: not-allowed"), "{text}");
    }
    assert_eq!(
        (session.seen.asked.lock().unwrap().len(), keeper.told.lock().unwrap().len()),
        (1, 0)
    );
}

#[test]
fn whole_addresses_are_decided_one_by_one() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let (address, keeper) = proxy_for(&lab, &session);
    let get = |host: &str, target: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n");
    let text = [
        get(NAME, &format!("http://{NAME}/a")) + "Proxy-Connection: keep-alive\r\n\r\n",
        get("evil.example", "http://evil.example/") + "\r\n",
        get("evil.example", &format!("http://{NAME}/b")) + "\r\n",
        get(NAME, "/origin") + "\r\n",
        get(NAME, &format!("https://{NAME}/c")) + "\r\n",
        get(&format!("{NAME}:81"), &format!("http://{NAME}:81/d")) + LAST,
    ];
    let answer = lab.raw(address, text.concat());
    let statuses: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("HTTP/1.1 "))
        .map(|line| &line[..3])
        .collect();
    assert_eq!(statuses, ["200", "403", "400", "403", "400", "200"], "{answer}");
    assert!(answer.contains(&format!("host: {NAME}:81\n")) && !answer.contains("proxy-connection"));
    let told = keeper.told.lock().unwrap();
    assert_eq!(*told, ["host-mismatch", "unsupported-request", "malformed-request"]);
    assert_eq!(*session.seen.dialled.lock().unwrap(), 2);
}

#[test]
fn a_tunnel_needs_a_host_and_a_port() {
    let lab = Lab::new(false);
    let session = lab.session(lab.host(echo()));
    let (address, _) = proxy_for(&lab, &session);
    for target in
        ["api.example.org", "evil.example\0.api.example.org:443", "me@api.example.org:80", ":80"]
    {
        let answer =
            lab.raw(address, format!("CONNECT {target} HTTP/1.1\r\nHost: {NAME}\r\n{LAST}"));
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{target:?} {answer}");
    }
    // What comes right behind is in the tunnel, and is read as what it is.
    let text = format!(
        "CONNECT {NAME}:80 HTTP/1.1\r\nHost: {NAME}:80\r\n\r\nGET /a HTTP/1.1\r\nHost: {NAME}\r\n{LAST}"
    );
    let answer = lab.raw(address, text.clone());
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert_eq!(*session.seen.dialled.lock().unwrap(), 1);
    // So it is behind another request.
    let before = format!("GET http://{NAME}/b HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let answer = lab.raw(address, before + &text);
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{answer}");
}

#[test]
fn a_name_that_is_refused_leads_to_the_reason() {
    if !atoll_testkit::skip::is_installed("curl", "curl") {
        return;
    }
    let lab = Lab::new(true);
    let authority = Arc::clone(&lab.authority);
    let address = lab.listen(move |mut stream| {
        let authority = Arc::clone(&authority);
        async move {
            let why = Arc::new(|asked: &Asked| Refused {
                next_step: format!("allow {}", asked.host),
                ..refused("not-allowed", "no rule allows it")
            });
            let limits = Limits::default();
            match first(&mut stream, &HelloLimits::default()).await.unwrap() {
                First::Tls { server_name, bytes } => {
                    let host = Host::Name(server_name.clone().unwrap());
                    let opened =
                        open(Replayed::new(bytes, stream), &authority, &host).await.unwrap();
                    let explained = Explained { server_name, port: 443, is_tls: true };
                    let speaks = Speaks::agreed(opened.is_http2);
                    explain(opened.stream, speaks, explained, why, limits).await;
                }
                First::Other { bytes } => {
                    let explained = Explained { server_name: None, port: 80, is_tls: false };
                    explain(Replayed::new(bytes, stream), Speaks::Either, explained, why, limits)
                        .await;
                }
                First::Silent => panic!("the client speaks first"),
            }
        }
    });
    let trusted = lab.trusted();
    let trusted = trusted.path().to_str().unwrap();
    for (scheme, client) in [("http", "--http1.1"), ("https", "--http1.1"), ("https", "--http2")] {
        let url = format!("{scheme}://evil.example/a");
        let to = format!("::{address}");
        let sent =
            ["--include", "--cacert", trusted, "--connect-to", &to, client, "--data", "x", &url];
        let (is_fine, text) = curl(&sent);
        assert!(
            is_fine && text.contains(" 403 \r\n") || text.contains(" 403 Forbidden\r\n"),
            "{text}"
        );
        assert!(text.contains("atoll-denied: not-allowed\r\n"), "{text}");
        assert!(
            text.contains("\"host\":\"evil.example\"") && text.contains("allow evil.example"),
            "{text}"
        );
    }
}
