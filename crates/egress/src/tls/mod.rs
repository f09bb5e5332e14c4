//! TLS, as far as it is looked at or opened.
//!
//! [`first`] tells from the first bytes of a connection what it speaks and for whom it is
//! meant. What passes through goes on with the bytes that were read; what is opened is
//! accepted by [`open`] with a certificate of the sandbox's own [`Authority`], and connected
//! anew to the true host by [`Upstream`].

mod authority;
mod hello;
mod open;
mod replayed;
mod upstream;

pub use authority::{Authority, AuthorityError};
pub use hello::{First, FirstError, HelloLimits, first, first_of};
pub use open::{OpenError, Opened, open};
pub use replayed::Replayed;
pub use upstream::{ConnectError, Offer, Upstream};

use rustls::crypto::CryptoProvider;
use std::sync::{Arc, LazyLock};

/// The one provider of cryptography.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

/// How HTTP/2 is called when TLS is set up (RFC 7301).
const H2: &[u8] = b"h2";
/// The same for HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";

#[cfg(test)]
mod tests;
