//! Which headers go on, in either direction.

use super::refusal::DENIED;
use hyper::header::{
    self, CONNECTION, COOKIE, EXPECT, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_EXTENSIONS, TE, TRANSFER_ENCODING, UPGRADE,
};

/// Headers of one connection, whatever its `Connection` says (RFC 9110, section 7.6.1).
const OF_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The words in the lists of a header.
pub(super) fn tokens<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Takes out what is of one connection and not of the message.
fn without_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        tokens(headers, &CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in named.into_iter().chain(OF_CONNECTION) {
        headers.remove(name);
    }
}

/// What goes to the host of the headers of a request. Its length is written anew.
///
/// What its `Connection` names is gone as well: no header that is put in later is, as that is
/// not read again.
pub(super) fn to_host(headers: &mut HeaderMap, is_websocket: bool, is_searched: bool) -> bool {
    let takes_trailers = tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    without_connection(headers);
    // Whom it is for is written by us; what was expected is answered by us.
    for name in [header::HOST, header::CONTENT_LENGTH, EXPECT] {
        headers.remove(name);
    }
    join_cookies(headers);
    if is_searched {
        // What comes back is to be searched for secrets, so it must not be packed, and must not
        // come in parts of the asker's choice.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for name in [header::RANGE, header::IF_RANGE, SEC_WEBSOCKET_EXTENSIONS] {
            headers.remove(name);
        }
    }
    if is_websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    takes_trailers
}

/// HTTP/2 may have them one by one (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1 {
        let joined = HeaderValue::from_bytes(&cookies.join(&b"; "[..]));
        headers.insert(COOKIE, joined.expect("each part of it was a header"));
    }
}

/// What comes back of the headers of an answer.
pub(super) fn from_host(headers: &mut HeaderMap) {
    without_connection(headers);
    // Nobody but us says these: what is refused, and that there are other ways to a host.
    for name in [DENIED, header::ALT_SVC] {
        headers.remove(name);
    }
}

/// Whether an answer is packed, so that nothing can be found in it.
pub(super) fn is_packed(headers: &HeaderMap) -> bool {
    tokens(headers, &header::CONTENT_ENCODING).any(|token| !token.eq_ignore_ascii_case("identity"))
}

/// Whether the body of an answer is packed for the way, which nobody asked for and hyper does
/// not undo.
pub(super) fn is_packed_on_its_way(headers: &HeaderMap) -> bool {
    tokens(headers, &TRANSFER_ENCODING).any(|token| !token.eq_ignore_ascii_case("chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_of_the_connection_stays_there() {
        let mut of_request = headers(&[
            ("connection", "close, X-Mine"),
            ("connection", "Authorization"),
            ("x-mine", "1"),
            ("authorization", "Bearer mine"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers, deflate"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("expect", "100-continue"),
            ("host", "a"),
            ("content-length", "5"),
            ("accept", "*/*"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ]);
        assert!(to_host(&mut of_request, false, false));
        assert_eq!(names(&of_request), ["accept", "cookie"]);
        assert_eq!(of_request["cookie"], "a=1; b=2");

        let mut of_answer = headers(&[
            ("connection", "x-mine"),
            ("x-mine", "1"),
            ("alt-svc", "h3=\":443\""),
            ("atoll-denied", "denied"),
            ("set-cookie", "a=1"),
        ]);
        from_host(&mut of_answer);
        assert_eq!(names(&of_answer), ["set-cookie"]);
    }

    #[test]
    fn what_is_searched_is_asked_for_whole_and_plain() {
        let sent = [("accept-encoding", "gzip"), ("range", "bytes=0-3"), ("if-range", "x")];
        let mut searched = headers(&sent);
        assert!(!to_host(&mut searched, false, true));
        assert_eq!(searched["accept-encoding"], "identity");
        assert_eq!(names(&searched), ["accept-encoding"]);
        let mut other = headers(&sent);
        to_host(&mut other, false, false);
        assert_eq!(names(&other), ["accept-encoding", "if-range", "range"]);
        assert_eq!(other["accept-encoding"], "gzip");
        assert!(is_packed(&headers(&[("content-encoding", "identity, gzip")])));
        assert!(!is_packed(&headers(&[("content-encoding", "identity")])));
    }
}
