//! Certificates of authorities that programs inside trust beside those of the system.

use super::java;
use super::seen::{Seen, Stack};
use crate::spec::{Entry, What};
use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions have the certificates of the authorities that they trust.
pub const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Where the certificates are inside.
#[derive(Debug, Clone, Copy)]
pub struct Trust {
    /// The sandbox's own, after those that the user has named: without the system's.
    pub own: &'static str,
    /// Those of the system with the sandbox's own.
    pub bundle: &'static str,
}

/// The only places.
pub const TRUST: Trust =
    Trust { own: "/run/atoll-trust/own.pem", bundle: "/run/atoll-trust/all.pem" };

/// Variables by which programs take other authorities in place of their own.
const BUNDLE_VARIABLES: [&str; 8] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// Variables by which programs take an authority beside their own.
const OWN_VARIABLES: [&str; 2] = ["DENO_CERT", "NODE_EXTRA_CA_CERTS"];

/// Variables by which programs take the system's authorities that have others built in.
const SWITCHES: [(&str, &str); 3] =
    [("DENO_TLS_CA_STORE", "system"), ("UV_NATIVE_TLS", "1"), ("UV_SYSTEM_CERTS", "1")];

impl Trust {
    /// Variables that lead programs there that do not look where the system has its
    /// certificates.
    pub fn variables(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let bundle = BUNDLE_VARIABLES.map(|name| (name, self.bundle));
        let own = OWN_VARIABLES.map(|name| (name, self.own));
        SWITCHES.into_iter().chain(bundle).chain(own)
    }
}

/// Whom programs are to trust.
#[derive(Debug)]
pub struct Trusted<'a> {
    /// Those that the user has named in place of the system's, in PEM.
    pub named: Option<Vec<u8>>,
    /// The sandbox's own, in PEM.
    pub certificate: &'a str,
}

/// What comes to a view that is whole otherwise for programs in it to trust these: bundles of
/// certificates, which also lie over every one that the view has, and the same for the stores of
/// Java's runtimes, since some programs ask no variable where to look. `stacks` is what can be
/// written in it, or behind it.
#[must_use]
pub fn trust(
    view: &[Entry],
    stacks: &[Stack<'_>],
    home: &Path,
    trusted: &Trusted<'_>,
) -> Vec<Entry> {
    let seen = Seen { view, stacks };
    // A link leads to another one of them.
    let has = |at: &&&str| seen.file(Path::new(at)).is_some();
    let system = || BUNDLES.iter().find_map(|at| seen.read(Path::new(at)));
    // An image without any may have programs that bring theirs, and are led away from them.
    let host = || BUNDLES.iter().find_map(|path| fs::read(path).ok());
    let mut bundle = trusted.named.clone().or_else(system).or_else(host).unwrap_or_default();
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    let certificate = trusted.certificate.as_bytes();
    bundle.extend(certificate);
    // Who has others built in learns of those that the user has named here.
    let own = if trusted.named.is_some() { bundle.clone() } else { certificate.to_vec() };
    let twins = BUNDLES.iter().filter(has).map(|at| {
        let of = PathBuf::from(TRUST.bundle);
        Entry::new(*at, What::Twin { of })
    });
    let own = [Entry::file(TRUST.own, own), Entry::file(TRUST.bundle, bundle)];
    own.into_iter().chain(twins).chain(java::stores(seen, home, trusted)).collect()
}
