use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use proptest::prelude::*;
use std::borrow::Cow;

const PLACEHOLDER: &str = "atoll_GITHUB_0123456789abcdef";
const VALUE: &str = "ghp_S3cr3t/With+Odd=Letters&\"x";

fn secret(name: &str, value: &str, placeholder: &str) -> Arc<Secret> {
    Arc::new(Secret::new(name, value.as_bytes().to_vec(), placeholder).unwrap())
}

fn github(form: &str) -> Injection {
    let secret = secret("GITHUB", VALUE, PLACEHOLDER);
    Injection::new(secret, form.parse().unwrap()).unwrap()
}

#[test]
fn forms_are_read_and_said_the_same() {
    for text in ["bearer", "basic:x-access-token", "header:x-api-key", "query:key"] {
        assert_eq!(text.parse::<Form>().unwrap().to_string(), text);
    }
    for (text, error) in [
        ("", FormError::Unknown),
        ("token", FormError::Unknown),
        ("bearer:x", FormError::Unknown),
        ("basic:", FormError::User),
        ("basic:a:b", FormError::User),
        ("header:", FormError::Header),
        ("header:a b", FormError::Header),
        ("header:Host", FormError::OfConnection),
        ("header:transfer-encoding", FormError::OfConnection),
        ("query:", FormError::Query),
        ("query:a&b", FormError::Query),
    ] {
        assert_eq!(text.parse::<Form>(), Err(error), "{text}");
    }
}

#[test]
fn what_is_no_secret_is_said() {
    let value = || b"long enough".to_vec();
    assert_eq!(Secret::new("A", b"short".to_vec(), PLACEHOLDER).err(), Some(SecretError::Length));
    assert_eq!(Secret::new("A", vec![b'a'; 20_000], PLACEHOLDER).err(), Some(SecretError::Length));
    for bad in ["short", "has a blank in it, which no", "h\u{fc}bsch_und_lang_genug"] {
        assert_eq!(Secret::new("A", value(), bad).err(), Some(SecretError::Placeholder));
    }
    let made = Secret::placeholder_for("MY KEY").unwrap();
    assert!(made.starts_with("atoll_MY_KEY_"), "{made}");
    assert_ne!(made, Secret::placeholder_for("MY KEY").unwrap());
    Secret::new("MY KEY", value(), made).unwrap();
    let lines = secret("A", "a line\nand another", PLACEHOLDER);
    let refused = Injection::new(Arc::clone(&lines), Form::Bearer);
    assert_eq!(refused.err(), Some(InjectionError::NotAHeader));
    Injection::new(lines, "query:key".parse().unwrap()).unwrap();
}

#[test]
fn what_no_request_can_carry_is_known_before_it_is_sent() {
    let query: Form = "query:key".parse().unwrap();
    for (value, form, error) in [
        (b"\xff not text".as_slice(), &query, CarryError::NotText),
        (b"short", &query, CarryError::Secret(SecretError::Length)),
        (b"a line\nand another", &Form::Bearer, InjectionError::NotAHeader.into()),
    ] {
        assert_eq!(carried(value, form), Err(error));
    }
    assert_eq!(carried(b"a line\nand another", &query), Ok("a line\nand another"));
}

#[test]
fn a_value_is_never_shown() {
    let injection = github("bearer");
    let mut headers = HeaderMap::new();
    inject(std::slice::from_ref(&injection), &mut Cow::Borrowed("/"), &mut headers);
    assert_eq!(headers[AUTHORIZATION], format!("Bearer {VALUE}"));
    let patterns = Patterns::new([injection.secret()]);
    let shown = format!("{injection:?} {headers:?} {patterns:?} {:?}", injection.secret());
    assert!(!shown.contains("S3cr3t"), "{shown}");
}

fn injected(
    injections: &[Injection],
    path_and_query: &str,
    sent: &[(&str, &str)],
) -> (String, Vec<(String, String)>) {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    let mut path = Cow::Borrowed(path_and_query);
    inject(injections, &mut path, &mut headers);
    assert!(headers.get_all(AUTHORIZATION).iter().all(HeaderValue::is_sensitive));
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    (path.into_owned(), headers)
}

#[test]
fn what_a_program_sent_in_its_place_is_gone() {
    let bearer = ("authorization".to_owned(), format!("Bearer {VALUE}"));
    let (_, headers) = injected(&[github("bearer")], "/", &[]);
    assert_eq!(headers, std::slice::from_ref(&bearer));
    let sent = [("Authorization", "Bearer mine"), ("authorization", "Basic eDp5"), ("x", "y")];
    let (_, headers) = injected(&[github("bearer")], "/", &sent);
    assert_eq!(headers.len(), 2);
    assert!(headers.contains(&bearer));

    let (_, headers) = injected(&[github("basic:x-access-token")], "/", &sent);
    let encoded = STANDARD.encode(format!("x-access-token:{VALUE}"));
    assert!(headers.contains(&("authorization".to_owned(), format!("Basic {encoded}"))));

    let sent = [("X-Api-Key", "a"), ("x-api-key", "b"), ("X_API_KEY", "c")];
    let (_, headers) = injected(&[github("header:X-Api-Key")], "/", &sent);
    assert_eq!(headers, [("x-api-key".to_owned(), VALUE.to_owned())]);
}

#[test]
fn a_parameter_of_a_query_is_only_ours() {
    let ours = "key=ghp_S3cr3t%2FWith%2BOdd%3DLetters%26%22x";
    for (sent, expected) in [
        ("/a", format!("/a?{ours}")),
        ("/a?", format!("/a?{ours}")),
        ("/a?b=c&key=mine&d", format!("/a?b=c&d&{ours}")),
        ("/a?key=1&KEY=2&k%65y=3&key&%6bey", format!("/a?{ours}")),
        ("/a?b=c;key=2&+key=4", format!("/a?b=c&{ours}")),
        ("/a?keys=1&akey=2", format!("/a?keys=1&akey=2&{ours}")),
        ("/a?b=?key=1", format!("/a?b=?key=1&{ours}")),
    ] {
        assert_eq!(injected(&[github("query:key")], sent, &[]).0, expected, "{sent}");
    }
}

#[test]
fn of_two_for_one_place_the_one_that_is_meant_goes() {
    let first = github("bearer");
    let second = secret("OTHER", "another value", "atoll_OTHER_0123456789abcdef");
    let second = Injection::new(second, "basic:me".parse().unwrap()).unwrap();
    let both = [first, second];
    let place = |sent: &str| injected(&both, "/", &[("authorization", sent)]).1[0].1.clone();
    assert_eq!(place("Bearer whatever"), format!("Bearer {VALUE}"));
    let other = format!("Basic {}", STANDARD.encode("me:another value"));
    assert_eq!(place("Bearer atoll_OTHER_0123456789abcdef"), other);
    let pair = STANDARD.encode("me:atoll_OTHER_0123456789abcdef");
    assert_eq!(place(&format!("basic {pair}")), other);
}

#[test]
fn placeholders_are_found() {
    let secrets = Secrets::new(vec![secret("A", VALUE, PLACEHOLDER)]);
    let text = format!("x{PLACEHOLDER}y");
    assert_eq!(secrets.found_in(text.as_bytes()).count(), 1);
    assert_eq!(secrets.found_in(&text.as_bytes()[2..]).count(), 0);
}

fn patterns() -> Arc<Patterns> {
    Arc::new(Patterns::new([&secret("GITHUB", VALUE, PLACEHOLDER)]))
}

/// What comes out of a redactor for pieces of these lengths, in turn.
fn covered(patterns: &Arc<Patterns>, text: &[u8], lengths: &[usize], flushes: bool) -> Vec<u8> {
    let mut redactor = Redactor::new(Arc::clone(patterns));
    let (mut rest, mut out) = (text, Vec::new());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.len().min((*length).max(1)));
        out.extend_from_slice(&redactor.push(Bytes::copy_from_slice(piece)));
        if flushes {
            out.extend_from_slice(&redactor.flush());
        }
        rest = after;
    }
    out.extend_from_slice(&redactor.finish());
    out
}

#[test]
fn a_value_is_covered_however_it_is_written() {
    let encoded = "ghp_S3cr3t%2FWith%2BOdd%3DLetters%26%22x";
    let json = serde_json::to_string(VALUE).unwrap();
    for text in [
        VALUE.to_owned(),
        encoded.to_owned(),
        encoded.replace("%2F", "%2f").replace("%3D", "%3d").replace("%2B", "%2b"),
        json.clone(),
        json.replace('/', "\\/"),
        VALUE.replace('&', "&amp;").replace('"', "&#34;"),
        format!("a{VALUE}{VALUE}b{VALUE}"),
    ] {
        let out = covered(&patterns(), text.as_bytes(), &[4096], false);
        let shown = String::from_utf8(out.clone()).unwrap();
        assert_eq!(out.len(), text.len());
        assert!(!shown.contains("S3cr3t") && !shown.contains("Letters"), "{shown}");
        assert!(shown.contains(&PLACEHOLDER[..20]), "{shown}");
    }
    for front in ["", "x", "xy", "xyz", "x-access-token:", "user:"] {
        let pair = format!("{front}{VALUE} and more");
        for text in [STANDARD.encode(&pair), URL_SAFE.encode(&pair)] {
            let out = covered(&patterns(), text.as_bytes(), &[7], false);
            let out = String::from_utf8(out).unwrap();
            // Beside the letters at its ends nothing of the value is left.
            let inner = STANDARD.encode(&VALUE[..9]);
            assert!(!out.contains(&inner) && out.contains("atoll_GITHUB"), "{front} {out}");
            assert_eq!(out.len(), text.len());
        }
    }
    let innocent = b"ghp_S3cr3t/With+Odd=Letters& and so on";
    assert_eq!(covered(&patterns(), innocent, &[5], true), innocent);
}

#[test]
fn the_end_of_a_message_does_not_wait_for_the_next() {
    let mut redactor = Redactor::new(patterns());
    let given = redactor.push(Bytes::from_static(b"tag"));
    assert_eq!(given, "ta");
    assert_eq!(redactor.flush(), "g");
    assert_eq!(redactor.flush(), "");
    // What was given is remembered.
    let given = redactor.push(Bytes::from(format!("{}, and!", &VALUE[1..])));
    assert_eq!(given, format!("{}*, and!", &PLACEHOLDER[1..]));
    assert_eq!(redactor.found().len(), 1);
    // As much as this is no accident, and waits.
    redactor.push(Bytes::from_static(b"ghp_S"));
    assert_eq!(redactor.flush(), "");
    assert_eq!(redactor.finish(), "ghp_S");
}

proptest! {
    #[test]
    fn no_cut_uncovers_a_value(
        front in "[ghp_S3A-Za-z/ ]{0,40}",
        back in "[ghp_S3A-Za-z/ ]{0,40}",
        lengths in prop::collection::vec(1_usize..40, 1..6),
        flushes: bool,
        is_encoded: bool,
    ) {
        let value = if is_encoded { STANDARD.encode(format!("me:{VALUE}")) } else { VALUE.to_owned() };
        let text = format!("{front}{value}{back}");
        let out = covered(&patterns(), text.as_bytes(), &lengths, flushes);
        prop_assert_eq!(out.len(), text.len());
        let whole = covered(&patterns(), text.as_bytes(), &[4096], false);
        if !flushes {
            prop_assert_eq!(&out, &whole);
        }
        // Nothing but the first letters, which may have been given before the rest came.
        let end = &value.as_bytes()[6..value.len() - 3];
        prop_assert!(memchr::memmem::find(&out, end).is_none());
    }

    #[test]
    fn what_has_no_value_is_left_alone(
        text in "[ghp_S3cr3t/With+Odd=Letters&\"\\\\%]{0,200}",
        lengths in prop::collection::vec(1_usize..40, 1..6),
        flushes: bool,
    ) {
        prop_assume!(!text.contains("S3cr3t/With"));
        prop_assert_eq!(covered(&patterns(), text.as_bytes(), &lengths, flushes), text.into_bytes());
    }
}
