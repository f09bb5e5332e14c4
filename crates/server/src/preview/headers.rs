//! Which headers pass between a client and a sandbox, in either direction.
//!
//! | header | to the sandbox | to the client |
//! |---|---|---|
//! | of the connection (RFC 9110, section 7.6.1) | ours | ours |
//! | `Host` | as the client sent it | |
//! | `Forwarded`, `X-Forwarded-*`, `X-Real-IP` | ours, whatever came | as it is |
//! | cookies named `__atoll…` | taken out | taken out |
//! | other cookies | as they are; none by path | without `Domain`; none by path |
//! | keys of the API, tokens of previews | taken out | |
//! | `Alt-Svc`, `Clear-Site-Data`, and by path what holds for the whole host | | taken out |
//! | everything else | as it is | as it is |

use super::address::Address;
use crate::socket::{KEY_PROTOCOL, tokens};
use atoll_api::key::KEY_PREFIX;
use atoll_api::ports::PREVIEW_TOKEN_HEADER;
use hyper::HeaderMap;
use hyper::header::{
    self, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, Entry,
    FORWARDED, HOST, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    REFERRER_POLICY, SEC_WEBSOCKET_PROTOCOL, SET_COOKIE, STRICT_TRANSPORT_SECURITY, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use std::net::IpAddr;

/// How the names of cookies begin that are the server's.
const OUR_COOKIES: &[u8] = b"__atoll";

/// The way by which a client came.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) from: IpAddr,
    /// As the client sent it.
    pub(crate) host: HeaderValue,
    pub(crate) scheme: &'static str,
    /// Below which path the preview is; none where it has a host of its own.
    pub(crate) prefix: Option<String>,
}

impl Came {
    pub(crate) fn by_path(address: Address) -> String {
        format!("/preview/{address}")
    }
}

/// Takes out what is of one connection and not of the message.
fn without_connection(headers: &mut HeaderMap) {
    let of_connection: Vec<HeaderName> =
        tokens(headers, &CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in of_connection {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("http2-settings"),
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        // Hyper has answered it, or will.
        EXPECT,
    ] {
        headers.remove(name);
    }
}

/// What the sandbox gets of a request's headers.
pub(crate) fn to_sandbox(headers: &mut HeaderMap, came: &Came) {
    without_connection(headers);
    headers.remove(PREVIEW_TOKEN_HEADER);
    remove_keys(headers);
    let cookies = cookies(headers).filter(|_| came.prefix.is_none());
    match cookies {
        Some(cookies) => headers.insert(COOKIE, cookies),
        None => headers.remove(COOKIE),
    };
    let forwarded: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-forwarded-") || *name == "x-real-ip")
        .cloned()
        .collect();
    for name in forwarded {
        headers.remove(name);
    }
    headers.insert(HOST, came.host.clone());
    let quoted = match came.from {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let host = came.host.to_str().unwrap_or_default();
    let values = [
        (FORWARDED, format!("for={quoted};host=\"{host}\";proto={}", came.scheme)),
        (HeaderName::from_static("x-forwarded-for"), came.from.to_string()),
        (HeaderName::from_static("x-forwarded-proto"), came.scheme.to_owned()),
        (HeaderName::from_static("x-forwarded-host"), host.to_owned()),
    ];
    let prefix = came.prefix.clone();
    let prefix = prefix.map(|prefix| (HeaderName::from_static("x-forwarded-prefix"), prefix));
    for (name, value) in values.into_iter().chain(prefix) {
        let value = HeaderValue::try_from(value).expect("it is made of what was a header");
        headers.insert(name, value);
    }
}

/// Takes out what carries a key of the API, in each place where the API would take one.
fn remove_keys(headers: &mut HeaderMap) {
    let carries = |value: &HeaderValue| {
        let words = value.as_bytes().split(|byte| byte.is_ascii_whitespace());
        words.into_iter().any(|word| word.starts_with(KEY_PREFIX.as_bytes()))
    };
    for name in [AUTHORIZATION, HeaderName::from_static("x-api-key")] {
        retain(headers, &name, |value| (!carries(value)).then(|| value.clone()));
    }
    retain(headers, &SEC_WEBSOCKET_PROTOCOL, |value| {
        let Ok(text) = value.to_str() else { return Some(value.clone()) };
        let kept: Vec<&str> =
            text.split(',').map(str::trim).filter(|name| !name.starts_with(KEY_PROTOCOL)).collect();
        HeaderValue::try_from(kept.join(", ")).ok().filter(|_| !kept.is_empty())
    });
}

/// The cookies that are not ours, in one line (RFC 9113, section 8.2.3).
fn cookies(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(COOKIE).into_iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    let kept: Vec<&[u8]> =
        pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty() && !is_ours(pair)).collect();
    HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok().filter(|_| !kept.is_empty())
}

fn is_ours(pair: &[u8]) -> bool {
    let start = pair.get(..OUR_COOKIES.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(OUR_COOKIES))
}

/// What the client gets of an answer's headers.
pub(crate) fn to_client(headers: &mut HeaderMap, came: &Came) {
    without_connection(headers);
    // These would steer a browser away from the server, or clear what is other previews'.
    headers.remove(ALT_SVC);
    headers.remove("clear-site-data");
    retain(headers, &SET_COOKIE, |cookie| {
        let parts = cookie.as_bytes().split(|&byte| byte == b';');
        let kept: Vec<&[u8]> = parts
            .enumerate()
            .filter(|(at, part)| *at == 0 || !is_domain(part))
            .map(|(_, part)| part)
            .collect();
        let is_ours = is_ours(cookie.as_bytes().trim_ascii_start());
        // Without a domain it is of this host only.
        HeaderValue::from_bytes(&kept.join(&b';')).ok().filter(|_| !is_ours)
    });
    // The token is part of the address, and pages link to elsewhere.
    if let Entry::Vacant(entry) = headers.entry(REFERRER_POLICY) {
        entry.insert(HeaderValue::from_static("same-origin"));
    }
    let Some(prefix) = &came.prefix else { return };
    headers.remove(SET_COOKIE);
    headers.remove(STRICT_TRANSPORT_SECURITY);
    headers.remove("service-worker-allowed");
    // Previews below one host share its origin with each other and with the API: their pages
    // get one that is nobody's. Several policies hold all at once.
    headers.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static(OWN_ORIGIN));
    retain(headers, &LOCATION, |value| Some(below(prefix, value)));
}

const OWN_ORIGIN: &str = "sandbox allow-downloads allow-forms allow-modals allow-popups \
                          allow-scripts";

/// A redirection to a path of the sandbox's own, as the client sees it.
fn below(prefix: &str, location: &HeaderValue) -> HeaderValue {
    let bytes = location.as_bytes();
    let is_path = bytes.starts_with(b"/") && !bytes.starts_with(b"//");
    let moved = HeaderValue::from_bytes(&[prefix.as_bytes(), bytes].concat());
    moved.ok().filter(|_| is_path).unwrap_or_else(|| location.clone())
}

fn is_domain(attribute: &[u8]) -> bool {
    let name = attribute.split(|&byte| byte == b'=').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"domain")
}

/// Replaces each line of a header by what is made of it, or by none.
fn retain(
    headers: &mut HeaderMap,
    name: &HeaderName,
    make: impl FnMut(&HeaderValue) -> Option<HeaderValue>,
) {
    let kept: Vec<HeaderValue> = headers.get_all(name).into_iter().filter_map(make).collect();
    if let header::Entry::Occupied(entry) = headers.entry(name) {
        entry.remove_entry_mult();
    }
    for value in kept {
        headers.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(prefix: Option<&str>) -> Came {
        Came {
            from: "10.0.0.1".parse().unwrap(),
            host: HeaderValue::from_static("x.localhost:4000"),
            scheme: "http",
            prefix: prefix.map(str::to_owned),
        }
    }

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn text(headers: &HeaderMap) -> String {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines.join("\n")
    }

    fn sent(pairs: &[(&str, &str)]) -> String {
        let mut headers = map(pairs);
        to_sandbox(&mut headers, &came(None));
        for name in ["host", "forwarded", "x-forwarded-for", "x-forwarded-proto"] {
            assert!(headers.remove(name).is_some(), "{name}");
        }
        headers.remove("x-forwarded-host");
        text(&headers)
    }

    fn answered(prefix: Option<&str>, pairs: &[(&str, &str)]) -> String {
        let mut headers = map(pairs);
        to_client(&mut headers, &came(prefix));
        text(&headers)
    }

    #[test]
    fn what_is_of_the_connection_goes_no_further() {
        let headers = [
            ("connection", "close, X-Hop"),
            ("connection", "keep-alive"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"),
            ("proxy-authorization", "Basic x"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ];
        let kept = sent(&headers);
        assert_eq!(kept, "accept: */*");
        let kept = answered(None, &[("connection", "x-hop"), ("x-hop", "1"), ("etag", "\"1\"")]);
        assert_eq!(kept, "etag: \"1\"\nreferrer-policy: same-origin");
    }

    #[test]
    fn no_key_of_the_api_gets_in_but_what_is_the_page_s_does() {
        let key = format!("{KEY_PREFIX}{}", "0".repeat(40));
        let bearer = format!("bearer  {key}");
        let protocols = format!("atoll.key.{key}, vite-hmr");
        for (name, value, kept) in [
            ("authorization", bearer.as_str(), ""),
            ("authorization", &key, ""),
            ("x-api-key", &key, ""),
            ("atoll-preview-token", "x", ""),
            ("sec-websocket-protocol", &protocols, "sec-websocket-protocol: vite-hmr"),
            ("authorization", "Bearer page", "authorization: Bearer page"),
            ("authorization", "Basic dTpw", "authorization: Basic dTpw"),
            ("x-api-key", "page", "x-api-key: page"),
        ] {
            assert_eq!(sent(&[(name, value)]), kept, "{name}: {value}");
        }
        let only_key = format!("atoll.key.{key}");
        assert_eq!(sent(&[("sec-websocket-protocol", &only_key)]), "");
    }

    #[test]
    fn cookies_of_the_page_pass_and_ours_do_not() {
        let cookies = [("cookie", "a=1; __atoll_x=secret;b=2"), ("cookie", "__ATOLL=1; c=\"3\"")];
        assert_eq!(sent(&cookies), "cookie: a=1; b=2; c=\"3\"");
        assert_eq!(sent(&[("cookie", "__atoll=1")]), "");
        let kept = answered(
            None,
            &[
                ("set-cookie", "a=1; Path=/; Domain=localhost; HttpOnly"),
                ("set-cookie", "domain=2; domain = .localhost;secure"),
                ("set-cookie", " __Atoll_key=3"),
            ],
        );
        insta::assert_snapshot!(kept, @r"
        referrer-policy: same-origin
        set-cookie: a=1; Path=/; HttpOnly
        set-cookie: domain=2;secure
        ");
    }

    #[test]
    fn who_asks_is_said_by_us_only() {
        let mut headers = map(&[
            ("host", "other"),
            ("forwarded", "for=1.1.1.1"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "1.1.1.1"),
        ]);
        to_sandbox(&mut headers, &came(None));
        insta::assert_snapshot!(text(&headers), @r#"
        forwarded: for=10.0.0.1;host="x.localhost:4000";proto=http
        host: x.localhost:4000
        x-forwarded-for: 10.0.0.1
        x-forwarded-host: x.localhost:4000
        x-forwarded-proto: http
        "#);
    }

    #[test]
    fn below_a_path_nothing_holds_for_the_whole_host() {
        let prefix = Some("/preview/80-x");
        let kept = answered(
            prefix,
            &[
                ("set-cookie", "a=1"),
                ("location", "/login"),
                ("content-security-policy", "default-src 'self'"),
                ("service-worker-allowed", "/"),
                ("strict-transport-security", "max-age=1"),
                ("clear-site-data", "*"),
                ("alt-svc", "h2=\":1\""),
                ("referrer-policy", "no-referrer"),
            ],
        );
        insta::assert_snapshot!(kept, @r"
        content-security-policy: default-src 'self'
        content-security-policy: sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts
        location: /preview/80-x/login
        referrer-policy: no-referrer
        ");
        for other in ["//elsewhere/", "http://elsewhere/", "next"] {
            let kept = answered(prefix, &[("location", other)]);
            assert!(kept.contains(&format!("location: {other}\n")), "{kept}");
        }
        let mut headers = map(&[("cookie", "session=host's")]);
        to_sandbox(&mut headers, &came(prefix));
        assert_eq!(headers.get(COOKIE), None);
        assert_eq!(headers["x-forwarded-prefix"], "/preview/80-x");
    }
}
