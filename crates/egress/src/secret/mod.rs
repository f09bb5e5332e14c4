//! Secrets: values that the sandbox never has, and what stands for them inside.
//!
//! A program inside has a *placeholder*. Where a request goes to a host that the secret is for,
//! over TLS that was verified, the gateway puts the value in its [`Form`], in place of whatever
//! the program sent there ([`Injection`]). Coming back, the value is covered ([`Redactor`]).
//! Bodies of requests are not searched: a placeholder is worth nothing to whoever gets it, and
//! programs rightly send what they see, their environment too, to hosts that may be asked.

mod form;
mod inject;
mod patterns;
mod redact;

pub use form::{Form, FormError};
pub use inject::{Injection, InjectionError, basic, inject, without_header};
pub use patterns::Patterns;
pub use redact::Redactor;

use memchr::memmem;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Fewest bytes of a value: a shorter one cannot be told from other text.
pub const VALUE_BYTES_MIN: usize = 8;
/// Most bytes of a value: servers take no longer header.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Fewest bytes of a placeholder, for the same reason as of a value.
const PLACEHOLDER_BYTES_MIN: usize = 16;
const PLACEHOLDER_BYTES_MAX: usize = 256;

/// A value with its name and what stands for it.
pub struct Secret {
    name: String,
    value: Zeroizing<Vec<u8>>,
    placeholder: String,
}

/// Why something is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Too short to be found again, or too long to be sent.
    #[error("a secret has {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes")]
    Length,
    /// What stands for it would be changed on its way, or found where it is not meant.
    #[error(
        "a placeholder has {PLACEHOLDER_BYTES_MIN} to {PLACEHOLDER_BYTES_MAX} letters, digits, \"-\" and \"_\""
    )]
    Placeholder,
    /// There are no random bytes.
    #[error("the kernel gives no random bytes")]
    Random,
}

/// Why a value cannot go along with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CarryError {
    /// Not UTF-8.
    #[error("it is not text, so that no request can carry it")]
    NotText,
    /// No secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Not in this form.
    #[error(transparent)]
    Injection(#[from] InjectionError),
}

/// A value as text, if requests can carry it in this form.
///
/// # Errors
///
/// See [`CarryError`].
pub fn carried<'a>(value: &'a [u8], form: &Form) -> Result<&'a str, CarryError> {
    let text = std::str::from_utf8(value).map_err(|_| CarryError::NotText)?;
    let secret = Secret::new("", value.to_vec(), "-".repeat(PLACEHOLDER_BYTES_MIN))?;
    Injection::new(Arc::new(secret), form.clone())?;
    Ok(text)
}

impl Secret {
    /// A secret of some name.
    ///
    /// # Errors
    ///
    /// See [`SecretError`].
    pub fn new(
        name: impl Into<String>,
        value: Vec<u8>,
        placeholder: impl Into<String>,
    ) -> Result<Self, SecretError> {
        let (value, placeholder) = (Zeroizing::new(value), placeholder.into());
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len()) {
            return Err(SecretError::Length);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (PLACEHOLDER_BYTES_MIN..=PLACEHOLDER_BYTES_MAX).contains(&placeholder.len());
        if !fits || !placeholder.bytes().all(is_plain) {
            return Err(SecretError::Placeholder);
        }
        Ok(Self { name: name.into(), value, placeholder })
    }

    /// A new placeholder for a secret of some name.
    ///
    /// # Errors
    ///
    /// [`SecretError::Random`].
    pub fn placeholder_for(name: &str) -> Result<String, SecretError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| SecretError::Random)?;
        let plain = |byte: char| if byte.is_ascii_alphanumeric() { byte } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        Ok(format!("atoll_{name}_{:032x}", u128::from_be_bytes(random)))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stands for it inside.
    #[must_use]
    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All secrets of a sandbox, wherever they are for.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    all: Vec<Arc<Secret>>,
}

impl Secrets {
    /// These.
    #[must_use]
    pub const fn new(all: Vec<Arc<Secret>>) -> Self {
        Self { all }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Secret>> {
        self.all.iter()
    }

    /// Those whose placeholders are in a text.
    pub fn found_in<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a Arc<Secret>> {
        let has =
            |secret: &&Arc<Secret>| memmem::find(text, secret.placeholder.as_bytes()).is_some();
        self.all.iter().filter(has)
    }
}

#[cfg(test)]
mod tests;
