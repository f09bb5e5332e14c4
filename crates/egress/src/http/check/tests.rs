use super::*;
use hyper::Request;

fn site(host: &str, port: u16, is_tls: bool) -> Meant {
    Meant::Site(Site { host: Host::from_authority(host).unwrap(), port, is_tls })
}

fn parts(method: &str, uri: &str, version: Version, hosts: &[&str]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri).version(version);
    for host in hosts {
        request = request.header(HOST, *host);
    }
    request.body(()).unwrap().into_parts().0
}

fn judged(uri: &str, hosts: &[&str], meant: &Meant) -> Result<String, (u16, &'static str)> {
    let parts = parts("GET", uri, Version::HTTP_11, hosts);
    let checked = check(&parts, meant);
    checked
        .map(|asked| format!("{}:{}{}", asked.host, asked.port, asked.path_and_query))
        .map_err(|refused| (refused.status, refused.code))
}

#[test]
fn a_request_is_for_the_host_of_its_connection() {
    let tls = site("pypi.org", 443, true);
    let odd = site("pypi.org", 8080, false);
    let address = site("[fd00::1]", 443, true);
    const MALFORMED: (u16, &str) = (400, "malformed-request");
    const TWO: (u16, &str) = (400, "host-mismatch");
    const OTHER: (u16, &str) = (421, "host-mismatch");
    for (uri, hosts, meant, expected) in [
        ("/a?b", &["pypi.org"][..], &tls, Ok("pypi.org:443/a?b")),
        ("/", &["PyPI.org:443"], &tls, Ok("pypi.org:443/")),
        ("/", &["pypi.org."], &tls, Ok("pypi.org:443/")),
        ("//evil.org/a", &["pypi.org"], &tls, Ok("pypi.org:443//evil.org/a")),
        ("https://pypi.org/a", &["pypi.org"], &tls, Ok("pypi.org:443/a")),
        ("/", &["pypi.org:8080"], &odd, Ok("pypi.org:8080/")),
        ("/", &["[fd00:0::1]"], &address, Ok("[fd00::1]:443/")),
        ("/", &[], &tls, Err(MALFORMED)),
        ("/", &["pypi.org", "pypi.org"], &tls, Err(MALFORMED)),
        ("/", &["evil.org", "pypi.org"], &tls, Err(MALFORMED)),
        ("/", &["evil.org"], &tls, Err(OTHER)),
        ("/", &["pypi.org:80"], &tls, Err(OTHER)),
        ("/", &["pypi.org"], &odd, Err(OTHER)),
        ("/", &["[fd00::2]"], &address, Err(OTHER)),
        ("/", &[""], &tls, Err(MALFORMED)),
        ("/", &["pypi.org:"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org:0"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org:+443"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org:99999"], &tls, Err(MALFORMED)),
        ("/", &["me@pypi.org"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org/"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org, evil.org"], &tls, Err(MALFORMED)),
        ("/", &["pypi.org%00.evil.org"], &tls, Err(MALFORMED)),
        ("/", &["fd00::1"], &address, Err(MALFORMED)),
        ("https://evil.org/", &["pypi.org"], &tls, Err(TWO)),
        ("https://pypi.org/", &["evil.org"], &tls, Err(TWO)),
        ("https://evil.org/", &["evil.org"], &tls, Err(OTHER)),
        ("https://pypi.org:444/", &["pypi.org"], &tls, Err(TWO)),
        ("https://me@pypi.org/", &["pypi.org"], &tls, Err(MALFORMED)),
        ("http://pypi.org/", &["pypi.org"], &tls, Err(MALFORMED)),
        ("https://pypi.org:8080/", &["pypi.org:8080"], &odd, Err(MALFORMED)),
        ("ftp://pypi.org/", &["pypi.org"], &tls, Err(MALFORMED)),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(judged(uri, hosts, meant), expected, "{uri} {hosts:?}");
    }
}

#[test]
fn http2_names_its_host_in_one_place_or_the_same_in_two() {
    let tls = site("pypi.org", 443, true);
    let judged = |uri: &str, hosts: &[&str]| {
        let parts = parts("GET", uri, Version::HTTP_2, hosts);
        check(&parts, &tls).map(drop).map_err(|refused| refused.status)
    };
    assert_eq!(judged("https://pypi.org/", &[]), Ok(()));
    assert_eq!(judged("https://pypi.org/", &["pypi.org"]), Ok(()));
    assert_eq!(judged("/", &["pypi.org"]), Ok(()));
    assert_eq!(judged("https://evil.org/", &[]), Err(421));
    assert_eq!(judged("https://pypi.org/", &["evil.org"]), Err(400));
    assert_eq!(judged("http://pypi.org/", &[]), Err(400));
    assert_eq!(judged("/", &[]), Err(400));
}

#[test]
fn what_is_no_plain_request_is_refused() {
    let tls = site("pypi.org", 443, true);
    for (method, uri) in [
        ("TRACE", "/"),
        ("trace", "/"),
        ("TRACK", "/"),
        ("CONNECT", "pypi.org:443"),
        ("OPTIONS", "*"),
    ] {
        let parts = parts(method, uri, Version::HTTP_11, &["pypi.org"]);
        let refused = check(&parts, &tls).unwrap_err();
        assert_eq!((refused.status, refused.code), (403, "unsupported-request"), "{method}");
    }
    for method in ["GET", "PROPFIND", "OPTIONS"] {
        check(&parts(method, "/", Version::HTTP_11, &["pypi.org"]), &tls).unwrap();
    }
}

#[test]
fn where_nothing_is_sent_any_host_is_answered_but_another_than_that_of_tls() {
    let server_name = Some("pypi.org".parse().unwrap());
    let named = Meant::Anybody { server_name, port: 443, is_tls: true };
    let plain = Meant::Anybody { server_name: None, port: 80, is_tls: false };
    assert!(judged("/", &["pypi.org"], &named).is_ok());
    assert_eq!(judged("/", &["evil.org"], &named), Err((421, "host-mismatch")));
    assert!(judged("/", &["evil.org"], &plain).is_ok());
    assert!(judged("/", &["pypi.org"], &Meant::Proxied).is_err());
    assert_eq!(
        judged("http://pypi.org:81", &["pypi.org:81"], &Meant::Proxied),
        Ok("pypi.org:81/".to_owned())
    );
}

#[test]
fn a_websocket_is_asked_for_as_it_should_be() {
    let with = |headers: &[(&'static str, &str)]| {
        let mut parts = parts("GET", "/", Version::HTTP_11, &["pypi.org"]);
        for (name, value) in headers {
            parts.headers.append(*name, value.parse().unwrap());
        }
        check(&parts, &site("pypi.org", 443, true)).unwrap().is_websocket
    };
    let whole = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];
    assert!(with(&whole));
    for missing in 0..whole.len() {
        let mut part = whole.to_vec();
        part.remove(missing);
        assert!(!with(&part), "{missing}");
    }
}
