//! What a registry asks to know, and where it sends us for a token.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// Most bytes of an answer with a token.
pub(super) const TOKEN_BYTES_MAX: u64 = 256 << 10;

/// What stands for itself in a query.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A way to prove who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// By a token, which is given there.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
    /// By name and password.
    Basic,
}

impl Challenge {
    /// Reads one; nothing if it is not understood.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = rest;
        while let Some((name, value, after)) = parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer { realm: realm?, service, scope })
    }

    /// A token says less of us than a password.
    pub(super) fn strength(&self) -> u8 {
        match self {
            Self::Basic => 0,
            Self::Bearer { .. } => 1,
        }
    }
}

/// The first `name=value`, and what follows it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let (name, rest) = text.split_once('=')?;
    let rest = rest.trim_start();
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((name.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((name.trim(), value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// Where a token is asked for.
pub(super) fn token_url(realm: &str, service: Option<&str>, scope: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
    let mark = if realm.contains('?') { '&' } else { '?' };
    let service = service.map(|service| format!("service={}&", encode(service)));
    format!("{realm}{mark}{}scope={}", service.unwrap_or_default(), encode(scope))
}

/// The token in an answer.
pub(super) fn token(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(bytes).ok()?;
    let is_word = |token: &String| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    answer.token.filter(is_word).or(answer.access_token.filter(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let text = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service, scope }) = Challenge::parse(text) else {
            panic!()
        };
        assert_eq!(realm, "https://auth.example/token");
        assert_eq!(
            (service.as_deref(), scope.as_deref()),
            (Some("r.example"), Some("repository:a/b:pull,push"))
        );
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
        let odd = Challenge::parse(r#"bearer error=x, realm = "a\"b" "#);
        assert_eq!(
            odd,
            Some(Challenge::Bearer { realm: "a\"b".to_owned(), service: None, scope: None })
        );
        for text in ["", "Negotiate", "Bearer", r#"Bearer realm="x"#, "Bearer service=a"] {
            assert_eq!(Challenge::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_are_asked_for_and_taken() {
        let url = token_url("https://a/t", Some("r e"), "repository:a/b:pull");
        assert_eq!(url, "https://a/t?service=r%20e&scope=repository%3Aa/b%3Apull");
        assert_eq!(token_url("https://a/t?x=1", None, "s"), "https://a/t?x=1&scope=s");
        assert_eq!(token(br#"{"token":"","access_token":"b"}"#).as_deref(), Some("b"));
        for text in [&b"{}"[..], b"[]", br#"{"token":"a b"}"#, br#"{"token":"a\r\nX: y"}"#] {
            assert_eq!(token(text), None);
        }
    }
}
