//! Requests of HTTP: which are sent on, and what the others are told.

use super::{allowing, each, run_python, run_sh, told};
use atoll_testkit::internet::{Internet, Request, Response};

fn hello(request: &Request) -> Response {
    let text = format!("{} {} {}\n", request.method, request.all("host")[0], request.path);
    (200, Vec::new(), text.into_bytes())
}

#[test]
fn every_request_on_a_connection_is_decided() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let (plain, tls) = (internet.http(hello), internet.https(&["a.test"], hello));
        let (http, https) = (plain.port, tls.port);
        let rules = [
            format!("http://GET@a.test:{http}/ok/**"),
            format!("https://GET@a.test:{https}/ok/**"),
            format!("127.0.0.1/32:{http},{https}"),
        ];
        let flags = allowing(&[&rules[0], &rules[1], &rules[2]]);
        let program = format!(
            r#"
import http.client, json, ssl
for c in [http.client.HTTPConnection("a.test", {http}), http.client.HTTPSConnection("a.test", {https})]:
    for method, path in [("GET", "/ok/1"), ("POST", "/ok/2"), ("GET", "/no"), ("GET", "/ok/../no"), ("GET", "/ok/%2e%2e/no"), ("GET", "/ok/3")]:
        c.request(method, path)
        r = c.getresponse(); body = r.read()
        print(r.status, r.headers["atoll-denied"], json.loads(body)["error"]["code"] if r.status != 200 else body.decode().split()[2])
"#
        );
        let run = run_python(&internet, project, &flags, &program);
        let one = "200 None /ok/1\n403 request-not-allowed request-not-allowed\n\
                   403 request-not-allowed request-not-allowed\n\
                   403 ambiguous-path ambiguous-path\n403 ambiguous-path ambiguous-path\n\
                   200 None /ok/3\n";
        assert_eq!(run.stdout(), one.repeat(2), "{}", run.text());
        for site in [&plain, &tls] {
            let asked: Vec<String> = site.requests().iter().map(|r| r.path.clone()).collect();
            assert_eq!(asked, ["/ok/1", "/ok/3"]);
        }
        let lines = told(&run);
        assert!(
            lines.iter().any(|line| line.contains("POST a.test") && line.contains("/ok/2")),
            "{lines:?}"
        );
    });
}

#[test]
fn what_is_refused_says_why_in_a_form_that_programs_read() {
    each(|project| {
        let internet = Internet::new();
        let script = "curl -sS https://evil.test/x; curl -sS http://evil.test/y; \
                      curl -sS -o /dev/null -w '%{http_code} %{http_version}\\n' https://evil.test/";
        let run = run_sh(&internet, project, &["--net", "rules"], script);
        let stdout = run.stdout();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{}", run.text());
        for (line, port, path) in [(lines[0], 443, "/x"), (lines[1], 80, "/y")] {
            let told: serde_json::Value = serde_json::from_str(line).expect(line);
            let error = &told["error"];
            assert_eq!(error["code"], "not-allowed");
            assert_eq!((&error["host"], &error["port"]), (&"evil.test".into(), &port.into()));
            assert_eq!((&error["method"], &error["path"]), (&"GET".into(), &path.into()));
            assert!(error["next_step"].as_str().unwrap().contains("--allow-host evil.test"));
        }
        assert_eq!(lines[2], "403 2", "{}", run.text());
        assert_eq!(internet.questions(), Vec::<String>::new());
    });
}

#[test]
fn a_request_for_another_host_is_not_sent() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let site = internet.http(hello);
        let (place, grant) =
            (format!("http://a.test:{}", site.port), format!("127.0.0.1/32:{}", site.port));
        let program = format!(
            r#"
import socket
def ask(raw):
    s = socket.create_connection(("a.test", {port}), timeout=60); s.sendall(raw)
    try: got = s.recv(9999)
    except ConnectionResetError: got = b""
    return got.split(b" ", 2)[1].decode() if got else "nothing"
good = b"Host: a.test:{port}\r\nConnection: close\r\n"
for raw in [
    b"GET / HTTP/1.1\r\n" + good + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"GET http://evil.test/ HTTP/1.1\r\n" + good + b"\r\n",
    b"GET / HTTP/1.1\r\n" + good + b"Host: evil.test\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.test@evil.test\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + good + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + good + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"CONNECT evil.test:443 HTTP/1.1\r\n" + good + b"\r\n",
    b"TRACE / HTTP/1.1\r\n" + good + b"\r\n",
    b"GET / HTTP/1.1\r\n" + good + b"\r\n",
]: print(ask(raw), end=" ")
"#,
            port = site.port
        );
        let run = run_python(&internet, project, &allowing(&[&place, &grant]), &program);
        let codes = run.stdout();
        let codes: Vec<&str> = codes.split_whitespace().collect();
        assert_eq!(codes.len(), 11, "{}", run.text());
        assert_eq!((codes[0], codes[10]), ("200", "200"), "{}", run.text());
        assert!(codes[1..10].iter().all(|code| code.starts_with('4')), "{codes:?} {}", run.text());
        assert_eq!(site.requests().len(), 2);
    });
}

/// The proxy form obeys the same decisions, and is not needed.
#[test]
fn programs_that_are_told_of_a_proxy_reach_the_same() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let (plain, tls) = (internet.http(hello), internet.https(&["a.test"], hello));
        let (http, https) = (plain.port, tls.port);
        project.write("atoll.toml", "");
        let user = project.outside().join("policy.toml");
        let policy = format!(
            "[network]\nmode = \"rules\"\nproxy_variables = true\n\
             allow = [\"a.test:{http},{https}\", \"127.0.0.1/32:{http},{https}\"]\n"
        );
        std::fs::write(&user, policy).unwrap();
        let script = format!(
            "env | grep -i _proxy= | sort; curl -sS http://a.test:{http}/p; curl -sS https://a.test:{https}/t; \
             curl -sS -o /dev/null -w '%{{http_connect}}\\n' https://evil.test/; curl -sS http://evil.test/ | head -c 30; \
             echo; curl -sS -o /dev/null -w '%{{http_connect}}\\n' https://198.18.0.2/"
        );
        let flags = ["--policy", user.to_str().unwrap()];
        let run = run_sh(&internet, project, &flags, &script);
        let proxy = "http://198.18.0.1:3128";
        let expected = format!(
            "HTTPS_PROXY={proxy}\nHTTP_PROXY={proxy}\nNO_PROXY=localhost,127.0.0.1,::1\n\
             http_proxy={proxy}\nhttps_proxy={proxy}\nno_proxy=localhost,127.0.0.1,::1\n\
             GET a.test:{http} /p\nGET a.test:{https} /t\n403\n{{\"error\":{{\"code\":\"not-allowed\"\n403\n"
        );
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

#[test]
fn what_is_spent_is_spent() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let site = internet.http(|_| (200, Vec::new(), vec![b'x'; 100_000]));
        let policy = project.outside().join("policy.toml");
        let text = format!(
            "[network]\nmode = \"rules\"\nrequests_max = 3\n\
             allow = [\"a.test:{port}\", \"127.0.0.1/32:{port}\"]\n",
            port = site.port
        );
        std::fs::write(&policy, text).unwrap();
        let script = format!(
            "for n in 1 2 3 4; do curl -sS -o /dev/null -w '%{{http_code}} %{{size_download}}\\n' http://a.test:{}/; done",
            site.port
        );
        let run = run_sh(&internet, project, &["--policy", policy.to_str().unwrap()], &script);
        let stdout = run.stdout();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines[..3], ["200 100000"; 3], "{}", run.text());
        assert!(lines[3].starts_with("429"), "{}", run.text());
        assert_eq!(site.requests().len(), 3);
        assert!(told(&run).iter().any(|line| line.contains("[budget-requests]")), "{}", run.text());
    });
}
