//! Puts a secret into a request, in place of what was sent there.

use super::{Form, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What stands for itself in a query (RFC 3986, section 2.3).
pub(super) const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A secret, and where in a request it is put.
#[derive(Debug, Clone)]
pub struct Injection {
    secret: Arc<Secret>,
    form: Form,
}

/// Why a secret cannot be put somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// Line breaks and the like; often the one at the end of a file.
    #[error("the secret has line breaks or other control characters, which a header cannot have")]
    NotAHeader,
}

impl Injection {
    /// A secret in a form that it can have.
    ///
    /// # Errors
    ///
    /// [`InjectionError::NotAHeader`].
    pub fn new(secret: Arc<Secret>, form: Form) -> Result<Self, InjectionError> {
        let injection = Self { secret, form };
        match injection.form {
            Form::Query { .. } => {}
            Form::Bearer | Form::Basic { .. } | Form::Header { .. } => {
                injection.header()?;
            }
        }
        Ok(injection)
    }

    /// Which secret.
    #[must_use]
    pub const fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    /// Where it is put.
    #[must_use]
    pub const fn form(&self) -> &Form {
        &self.form
    }

    /// Whether it takes the same place as another.
    fn shares_place(&self, other: &Self) -> bool {
        match (self.header_name(), other.header_name()) {
            (Some(own), Some(others)) => is_same_header(own.as_str(), others.as_str()),
            (None, None) => match (&self.form, &other.form) {
                (Form::Query { name: own }, Form::Query { name: others }) => {
                    own.eq_ignore_ascii_case(others)
                }
                _ => false,
            },
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The header that it takes.
    #[must_use]
    pub fn header_name(&self) -> Option<HeaderName> {
        match &self.form {
            Form::Bearer | Form::Basic { .. } => Some(AUTHORIZATION),
            Form::Header { name } => Some(name.clone()),
            Form::Query { .. } => None,
        }
    }

    fn header(&self) -> Result<Option<HeaderValue>, InjectionError> {
        let value = self.secret.value();
        let text = match &self.form {
            Form::Bearer => Zeroizing::new([b"Bearer ", value].concat()),
            Form::Basic { user } => {
                let pair = Zeroizing::new([user.as_bytes(), b":", value].concat());
                let encoded = Zeroizing::new(STANDARD.encode(&*pair));
                Zeroizing::new([b"Basic ", encoded.as_bytes()].concat())
            }
            Form::Header { .. } => Zeroizing::new(value.to_vec()),
            Form::Query { .. } => return Ok(None),
        };
        let header = HeaderValue::from_bytes(&text).map_err(|_| InjectionError::NotAHeader)?;
        Ok(Some(sensitive(header)))
    }

    /// Whether a request has the placeholder in the place that the value will take.
    fn is_meant(&self, path_and_query: &str, headers: &HeaderMap) -> bool {
        let placeholder = self.secret.placeholder().as_bytes();
        match self.header_name() {
            Some(name) => {
                let mut values = headers.get_all(name).iter();
                values.any(|value| {
                    memmem::find(value.as_bytes(), placeholder).is_some()
                        || basic(value.as_bytes())
                            .is_some_and(|pair| memmem::find(&pair, placeholder).is_some())
                })
            }
            None => memmem::find(path_and_query.as_bytes(), placeholder).is_some(),
        }
    }
}

/// The user and password of an `Authorization: Basic`, if a value is one.
#[must_use]
pub fn basic(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let rest = rest.trim_ascii();
    let unpadded = rest.strip_suffix(b"==").or_else(|| rest.strip_suffix(b"=")).unwrap_or(rest);
    let decoded = STANDARD_NO_PAD.decode(unpadded);
    scheme.eq_ignore_ascii_case(b"basic ").then(|| decoded.ok()).flatten()
}

/// Puts secrets in. Of several for one place, it is the one whose placeholder is there, else
/// the first.
pub fn inject<'a>(
    injections: &'a [Injection],
    path_and_query: &mut Cow<'_, str>,
    headers: &mut HeaderMap,
) -> Vec<&'a Injection> {
    let mut chosen: Vec<&Injection> = Vec::new();
    for injection in injections {
        match chosen.iter_mut().find(|other| injection.shares_place(other)) {
            None => chosen.push(injection),
            Some(other) => {
                let is_better = injection.is_meant(path_and_query, headers)
                    && !other.is_meant(path_and_query, headers);
                if is_better {
                    *other = injection;
                }
            }
        }
    }
    for injection in &chosen {
        if let Some(name) = injection.header_name() {
            without_header(headers, name.as_str());
            if let Ok(Some(value)) = injection.header() {
                headers.insert(name, value);
            }
        } else if let Form::Query { name } = injection.form() {
            *path_and_query =
                Cow::Owned(with_query(path_and_query, name, injection.secret().value()));
        }
    }
    chosen
}

/// Takes out a header, also in the spellings that servers take for the same.
pub fn without_header(headers: &mut HeaderMap, name: &str) {
    let same: Vec<HeaderName> =
        headers.keys().filter(|other| is_same_header(other.as_str(), name)).cloned().collect();
    for name in same {
        headers.remove(name);
    }
}

/// Whether two names are the same to a server that hands headers on as variables (RFC 3875).
fn is_same_header(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

/// A path and query in which a parameter is only ours.
fn with_query(path_and_query: &str, name: &str, value: &[u8]) -> String {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    // Some servers also part a query at `;`.
    let is_other = |piece: &&str| {
        let key = piece.split('=').next().unwrap_or_default().replace('+', " ");
        !percent_decode_str(&key).decode_utf8_lossy().trim().eq_ignore_ascii_case(name)
    };
    let kept = query.split('&').filter_map(|part| {
        let kept: Vec<&str> = part.split(';').filter(is_other).collect();
        (!kept.is_empty()).then(|| kept.join(";"))
    });
    let mut query: Vec<String> = kept.filter(|part| !part.is_empty()).collect();
    query.push(format!("{name}={}", percent_encode(value, QUERY)));
    format!("{path}?{}", query.join("&"))
}

/// Never in a log, nor in a table of HTTP/2.
fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
